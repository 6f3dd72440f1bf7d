"""What shells offer at TAB: jobs, nodes and rules. In time or not at all, and without a word."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from slurm_failover.errors import FailoverError
from slurm_failover.settings.file import load_settings
from slurm_failover.settings.tables import DEFAULT_PATH, Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.scontrol import Scontrol

PATIENCE = 2.0
"""Seconds after which a shell gets no offers rather than none yet."""

_TROUBLE = (FailoverError, OSError, ValueError, TypeError, LookupError)
"""What asking Slurm, reading rules and reading odd answers raise; a shell must not see it."""

Offer = tuple[str, str]
"""A word, and a few words on it, which zsh and fish show."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offering(find: Callable[[Settings], Iterable[Offer]]) -> Complete:
    """A completion for click of what ``find`` finds."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        root = context.find_root().params
        try:
            with _bounded(PATIENCE):
                settings = load_settings(str(root.get("settings_path") or DEFAULT_PATH))
                found = list(find(settings))
        except _TROUBLE:
            return []
        return [CompletionItem(word, help=said) for word, said in found if _fits(word, incomplete)]

    return complete


def _fits(word: str, incomplete: str) -> bool:
    """Whether an offer goes on from what was typed. Words come from Slurm, and shells read them
    line by line: an odd one is none.
    """
    return word.startswith(incomplete) and word.isprintable() and " " not in word


def _find_jobs(settings: Settings) -> Iterator[Offer]:
    from slurm_failover.record import tidy
    from slurm_failover.view.job import is_flagged

    for job in _connect(settings).jobs():
        if is_flagged(job) and not job.is_led:
            state = min(job.states, default="")
            yield job.label, tidy(f"{state} {job.user} {job.name}", 60)


def _find_nodes(settings: Settings) -> Iterator[Offer]:
    from slurm_failover.record import tidy

    for node in _connect(settings).nodes():
        yield node.name, tidy(" ".join(["+".join(sorted(node.states)), node.reason]), 60)


def _find_rules(settings: Settings) -> Iterator[Offer]:
    from slurm_failover.catalogue import load_rules
    from slurm_failover.record import tidy

    for rule in load_rules(Path(settings.sources.rules)).rules.values():
        yield rule.name, tidy(rule.meaning, 60)


def _connect(settings: Settings) -> Slurm:
    """Slurm, asked once: no second try, and no process that must be waited for."""
    return Scontrol(settings.slurm.bin, timeout=PATIENCE, patience=0)


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside once the time is over, whatever is waited for."""
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _give_up(_: int, __: FrameType | None) -> NoReturn:
    raise TimeoutError


complete_jobs = _offering(_find_jobs)
complete_nodes = _offering(_find_nodes)
complete_rules = _offering(_find_rules)
