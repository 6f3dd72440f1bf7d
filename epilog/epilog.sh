#!/bin/sh
# Slurm's Epilog: root, on each node, at the end of the job there. The last look over its time.
# Only a verdict fails: Slurm then drains the node, should our own drain not have arrived.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
home=${0%/share/slurm-failover/*}
. "$home"/share/slurm-failover/ask_watcher.sh
is_vouched_for && exit 0
# Without --preserve-status a verdict that came as the time ran out would read as a time-out.
look() { timeout --preserve-status -k 5 "$1" "$home"/bin/python3 -I -S "$home"/lib/python3*/site-packages/slurm_failover/hooks.py epilog; }
read -r began _ </proc/uptime
look 45
status=$?
read -r ended _ </proc/uptime
# Killed, before it could leave word for a later look. What hangs until its time is over hangs again.
[ $status -le 128 ] || [ $((${ended%.*} - ${began%.*})) -gt 30 ] || { look 10; status=$?; }
[ $status -ne 137 ] || timeout 2 logger -t slurm-failover -p daemon.err "epilog: killed, or left behind after 50 s; no verdict"
[ $status -ne 100 ]
