"""Options of the whole test suite."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from retries import print_retries
from scenarios import print_table

from slurm_failover.node import alone

# No test is judged by the clock, and none by what an earlier run left on this machine.
settings.register_profile("anywhere", deadline=None, database=None)
settings.load_profile("anywhere")

# Whoever started the tests in the background may have had them, and what they start, ignore both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


# A hook of pytest. It stands here since a process that collects nothing loads no deeper conftest.
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was tried again, and the table of the rig."""
    print_retries(terminalreporter)
    print_table(terminalreporter)


@pytest.fixture(scope="session", autouse=True)
def _locks_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No health check here keeps one of the host's out, or of another process of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alone, "FOLDER", str(tmp_path_factory.mktemp("locks")))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which Slurm the live tests run on."""
    parser.addoption(
        "--suite",
        default="trixie",
        choices=("trixie", "forky"),
        help="Debian suite of the live cluster's image: trixie (Slurm 24.11) or forky (26.05)",
    )
    parser.addoption(
        "--client",
        default="auto",
        choices=("auto", "scontrol"),
        help="auto: pyslurm where the live cluster has it; scontrol: it is taken away before",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="break things at every pair of steps, where a sample of the pairs is played otherwise",
    )
