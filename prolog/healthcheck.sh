#!/bin/sh
# Slurm's HealthCheckProgram: root, on each node, every HealthCheckInterval. Is there a new fault?
# It drains by itself; Slurm only logs the exit status. A live watcher does this work at once.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
home=${0%/share/slurm-failover/*}
. "$home"/share/slurm-failover/ask_watcher.sh
is_watched 0 && [ "$said" != blind ] && exit 0
timeout -k 5 45 "$home"/bin/python3 -I -S "$home"/lib/python3*/site-packages/slurm_failover/hooks.py healthcheck
[ $? -ne 137 ] || timeout 2 logger -t slurm-failover -p daemon.err "healthcheck: killed, or left behind after 50 s; no verdict"
exit 0
