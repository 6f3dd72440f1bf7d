"""The page: sums, charts with their tables, what the words mean, and everything that happened."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from xml.etree.ElementTree import Element, SubElement, tostring

from slurm_failover.history import STOCK_DELAY, Entry
from slurm_failover.report.figures import Chart, Summary
from slurm_failover.report.plot import plot
from slurm_failover.report.span import say_hours, say_seconds

MOST_ROWS = 1000
"""Entries in the table of the page; ``history`` has them all."""

_DEFINITIONS = (
    (
        "Fault",
        "A drain by slurm-failover, or a fault that a node noted without draining: because it was "
        "out of service already, or because the circuit breaker put the drain off. Drains come "
        "from Slurm's accounting; notes are those of the last day that nodes still have.",
    ),
    (
        "GPU time lost",
        "For each run that a hardware fault ended: the time since its start, plus the time from "
        "its end until the job ran again, times its GPUs. This is an upper bound: a job that "
        "went on from a checkpoint had less to do again, and Slurm does not know which one it "
        "took. A job that did not start again counts with its run alone. Denied jobs are not "
        "counted: no hardware fault ended them.",
    ),
    (
        "GPU time saved",
        f"For each failover: the {STOCK_DELAY:g} s for which Slurm itself would have delayed the "
        "requeued job, minus the time that the restart took, but never below zero, times its "
        "GPUs. It says nothing of a job that would not have been requeued at all.",
    ),
    (
        "Kept going",
        "GPU time of the runs that followed a failover and were not ended by a hardware fault "
        "themselves: work that would not have been done had the job stayed failed. Someone might "
        "have submitted it again sooner or later, so it is not called saved.",
    ),
    (
        "Restart latency",
        "From the end of a run to the start of the next one, waiting for free nodes included.",
    ),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the page speaks of: the span as it was asked for, and the moment, both as text."""

    since: str
    until: str
    made: str


@dataclass(frozen=True, slots=True)
class Matter:
    """All that goes on a page."""

    scope: Scope
    summary: Summary
    charts: Sequence[Chart]
    rows: Sequence[tuple[Entry, tuple[str, ...]]]
    columns: tuple[str, ...]


def make_page(matter: Matter, style: str) -> str:
    """The page as text; ``style`` is its style sheet, the one thing that its policy lets in."""
    html = Element("html", {"lang": "en"})
    html.append(_head(style))
    body = SubElement(html, "body")
    main = SubElement(body, "main")
    _add(main, "h1", "slurm-failover report")
    scope = matter.scope
    until = f" until {scope.until}" if scope.until else ""
    _add(main, "p", f"Since {scope.since}{until}; made {scope.made}.")
    main.append(_sums(matter.summary))
    figures = SubElement(main, "section", {"class": "charts", "aria-label": "Charts"})
    figures.extend(_figure(chart, f"c{number}") for number, chart in enumerate(matter.charts))
    main.append(_meanings())
    main.append(_everything(matter))
    _clean_all(body)
    return "<!DOCTYPE html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def _head(style: str) -> Element:
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = Element("head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "meta", {"name": "color-scheme", "content": "light dark"})
    _add(head, "title", "slurm-failover report")
    SubElement(head, "style").text = style
    return head


def _sums(summary: Summary) -> Element:
    restart = "–" if summary.typical is None else say_seconds(summary.typical)
    longest = "none" if summary.longest is None else f"longest {say_seconds(summary.longest)}"
    faults, nodes, moves, jobs = summary.faults, summary.nodes, summary.failovers, summary.jobs
    cards = (
        (str(faults), _noun("fault", faults), f"on {nodes} {_noun('node', nodes)}"),
        (str(moves), _noun("failover", moves), f"of {jobs} {_noun('job', jobs)}"),
        (str(summary.denied), "denied", f"and {summary.exceeded} with all retries used"),
        (restart, "median restart", longest),
        (say_hours(summary.lost), "GPU hours lost", "at most"),
        (say_hours(summary.saved), "GPU hours saved", f"against Slurm's {STOCK_DELAY:g} s"),
        (say_hours(summary.kept), "GPU hours kept going", "in runs after a failover"),
    )
    section = Element("dl", {"class": "sums"})
    for value, name, more in cards:
        card = SubElement(section, "div")
        _add(card, "dt", name)
        _add(card, "dd", value, "number")
        _add(card, "dd", more)
    return section


def _noun(one: str, count: int) -> str:
    return one if count == 1 else f"{one}s"


def _figure(chart: Chart, name: str) -> Element:
    figure = Element("figure")
    caption = SubElement(figure, "figcaption")
    _add(caption, "h2", chart.title)
    _add(caption, "p", chart.about)
    if chart.is_empty:
        _add(figure, "p", "Nothing of this in that time.", "none")
        return figure
    figure.append(plot(chart, name))
    if len(chart.series) > 1:
        figure.append(_legend(chart))
    details = SubElement(figure, "details")
    _add(details, "summary", "The same as a table")
    rows = [
        (label, *(f"{series.values[number]:.4g}" for series in chart.series))
        for number, label in enumerate(chart.labels)
    ]
    details.append(_table(chart.title, (chart.head, *(s.name for s in chart.series)), rows))
    return figure


def _legend(chart: Chart) -> Element:
    legend = Element("ul", {"class": "legend"})
    for place, series in enumerate(chart.series):
        item = SubElement(legend, "li")
        swatch = SubElement(item, "span", {"class": f"swatch s{place}"})
        swatch.tail = series.name
    return legend


def _meanings() -> Element:
    section = Element("section")
    _add(section, "h2", "What the words mean")
    terms = SubElement(section, "dl", {"class": "meanings"})
    for term, meaning in _DEFINITIONS:
        _add(terms, "dt", term)
        _add(terms, "dd", meaning)
    return section


def _everything(matter: Matter) -> Element:
    section = Element("section")
    _add(section, "h2", "Everything that happened")
    shown = matter.rows[-MOST_ROWS:][::-1]
    if len(shown) < len(matter.rows):
        words = (
            f"The latest {len(shown)} of {len(matter.rows)}; slurm-failover history has them all."
        )
        _add(section, "p", words)
    if not shown:
        _add(section, "p", "Nothing happened in that time.", "none")
        return section
    rows = [(*cells, entry.name or "-") for entry, cells in shown]
    section.append(_table("Latest first", (*matter.columns, "JOB NAME"), rows))
    return section


def _table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Element:
    frame = Element("div", {"class": "table", "tabindex": "0", "role": "region"})
    frame.set("aria-label", caption)
    table = SubElement(frame, "table")
    _add(table, "caption", caption)
    heads = SubElement(SubElement(table, "thead"), "tr")
    for column in columns:
        _add(heads, "th", column).set("scope", "col")
    body = SubElement(table, "tbody")
    for first, *others in rows:
        line = SubElement(body, "tr")
        _add(line, "th", first).set("scope", "row")
        for cell in others:
            _add(line, "td", cell)
    return frame


def _add(parent: Element, tag: str, text: str, kind: str = "") -> Element:
    """A new element with text, whatever the text is."""
    element = SubElement(parent, tag, {"class": kind} if kind else {})
    element.text = text
    return element


def _clean_all(body: Element) -> None:
    """Free all texts of what no page may hold, such as control characters and half characters."""
    for element in body.iter():
        element.text, element.tail = _clean(element.text), _clean(element.tail)


def _clean(text: str | None) -> str:
    return "".join(c if c.isprintable() else " " for c in text or "")
