"""What the nodes' notes and the admins' word amount to: the breaker, open or closed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slurm_failover.breaker.notes import KEEP_FOR, FaultNote, read_notes
from slurm_failover.breaker.word import CLOSED, OPEN, Word, read_word
from slurm_failover.model import NodeFacts
from slurm_failover.settings.protection import BreakerSettings

LOST = "node-lost"
"""The code of a node that stopped answering: Slurm notes that in its Reason."""
_LOST_REASON = "Not responding"


@dataclass(frozen=True, slots=True)
class Trip:
    """One cause to be open, ``since`` a time, for one ``job`` alone or, with 0, for the cluster.

    ``opener`` is the node whose note was one too many, ``until`` when it is over by itself; 0 for
    never.
    """

    because: str
    since: float
    until: float = 0.0
    opener: str = ""
    job: int = 0


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker at one moment. ``waiting`` are the faults for which no node was drained yet."""

    trips: tuple[Trip, ...] = ()
    waiting: tuple[FaultNote, ...] = ()
    word: Word | None = None
    notes: tuple[FaultNote, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether anything is stopped at all."""
        return bool(self.trips)

    def against(self, jobs: Collection[int] = ()) -> Trip | None:
        """What stands against draining for, or moving, these jobs; None if nothing does."""
        return next((trip for trip in self.trips if not trip.job or trip.job in jobs), None)


def read_breaker(nodes: Sequence[NodeFacts], site: BreakerSettings, now: float) -> Breaker:
    """The breaker, from all nodes of the cluster as Slurm shows them at ``now``."""
    said = read_word(nodes)
    word = said[0] if said else None
    heard = [note for node in nodes for note in (*read_notes(node.name, node.extra), *_lost(node))]
    closed = word.time if word is not None and word.state == CLOSED else float("-inf")
    notes = sorted(
        (note for note in heard if closed < note.time and now - KEEP_FOR < note.time),
        key=lambda note: (note.time, note.node),
    )
    trips = [*_opened(word, now)]
    if site.enabled:
        trips += _trips(notes, len(nodes), site, now)
    waiting = tuple(note for note in heard if note.waits)
    return Breaker(tuple(trips), waiting, word, tuple(notes))


def _lost(node: NodeFacts) -> Iterator[FaultNote]:
    if node.has("DOWN") and node.reason.startswith(_LOST_REASON) and node.reason_time:
        yield FaultNote(node.name, node.reason_time, LOST, "Slurm lost the node")


def _opened(word: Word | None, now: float) -> Iterator[Trip]:
    if word is not None and word.state == OPEN and (not word.until or now < word.until):
        who = f"{word.by} opened it" if word.by else "it was opened by hand"
        because = f"{who}: {word.because}" if word.because else who
        yield Trip(because, word.time, word.until)


@dataclass(frozen=True, slots=True)
class _Share:
    """A group of notes, and on how many nodes it may be before it is one too many; ``users`` is of
    how many users jobs must have been hit.
    """

    what: str
    notes: Sequence[FaultNote]
    limit: int
    users: int = 0


def _trips(
    notes: Sequence[FaultNote], total: int, site: BreakerSettings, now: float
) -> Iterator[Trip]:
    """Every rule's trip, the widest first."""
    for share in _shares(notes, total, site):
        yield from _trip(share, total, site, now)
    yield from _followers(notes, site, now)


def _shares(notes: Sequence[FaultNote], total: int, site: BreakerSettings) -> Iterator[_Share]:
    many = max(site.nodes, site.percent * total // 100)
    same = max(site.nodes, site.same_percent * total // 100)
    yield _Share("faults", notes, many)
    for code, group in _group(notes, lambda note: note.code):
        yield _Share(code, group, same, site.users)
    for driver, group in _group(notes, lambda note: note.driver):
        yield _Share(f"faults under driver {driver}", group, same, site.users)


def _trip(share: _Share, total: int, site: BreakerSettings, now: float) -> Iterator[Trip]:
    """A trip where more nodes than allowed noted something within the window, not long ago."""
    over = _excess(share, site.window)
    live = [note for note in over if _is_live(note, site, now)]
    if live:
        last = live[-1].time
        nodes = {note.node for note in share.notes if last - site.window < note.time <= last}
        because = (
            f"{share.what} on {len(nodes)} of {total} nodes within {site.window} s, "
            f"more than {share.limit}"
        )
        yield Trip(because, live[0].time, last + site.lasts, live[0].node)


def _is_live(note: FaultNote, site: BreakerSettings, now: float) -> bool:
    return now < note.time + site.lasts


def _excess(share: _Share, window: float) -> Iterator[FaultNote]:
    """The notes with which more nodes than allowed, and enough users, are in the window that ends
    there.
    """
    nodes: Counter[str] = Counter()
    people: Counter[str] = Counter()
    leaving = iter(share.notes)
    oldest = next(leaving, None)
    for note in share.notes:
        nodes[note.node] += 1
        people.update(note.who)
        while oldest is not None and oldest.time <= note.time - window:
            nodes[oldest.node] -= 1
            people.subtract(oldest.who)
            oldest = next(leaving, None)
        if len(+nodes) > share.limit and len(+people) >= share.users:
            yield note


def _followers(notes: Iterable[FaultNote], site: BreakerSettings, now: float) -> Iterator[Trip]:
    """A trip for every job of which the same code has met too many attempts."""
    met: dict[tuple[int, str], set[int]] = defaultdict(set)
    live: dict[tuple[int, str], list[FaultNote]] = defaultdict(list)
    for note in notes:
        for job, start in note.attempts:
            met[job, note.code].add(start)
            if len(met[job, note.code]) > site.attempts and _is_live(note, site, now):
                live[job, note.code].append(note)
    for (job, code), found in live.items():
        because = f"{code} met {len(met[job, code])} attempts of job {job}"
        until = found[-1].time + site.lasts
        yield Trip(because, found[0].time, until, found[0].node, job)


def _group(
    notes: Iterable[FaultNote], key: Callable[[FaultNote], str]
) -> list[tuple[str, list[FaultNote]]]:
    groups: dict[str, list[FaultNote]] = defaultdict(list)
    for note in notes:
        if key(note):
            groups[key(note)].append(note)
    return list(groups.items())
