#!/bin/sh
# Slurm's HealthCheckProgram: root, on each node, every HealthCheckInterval. Is there a new fault?
# It drains by itself; Slurm only logs the exit status.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
lock=/run/slurm-failover/watch.lock # held by a live watcher, which does this work at once
[ ! -e "$lock" ] || flock -n "$lock" true || exit 0
home=${0%/share/slurm-failover/*}
timeout -k 5 45 "$home"/bin/python3 -I -S "$home"/lib/python3*/site-packages/slurm_failover/hooks.py healthcheck
exit 0
