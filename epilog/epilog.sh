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
look 45
status=$?
[ $status -le 128 ] || { look 10; status=$?; } # killed, before it could leave word for a later look
[ $status -ne 100 ]
