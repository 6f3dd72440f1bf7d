# For hooks to source. The watcher's folder is root's alone; ask.py is the same in Python.

# is_watched SINCE: does this node's watcher live and, asked now, has it read all that the kernel has
# written? $said is then what it knows: clean, busy or blind. One that is dead, hangs or was stopped
# does not answer.
is_watched() {
    watch=/run/slurm-failover/watch said=
    [ -p $watch/ask ] && read -r pid <$watch/pid && [ -e "/proc/$pid" ] || return 1
    mkfifo -m 600 $watch/answer.$$ || return 1
    said=$(timeout 1 sh -c 'exec 3<>"$1/answer.$2" 4<>"$1/ask" && echo "$2 $3" >&4 && read -r said <&3 &&
        echo "$said"' sh $watch $$ "$1")
    rm -f $watch/answer.$$
    [ -n "$said" ]
}

# is_vouched_for: is the watcher's word enough at the end of this job? A flagged one must have ended
# well, or it is looked at in full. Under PrologFlags=RunInJob the status is always 0, and the end is
# that of the time limit (seen on 24.11.5).
is_vouched_for() {
    since=0
    case ${SPANK_FAILOVER+failover}${SLURM_JOB_COMMENT-} in *failover*)
        since=${SLURM_JOB_START_TIME-} end=${SLURM_JOB_END_TIME-}
        [ "${SLURM_JOB_EXIT_CODE-}" = 0 ] && [ -n "$since" ] && [ -n "$end" ] || return 1
        [ "$end" -le $(($(date +%s) + 60)) ] || return 1
        ;;
    # It was flagged when it started: what was laid out for it is to be taken away.
    *) [ ! -e "/run/slurm-failover/$SLURM_JOB_ID.start" ] || return 1 ;;
    esac
    is_watched "$since" && [ "$said" = clean ] || return 1
    [ "$since" = 0 ] || rm -f "/run/slurm-failover/$SLURM_JOB_ID" "/run/slurm-failover/$SLURM_JOB_ID.start"
}
