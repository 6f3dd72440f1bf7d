#!/bin/sh
# hooks.sh place|leave: for the package's scripts, as root. Slurm drains a node whose Prolog or Epilog
# is missing, be it for a second. So what Slurm calls is no file of the package, which vanishes with it,
# but a link, put in its place by rename.
#
#   place    each link leads to the hook of the package
#   leave    before the package goes, and after: where Slurm still calls us, or can not be asked, each
#            link leads to an empty hook that lets every job pass; else nothing is left
set -eu
share=/opt/slurm-failover/share/slurm-failover
hooks='prolog/prolog.sh prolog/healthcheck.sh prolog/task_prolog.sh prolog/prolog_slurmctld.sh
    epilog/epilog.sh epilog/epilog_slurmctld.sh'

link_all() { # link_all FOLDER: each hook is that of FOLDER, without a moment in which there is none
    for hook in $hooks; do
        mkdir -p "$share/${hook%/*}"
        rm -f "$share/$hook.new"
        ln -s "../$1/$hook" "$share/$hook.new"
        mv -f "$share/$hook.new" "$share/$hook"
    done
}

place() {
    link_all packaged
    rm -rf "$share/empty"
}

is_called() { # does slurm.conf name a hook of ours, or slurmctld, which may have read another one?
    for place in "${SLURM_CONF:-/etc/slurm/slurm.conf}" /etc/slurm /run/slurm/conf; do
        found=$(grep -rhsE --include='*.conf' --include='slurm-failover-*.sh' "$share/(prolog|epilog)/" "$place") || continue
        if echo "$found" | grep -qv '^[[:space:]]*#'; then return 0; fi
    done
    command -v scontrol >/dev/null || return 1
    if config=$(timeout 20 scontrol show config 2>/dev/null); then
        case $config in *"$share/"*) return 0 ;; *) return 1 ;; esac
    fi
    command -v slurmd >/dev/null || command -v slurmctld >/dev/null
}

leave_empty() {
    for hook in $hooks; do
        mkdir -p "$share/empty/${hook%/*}"
        printf '#!/bin/sh\n# Left by slurm-failover, since Slurm still calls it.\nexit 0\n' >"$share/empty/$hook"
        chmod 755 "$share/empty/$hook"
    done
    cp "$0" "$share/empty/hooks.sh.new"
    mv "$share/empty/hooks.sh.new" "$share/empty/hooks.sh"
    link_all empty
    cat >&2 <<END
slurm-failover: Slurm still calls our hooks here, or does not say that it does not. Empty ones, which
let every job pass, stay in $share, since Slurm drains a node whose Prolog is missing.
To finish: take the lines between "slurm-failover: begin" and "slurm-failover: end" out of slurm.conf
and plugstack.conf (or install the package again, run \`slurm-failover uninstall --apply\`, and remove it), then
\`scontrol reconfigure\`, then on each host: sh $share/empty/hooks.sh leave
END
}

leave_nothing() {
    for hook in $hooks; do rm -f "$share/$hook"; done
    rm -rf "$share/empty"
    for folder in "$share/prolog" "$share/epilog" "$share" "${share%/*}" "${share%/*/*}"; do
        rmdir "$folder" 2>/dev/null || true
    done
}

forget_since_when() { # we act on this controller: what fails while we are away stays so
    set_to='s/^[[:space:]]*directory[[:space:]]*=[[:space:]]*["'\'']\([^"'\'']*\).*/\1/p'
    table='^[[:space:]]*\[[[:space:]]*'
    state=$(sed -n "/${table}state[[:space:]]*\]/,/$table/$set_to" /etc/slurm-failover/settings.toml 2>/dev/null) || :
    rm -f "${state:-/var/lib/slurm-failover}/controller/since" || :
}

case ${1-} in
place) place ;;
leave)
    if is_called; then leave_empty; else leave_nothing; fi
    forget_since_when
    ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
