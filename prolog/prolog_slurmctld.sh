#!/bin/sh
# Slurm's PrologSlurmctld: SlurmUser, on the controller, at the start of an allocation.
# Records the attempt of a flagged job; for any other job it costs this shell and nothing more.
[ -n "${SPANK_FAILOVER-}" ] || case "${SLURM_JOB_COMMENT-}" in *failover*) ;; *) exit 0 ;; esac
exec "${0%/share/slurm-failover/*}/share/slurm-failover/hand_in.sh" prolog_slurmctld
