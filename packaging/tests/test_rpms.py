"""The .rpm packages with dnf: install, update, remove.

The hosts are Debian's, of whose packages rpm knows nothing: a stand-in provides what ours require.
"""

from __future__ import annotations

import pytest
from host import SETTINGS, SHARE, Host, version

INSTALL = "dnf install -y /packages/*.rpm"
# A package without files. rpm's own macros, so that it is of this host's kind.
STAND_IN = """Name: distribution
Version: {slurm}
Release: 1
Summary: What a distribution has already
License: MIT
Provides: /bin/sh
Provides: python(abi) = {python}
Provides: slurm%{{?_isa}} = {slurm}
{libraries}
%description
Nothing.
%files
"""
# An older version, as far as the settings file goes.
OLDER = f"""Name: slurm-failover
Version: 0.0.1
Release: 1
Summary: As it was
License: MIT
%description
Nothing.
%install
mkdir -p %{{buildroot}}/etc/slurm-failover
echo '# an older remark' >%{{buildroot}}{SETTINGS}
%files
%config(noreplace) {SETTINGS}
"""
LIBRARIES = "rpm -qp --requires /packages/*.rpm | sed -n '/^lib\\|^rtld/s/^/Provides: /p'"


def install_made(host: Host, spec: str) -> None:
    """Build a package of a spec file, and install it."""
    host.check(f"rm -rf /tmp/made; cat >/tmp/made.spec <<'SPEC'\n{spec}SPEC")
    host.check("rpmbuild -bb --define '_topdir /tmp/made' /tmp/made.spec")
    host.check("dnf install -y /tmp/made/RPMS/*/*.rpm")


def provide(host: Host, slurm: str) -> None:
    """Let rpm know of this host's Python and libraries, and of a Slurm of that release."""
    # A container may not unshare what rpm would for a package's scripts.
    host.check("mkdir -p /etc/rpm && echo '%__transaction_unshare %{nil}' >/etc/rpm/macros.here")
    libraries = host.check(LIBRARIES)
    install_made(host, STAND_IN.format(slurm=slurm, python=host.python(), libraries=libraries))


@pytest.fixture
def rpm_host(builder: Host) -> Host:
    """A host where dnf finds all that our packages want."""
    provide(builder, f"{builder.slurm()}.5")
    return builder


def test_the_rpms_want_the_python_and_the_slurm_that_they_were_built_for(builder: Host) -> None:
    wants = builder.check("rpm -qp --requires /packages/slurm-failover-[0-9]*.rpm")
    assert f"python(abi) = {builder.python()}\n" in wants
    status, said = builder.run(INSTALL)
    assert status != 0
    assert f"nothing provides python(abi) = {builder.python()}" in said


@pytest.mark.parametrize("release", ["20.02.7", "99.05.1"])
def test_dnf_refuses_the_plugin_of_another_slurm(builder: Host, release: str) -> None:
    provide(builder, release)
    builder.check("dnf install -y /packages/slurm-failover-[0-9]*.rpm")
    status, said = builder.run("dnf install -y /packages/slurm-failover-spank-*.rpm")
    assert status != 0
    assert "nothing provides slurm" in said


def test_a_stock_cluster_fails_over_with_the_rpms(rpm_host: Host) -> None:
    rpm_host.start_slurm()
    rpm_host.check(INSTALL)
    assert rpm_host.check("slurm-failover --version", user="nobody").split()[-1] == version()
    assert rpm_host.check("rpm -V slurm-failover slurm-failover-spank") == ""
    rpm_host.check("slurm-failover install --apply")
    rpm_host.reconfigure()
    assert "--failover" in rpm_host.check("sbatch --help")
    assert "hooks.py prolog" in rpm_host.check(f"cat {SHARE}/prolog/prolog.sh")
    assert rpm_host.run_job() == "it ran\n"

    with rpm_host.no_hook_missing():
        rpm_host.check("dnf reinstall -y /packages/*.rpm")
        said = rpm_host.check("dnf remove -y slurm-failover slurm-failover-spank")
    assert "Slurm still calls our hooks" in said
    assert "it ran" in rpm_host.run_job()
    assert rpm_host.check("sinfo -h -R") == ""


def test_where_slurm_calls_none_of_ours_dnf_removes_all_but_edited_settings(rpm_host: Host) -> None:
    rpm_host.start_slurm()
    rpm_host.check(INSTALL)
    rpm_host.check(f"echo '# edited' >>{SETTINGS}")
    rpm_host.check("dnf remove -y slurm-failover slurm-failover-spank")
    assert rpm_host.run("ls /opt/slurm-failover")[0] != 0
    assert "# edited" in rpm_host.check(f"cat {SETTINGS}*")


def test_dnf_keeps_an_edited_settings_file_and_replaces_one_that_nobody_edited(
    rpm_host: Host,
) -> None:
    install_made(rpm_host, OLDER)
    rpm_host.check(INSTALL)
    assert "an older remark" not in rpm_host.check(f"cat {SETTINGS}")
    rpm_host.check("dnf remove -y slurm-failover slurm-failover-spank")
    install_made(rpm_host, OLDER)
    rpm_host.check(f"echo '# edited' >{SETTINGS}")
    rpm_host.check(INSTALL)
    assert rpm_host.check(f"cat {SETTINGS}") == "# edited\n"


def test_the_rpm_takes_over_an_installation_by_pip(rpm_host: Host) -> None:
    old = rpm_host.install_by_pip()
    rpm_host.check(INSTALL)
    assert rpm_host.run(f"ls {old}")[0] != 0
    assert "hooks.py prolog" in rpm_host.check(f"cat {SHARE}/prolog/prolog.sh")
