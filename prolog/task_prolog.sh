#!/bin/sh
# Slurm's TaskProlog: the job's user, before each task. Gives a flagged job SLURM_FAILOVER_ATTEMPT,
# _REASON and _EXCLUDED_NODES, from a file that only root writes.
[ -r "/run/slurm-failover/$SLURM_JOB_ID" ] || exit 0
while IFS= read -r line; do printf '%s\n' "$line"; done <"/run/slurm-failover/$SLURM_JOB_ID"
