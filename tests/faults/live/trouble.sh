#!/bin/bash
# Stands for scontrol, squeue, scancel and sacct in the folder that `[slurm] bin` names: counts the calls on
# this host, and at the call of number N does what the test laid down in /shared/trouble/HOST as "N KIND".
# Its caller is the process of ours that asks.
exec 9>>/shared/steps/lock
flock 9
own=/shared/steps/$(hostname)
count=$(($(wc -l <"$own") + 1))
printf '%s %s\n' "${0##*/}" "$*" | tr '\n' ' ' >>"$own"
echo >>"$own"
read -r at kind 2>/dev/null </shared/trouble/"$(hostname)"
[ "${at:-0}" = "$count" ] || kind=none
[ "$kind" = none ] || : >/shared/steps/fired
exec 9>&-

ask() { "/usr/bin/${0##*/}" "$@"; }
silence="scontrol: error: Socket timed out on send/recv operation"
case $kind in
killed_before) kill -KILL "$PPID" ;;
killed_after) ask "$@" && kill -KILL "$PPID" ;;
lost_before) echo "$silence" >&2; exit 1 ;;
lost_after) ask "$@" >/dev/null && echo "$silence" >&2; exit 1 ;;
hangs) exec sleep 120 ;;
slow) sleep 15; ask "$@" ;;
gate)
    for _ in $(seq 600); do
        [ -e /shared/steps/open ] && break
        sleep 0.05
    done
    ask "$@"
    ;;
*) ask "$@" ;;
esac
