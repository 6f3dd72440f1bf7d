"""Entry points of Slurm's hooks, run as a script: ``python3 -I -S hooks.py NAME``.

Isolated (-I) from the environment of whoever started it and without site-packages (-S), since a
healthy hook needs neither; what a fault needs lies beside this package. The one broad except of
the hooks is here: a bug of ours is logged, is no verdict, and never drains a node.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_failover.settings.tables import Settings

    Say = Callable[[str], None]

VERDICT = 100
"""The exit status of a verdict against the node; any other status says nothing about it."""
OPENED = "/run/slurm-failover"
"""The folder of attempts.py, which is not imported for a job that has nothing there."""


def main(arguments: list[str], begin: Callable[[], None] = lambda: None) -> int:
    """Run the hook named by the only argument; its exit status is VERDICT or 0. ``begin`` is called
    before any file of the site's is touched.
    """
    from slurm_failover.log import Log
    from slurm_failover.settings.file import load_settings

    begin()
    name = arguments[0] if arguments else ""
    log = Log(name)
    try:
        settings = load_settings()
        observes = settings.failover.mode == "observe"
        log = Log(f"{name} (observes only)" if observes else name, settings.state.log)
        say: Say = log.say
        if observes:
            from slurm_failover.deed import in_mode

            say = in_mode(settings.failover.mode, log.say)
        return VERDICT if HOOKS[name](settings, say) else 0
    except Exception as error:  # noqa: BLE001 - the boundary
        log.say(_explain(error))
        return 0


def let_go_of_output() -> None:
    """Keep nothing open that Slurm reads. It takes a process that does for the hook, and one that
    sleeps on a dead disk (state D) outlives its killing: the job would wait for that disk.
    """
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
    except OSError:  # no handle is left, and few files can be opened to sleep on
        return
    for handle in (1, 2):
        os.dup2(nowhere, handle)
    os.close(nowhere)


def give_up(*_: object) -> None:
    """End a hook whose time is over: its script sends SIGTERM then (timeout(1))."""
    from slurm_failover.errors import HookEnded

    raise HookEnded("the hook was ended before it was done")


def _prolog(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.checks import NodeChecks

    verdict = False
    try:
        verdict = NodeChecks(os.environ, settings, say).check_job_start()
    finally:
        # Without a verdict the job starts, whatever kept us from one.
        if not verdict and _may_be_flagged():
            from slurm_failover.node.attempts import open_attempt

            open_attempt(os.environ, settings, say)
    return verdict


def _health_check(settings: Settings, say: Say) -> bool:
    from slurm_failover.node import alone
    from slurm_failover.node.checks import NodeChecks

    with alone.only_one(alone.FOLDER, say) as is_only:
        return is_only and NodeChecks(os.environ, settings, say).check_health()


def _epilog(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.checks import NodeChecks

    verdict = False
    try:
        verdict = NodeChecks(os.environ, settings, say).check_job_end()
    finally:
        if _may_be_flagged() or _is_open():
            from slurm_failover.node.attempts import close_attempt

            close_attempt(os.environ, settings, say, moves=verdict)
    return verdict


def _prolog_slurmctld(settings: Settings, say: Say) -> bool:
    return _serve_hook("prolog_slurmctld", settings, say)


def _epilog_slurmctld(settings: Settings, say: Say) -> bool:
    return _serve_hook("epilog_slurmctld", settings, say)


def _serve_hook(kind: str, settings: Settings, say: Say) -> bool:
    from slurm_failover.controller.arrivals import Kind
    from slurm_failover.controller.work import serve_hook

    if serve_hook(Kind(kind), os.environ, settings, say):
        from slurm_failover.detach import start_detached

        start_detached("decide")
    return False


def _faults(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.checks import NodeChecks

    return NodeChecks(os.environ, settings, say).check_faults()


def _watch(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.service import watch_node

    watch_node(settings, say, __file__)
    return False


def _decide(settings: Settings, say: Say) -> bool:
    from slurm_failover.controller.work import decide_waiting

    decide_waiting(settings, say)
    return False


def _tell_verdict(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.telling import tell_verdict

    tell_verdict(os.environ, settings, say)
    return False


def _tell_end(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.untold import tell_end

    tell_end(os.environ, settings, say)
    return False


def _stop_job(settings: Settings, say: Say) -> bool:
    from slurm_failover.node.checkpoint import stop_after_grace

    stop_after_grace(os.environ, settings, say)
    return False


def _notify(settings: Settings, say: Say) -> bool:
    from slurm_failover.notify import run_program

    run_program(os.environ, settings, say)
    return False


def _may_be_flagged() -> bool:
    return "SPANK_FAILOVER" in os.environ or "failover" in os.environ.get("SLURM_JOB_COMMENT", "")


def _is_open() -> bool:
    """Whether this job's attempt was opened here: its owner may have changed the Comment since."""
    start = f"{OPENED}/{os.environ.get('SLURM_JOB_ID', '')}.start"
    return os.path.exists(start)  # noqa: PTH110 - no pathlib on a hook's path


def _explain(error: Exception) -> str:
    from slurm_failover.errors import FailoverError, HookEnded

    if isinstance(error, (FailoverError, HookEnded)):
        return f"no verdict: {error}"
    import traceback

    return "no verdict: " + "".join(traceback.format_exception(error))


HOOKS: dict[str, Callable[[Settings, Say], bool]] = {
    "prolog": _prolog,
    "healthcheck": _health_check,
    "epilog": _epilog,
    "prolog_slurmctld": _prolog_slurmctld,
    "epilog_slurmctld": _epilog_slurmctld,
    "decide": _decide,
    "tell_verdict": _tell_verdict,
    "tell_end": _tell_end,
    "stop_job": _stop_job,
    "notify": _notify,
    "faults": _faults,
    "watch": _watch,
}

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    signal.signal(signal.SIGTERM, give_up)
    status = main(sys.argv[1:], let_go_of_output)
    # All is written and closed: to take the interpreter down by the book would cost 5 ms a hook.
    os._exit(status)
