"""The C parser of --failover: its own tests, and that all who read the flag agree on its limit."""

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
from lua_host import VERSIONS, LuaHost

from slurm_failover.optin import SITE_DEFAULT
from slurm_failover.settings.tables import FailoverSettings

SPANK = Path(__file__).parent.parent.parent / "plugins" / "spank"
HEADER = (SPANK / "failover_option.h").read_text()


@pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")),
    reason="no C compiler here; the live tests build and check the plugin as well",
)
def test_make_check_passes_with_sanitizers_and_warnings_as_errors(tmp_path):
    shutil.copytree(
        SPANK, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.o", "*.so")
    )
    sanitized = "CFLAGS=-O1 -g -fsanitize=address,undefined -fno-sanitize-recover"
    done = subprocess.run(
        ["make", "-C", tmp_path, "clean", "check", sanitized],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^(\d+) of \1 texts are read as expected$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("version", VERSIONS)
def test_plugin_scripts_and_settings_have_one_upper_limit(version):
    limit = int(re.search(r"#define FAILOVER_MAX (\d+)", HEADER)[1])
    settings = {field.name: field for field in fields(FailoverSettings)}
    requests = LuaHost(version).load("slurm_failover_request")
    assert limit == requests.MAX
    assert settings["max_retries"].metadata["at_most"] == limit


def test_plugin_and_hooks_have_one_word_for_the_sites_default():
    assert re.search(r'#define FAILOVER_SITE_DEFAULT "(\w+)"', HEADER)[1] == SITE_DEFAULT
