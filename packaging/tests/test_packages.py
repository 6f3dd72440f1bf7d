"""The packages on fresh hosts of each release, as an admin uses them: install, update, remove."""

from __future__ import annotations

import pytest
from host import SETTINGS, SHARE, Host, version

INSTALL = "apt-get install -qy /packages/*.deb"
UNITS = "/usr/lib/systemd/system/slurm-failover-*"
COMPLETIONS = {
    "bash": "/usr/share/bash-completion/completions/slurm-failover",
    "zsh": "/usr/share/zsh/vendor-completions/_slurm-failover",
    "fish": "/usr/share/fish/vendor_completions.d/slurm-failover.fish",
}
SUMS = "find /etc/slurm -type f -exec md5sum {} + | sort"
REMAINS = "find / -xdev -name '*slurm[-_]failover*' -not -path '/packages*' -not -path '/proc/*'"
# The package as an older version had it, with another settings file.
OLDER = f"""set -e
dpkg-deb -R /packages/slurm-failover_*.deb /tmp/older
sed -i 's/^Version: /&0.0.1~/' /tmp/older/DEBIAN/control
echo '# an older remark' >/tmp/older{SETTINGS}
dpkg-deb -Znone -b /tmp/older /tmp/older.deb
apt-get install -qy /tmp/older.deb
"""


@pytest.fixture
def cluster(host: Host) -> Host:
    """A cluster of one host where Slurm calls us, all by the package."""
    host.start_slurm()
    host.check(INSTALL)
    host.check("slurm-failover install --apply")
    host.reconfigure()
    return host


def test_an_admin_installs_without_any_index_and_all_is_in_its_place(host: Host) -> None:
    host.check(INSTALL)
    said = host.check("slurm-failover --version", user="nobody")
    assert said.split()[-1] == version()
    assert host.check("man -w slurm-failover").strip().endswith("man1/slurm-failover.1.gz")
    assert "man5" in host.check("man -w slurm-failover-settings")
    assert host.check(f"systemd-analyze verify {UNITS}") == ""
    assert "error" not in host.check("logrotate -d /etc/logrotate.d/slurm-failover")
    for shell, file in COMPLETIONS.items():
        assert "slurm-failover" in host.check(f"cat {file}")
        host.check(f"{shell} -n {file}")
    assert SETTINGS in host.check("cat /var/lib/dpkg/info/slurm-failover.conffiles")
    after = host.check("cat /var/lib/dpkg/info/slurm-failover.postinst")
    assert "slurm-failover-watch.service" in after, "an update starts a running watcher again"
    assert "slurm_failover.so" in host.check("dpkg -L slurm-failover-spank")


def test_use_as_root_adds_nothing_to_the_packages_files(host: Host) -> None:
    host.check(INSTALL)
    every = "find /opt/slurm-failover | sort"
    before = host.check(every)
    host.check(f"slurm-failover explain 79; SLURM_JOB_ID=1 {SHARE}/prolog/prolog.sh")
    host.check(f"{SHARE}/prolog/healthcheck.sh; slurm-failover status || true")
    assert host.check(every) == before
    assert host.check("dpkg --verify slurm-failover slurm-failover-spank") == ""


def test_on_a_stock_cluster_install_shows_and_does_what_doctor_wants(host: Host) -> None:
    host.start_slurm()
    host.check(INSTALL)
    before = host.check(SUMS)
    assert f"+Prolog={SHARE}/prolog/prolog.sh" in host.check("slurm-failover install")
    assert host.check(SUMS) == before
    host.check("slurm-failover install --apply")
    host.reconfigure()
    host.check(f"touch /root/kmsg; printf '[sources]\\nkmsg = \"/root/kmsg\"\\n' >{SETTINGS}")
    assert "has not run here yet" in host.run("slurm-failover doctor")[1]
    host.check("runuser -u slurm -- slurm-failover reconcile")
    status, said = host.run("slurm-failover doctor")
    assert (status, "error" in said) == (1, False), said
    lacks = ("NVML", "ccount", "/dev/log")  # what this bare host has none of
    for line in said.splitlines():
        assert "warning" not in line or any(what in line for what in lacks), said
    assert "--failover" in host.check("sbatch --help")
    assert host.run_job() == "it ran\n"


def test_an_update_keeps_an_edited_settings_file(host: Host) -> None:
    host.check(OLDER)
    host.check(f"printf '[failover]\\nmax_retries = 7\\n' >{SETTINGS}")
    host.check(f"DEBIAN_FRONTEND=noninteractive {INSTALL} -o Dpkg::Options::=--force-confold")
    assert "0.0.1~" not in host.check("dpkg-query -W slurm-failover")
    assert "max_retries = 7" in host.check(f"cat {SETTINGS}")


def test_an_update_replaces_a_settings_file_that_nobody_edited(host: Host) -> None:
    host.check(OLDER)
    host.check(INSTALL)
    assert "an older remark" not in host.check(f"cat {SETTINGS}")


def test_no_hook_is_missing_for_a_moment_while_the_package_is_updated(host: Host) -> None:
    host.check(OLDER)
    with host.no_hook_missing():
        host.check(INSTALL)


def test_a_removal_while_slurm_calls_us_fails_no_job_and_drains_no_node(cluster: Host) -> None:
    with cluster.no_hook_missing():
        said = cluster.check("apt-get remove -qy slurm-failover slurm-failover-spank")
    assert "Slurm still calls our hooks" in said
    assert "it ran" in cluster.run_job()

    assert "Slurm still calls our hooks" in cluster.check("apt-get purge -qy slurm-failover")
    assert "it ran" in cluster.run_job()
    assert cluster.check("sinfo -h -R") == ""

    cluster.check("sed -i '/slurm-failover: begin/,/slurm-failover: end/d' /etc/slurm/slurm.conf")
    cluster.check("rm /etc/slurm/job_submit.lua /etc/slurm/plugstack.conf")
    cluster.reconfigure()
    cluster.check(f"sh {SHARE}/empty/hooks.sh leave")
    assert cluster.run("ls /opt/slurm-failover")[0] != 0
    assert cluster.run_job() == "it ran\n"


def test_a_removal_while_slurm_can_not_be_asked_leaves_hooks_as_well(cluster: Host) -> None:
    cluster.check("slurm-failover uninstall --apply")
    cluster.check("cluster-daemon kill slurmctld")
    cluster.check("apt-get purge -qy slurm-failover")
    cluster.check(f"{SHARE}/prolog/prolog.sh && {SHARE}/epilog/epilog.sh")


def test_a_package_that_comes_back_takes_the_place_of_the_empty_hooks(cluster: Host) -> None:
    cluster.check("apt-get remove -qy slurm-failover")
    assert "Left by slurm-failover" in cluster.check(f"cat {SHARE}/prolog/prolog.sh")
    cluster.check(INSTALL)
    assert "hooks.py prolog" in cluster.check(f"cat {SHARE}/prolog/prolog.sh")
    assert cluster.run(f"ls {SHARE}/empty")[0] != 0
    assert "all in place" in cluster.check("slurm-failover install")


def test_after_uninstall_and_purge_nothing_is_left(cluster: Host) -> None:
    cluster.check("slurm-failover uninstall --apply")
    cluster.reconfigure()
    cluster.check("slurm-failover uninstall --apply")
    cluster.check("apt-get purge -qy slurm-failover slurm-failover-spank")
    assert cluster.check(REMAINS) == ""
    assert cluster.run_job() == "it ran\n"


def test_after_a_removal_settings_and_state_stay(cluster: Host) -> None:
    cluster.check("slurm-failover uninstall --apply")
    cluster.reconfigure()
    cluster.check("apt-get remove -qy slurm-failover slurm-failover-spank")
    assert cluster.run("ls /opt/slurm-failover")[0] != 0
    cluster.check(f"ls {SETTINGS} /var/lib/slurm-failover/backup")


def test_the_package_takes_over_an_installation_by_pip(host: Host) -> None:
    old = host.install_by_pip()
    host.check(INSTALL)
    assert host.run(f"ls {old}")[0] != 0
    assert "hooks.py prolog" in host.check(f"cat {SHARE}/prolog/prolog.sh")


def test_the_plugins_package_wants_the_slurm_that_it_was_built_for(host: Host) -> None:
    depends = host.check("dpkg-deb -f /packages/slurm-failover-spank_*.deb Depends")
    assert f"slurm-wlm-basic-plugins (>= {host.slurm()}~)" in depends
    assert "slurm-wlm-basic-plugins (<< " in depends
    wants = host.check("dpkg-deb -f /packages/slurm-failover_*.deb Depends")
    assert f"python3 (>= {host.python()}~)" in wants


def test_lintian_finds_nothing(builder: Host) -> None:
    said = builder.check("lintian --allow-root --fail-on error,warning /packages/*.deb")
    assert said == ""
