#!/bin/sh
# Slurm's Prolog: root, on each node, before the job's first process. Is this node fit?
# Only a verdict fails: Slurm then drains the node and requeues the job elsewhere.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
home=${0%/share/slurm-failover/*}
timeout --preserve-status -k 5 45 "$home"/bin/python3 -I -S "$home"/lib/python3*/site-packages/slurm_failover/hooks.py prolog
status=$?
[ $status -ne 137 ] || timeout 2 logger -t slurm-failover -p daemon.err "prolog: killed, or left behind after 50 s; no verdict"
[ $status -ne 100 ]
