"""One chart as SVG: columns over days, or bars beside long labels.

Colours and fonts are the page's: every bar has the class of its series, ``s0``, ``s1`` and so on.
Each bar names itself in a ``title``, and the whole has a title and a description for those who do
not see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log10
from xml.etree.ElementTree import Element, SubElement

from slurm_failover.report.figures import Chart

WIDTH, HEIGHT = 420.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 8.0, 10.0, 28.0
LABEL_WIDTH, ROW = 168.0, 18.0
MOST_LABELS = 5
"""So many dates fit under standing bars."""
_LABEL_LIMIT = 30


def plot(chart: Chart, name: str) -> Element:
    """The chart as an ``svg`` element; ``name`` is unique on the page."""
    height = ROW * len(chart.labels) + 4 if chart.across else HEIGHT
    box = {"viewBox": f"0 0 {WIDTH:g} {height:g}", "role": "img"}
    svg = Element("svg", {**box, "aria-labelledby": f"{name}-title {name}-about"})
    SubElement(svg, "title", {"id": f"{name}-title"}).text = chart.title
    SubElement(svg, "desc", {"id": f"{name}-about"}).text = chart.about
    svg.extend(_lying(chart) if chart.across else _standing(chart))
    return svg


def top_of(largest: float) -> float:
    """The end of an axis: 1, 2 or 4 times a power of ten, not below the largest value."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** floor(log10(largest))
    return next((step * power for step in (1, 2, 4) if step * power >= largest), 10 * power)


def _standing(chart: Chart) -> Iterator[Element]:
    """Columns over an axis of days, with a scale at the left."""
    ground, room, count = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP, len(chart.labels)
    columns = zip(*(series.values for series in chart.series), strict=True)
    top = top_of(max(map(sum, columns)))
    for part in (0.0, 1.0) if top == 1 else (0.0, 0.5, 1.0):
        y = ground - room * part
        yield _line(LEFT, y, WIDTH - RIGHT, y)
        yield _text(LEFT - 4, y + 3, f"{top * part:g}", "end")
    slot = (WIDTH - LEFT - RIGHT) / count
    for number, label in enumerate(chart.labels):
        yield from _column(chart, number, (LEFT + slot * (number + 0.1), slot * 0.8), room / top)
        if number % ceil(count / MOST_LABELS) == 0:
            yield _text(LEFT + slot * (number + 0.5), HEIGHT - 12, label, "middle")


def _column(
    chart: Chart, number: int, place: tuple[float, float], scale: float
) -> Iterator[Element]:
    """The bars of one label, one on the other; ``place`` is their left end and their width."""
    (left, width), y = place, HEIGHT - BOTTOM
    for which, series in enumerate(chart.series):
        height = series.values[number] * scale
        y -= height
        if height > 0:
            yield _bar((left, y, width, height), which, _say(chart, number, which))


def _lying(chart: Chart) -> Iterator[Element]:
    """A bar for each label, with its number at its end."""
    values = chart.series[0].values
    scale = (WIDTH - LABEL_WIDTH - LEFT) / max(1.0, *values)
    for number, (label, value) in enumerate(zip(chart.labels, values, strict=True)):
        y, length = ROW * number + 2, value * scale
        yield _text(LABEL_WIDTH - 6, y + 11, _shorten(label), "end")
        yield _bar((LABEL_WIDTH, y, max(length, 0.5), ROW - 4), 0, _say(chart, number, 0))
        yield _text(LABEL_WIDTH + length + 4, y + 11, f"{value:g}", "start")


def _say(chart: Chart, number: int, place: int) -> str:
    series = chart.series[place]
    return f"{chart.labels[number]}, {series.name}: {series.values[number]:.3g}"


def _shorten(label: str) -> str:
    return label if len(label) <= _LABEL_LIMIT else f"{label[: _LABEL_LIMIT - 1]}…"


def _bar(box: tuple[float, float, float, float], place: int, words: str) -> Element:
    """A bar; ``box`` is its x and y, width and height."""
    where = dict(zip(("x", "y", "width", "height"), box, strict=True))
    bar = Element("rect", {"class": f"s{place}", **_rounded(where)})
    SubElement(bar, "title").text = words
    return bar


def _line(x1: float, y1: float, x2: float, y2: float) -> Element:
    return Element("line", {"class": "rule", **_rounded({"x1": x1, "y1": y1, "x2": x2, "y2": y2})})


def _text(x: float, y: float, words: str, anchor: str) -> Element:
    text = Element("text", {**_rounded({"x": x, "y": y}), "text-anchor": anchor})
    text.text = words
    return text


def _rounded(numbers: dict[str, float]) -> dict[str, str]:
    return {key: f"{value:.4g}" for key, value in numbers.items()}
