#!/bin/sh
# Slurm's EpilogSlurmctld: SlurmUser, on the controller, at the end of an allocation.
# Holds a flagged job that failed; for any other job it costs this shell and nothing more.
[ -n "${SPANK_FAILOVER-}" ] || case "${SLURM_JOB_COMMENT-}" in *failover*) ;; *) exit 0 ;; esac
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
home=${0%/share/slurm-failover/*}
timeout -k 5 45 "$home"/bin/python3 -I -S "$home"/lib/python3*/site-packages/slurm_failover/hooks.py epilog_slurmctld
exit 0
