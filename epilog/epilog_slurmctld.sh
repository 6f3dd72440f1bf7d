#!/bin/sh
# Slurm's EpilogSlurmctld: SlurmUser, on the controller, at the end of an allocation.
# Holds a flagged job that failed; for any other job it costs this shell and nothing more.
[ -n "${SPANK_FAILOVER-}" ] || case "${SLURM_JOB_COMMENT-}" in *failover*) ;; *) exit 0 ;; esac
exec "${0%/share/slurm-failover/*}/share/slurm-failover/hand_in.sh" epilog_slurmctld
