#!/bin/bash
# Stands for scontrol, squeue, scancel and sacct in the folder that `[slurm] bin` names: counts the calls of
# our processes on this host, and at one of them does what the test laid down in /shared/trouble/HOST as
# "WHICH KIND". WHICH is a number, or how the arguments begin; of the kind gate only calls that change
# something are counted. The caller is the process of ours that asks; what people ask by hand passes.
ask() { "/usr/bin/${0##*/}" "$@"; }
grep -qazE 'hooks\.py|reconcile' "/proc/$PPID/cmdline" || { ask "$@"; exit; }
exec 9>>/shared/steps/lock
flock 9
own=/shared/steps/$(hostname)
call=$(printf '%s ' "${0##*/}" "$@" | tr '\n' ' ')
printf '%s\n' "$call" >>"$own"
read -r which kind 2>/dev/null <"/shared/trouble/$(hostname)"
if [ "${kind-}" = gate ]; then
    count=$(grep -cvE '^(squeue|sacct|scontrol (show|ping))' "$own")
    [[ $call =~ ^(squeue|sacct|scontrol (show|ping)) ]] && count=
else
    count=$(wc -l <"$own")
fi
if [ -e /shared/steps/fired ] || [ -z "${which-}" ]; then
    kind=none
elif [ "$which" != "$count" ] && [[ ${call#* } != "$which"* ]]; then
    kind=none
fi
[ "$kind" = none ] || : >/shared/steps/fired
exec 9>&-

silence="scontrol: error: Socket timed out on send/recv operation"
case $kind in
killed_before) kill -KILL "$PPID" ;;
killed_after) ask "$@" && kill -KILL "$PPID" ;;
lost_before) echo "$silence" >&2; exit 1 ;;
lost_after) ask "$@" >/dev/null && echo "$silence" >&2; exit 1 ;;
hangs) exec sleep 120 ;;
slow) ask "$@"; status=$?; sleep 15; exit $status ;;
gate)
    for _ in $(seq 500); do
        [ -e /shared/steps/open ] && break
        sleep 0.05
    done
    ask "$@"
    ;;
*) ask "$@" ;;
esac
