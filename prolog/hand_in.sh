#!/bin/sh
# hand_in.sh prolog_slurmctld|epilog_slurmctld: SlurmUser, on the controller, for a flagged job. Leaves
# what Slurm told in the queue, and waits in line: one hook at a time serves all that wait, so that a
# thousand at once need one interpreter. Never fails: Slurm would requeue a job that starts.
[ "${SLURM_HET_JOB_OFFSET:-0}" = 0 ] || exit 0 # what is done to the leader, Slurm does to all
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
serve=${0%/hand_in.sh}/serve.sh
set_to='s/^[[:space:]]*directory[[:space:]]*=[[:space:]]*["'\'']\([^"'\'']*\).*/\1/p'
table='^[[:space:]]*\[[[:space:]]*' # TOML lets a table's header stand indented, and its name apart
state=$(sed -n "/${table}state[[:space:]]*\]/,/$table/$set_to" /etc/slurm-failover/settings.toml 2>/dev/null)
queue=${state:-/var/lib/slurm-failover}/controller/queue
entry=$queue/$1.$SLURM_JOB_ID.${SLURM_JOB_START_TIME:-0}
nodes=${SLURM_HET_JOB_NODELIST:-$SLURM_JOB_NODELIST}
leave='mkdir -p "$1"; [ -O "$1" ] || exit 3; printf "%s\n" "$3" "$4" >"$2.new" && mv "$2.new" "$2"'
# Where the disk hangs, Slurm would wait for it: reconcile finds this start or end all the same, and so
# where nothing can be written.
timeout -k 1 10 sh -c "$leave" leave "$queue" "$entry" "$nodes" "${SPANK_FAILOVER+=$SPANK_FAILOVER}" \
    >/dev/null 2>&1
case $? in
0) ;;
3) exec "$serve" "$1" "$0" ;; # it says whose the folder should be
*)
    timeout 2 logger -t slurm-failover -p daemon.err "$1: job $SLURM_JOB_ID is left to reconcile: $queue takes nothing"
    exit 0
    ;;
esac
FAILOVER_QUEUE=$queue flock -w 40 "$queue.lock" "$serve" "$1" "$entry"
exit 0
