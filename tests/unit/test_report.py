"""The report: what it counts, that it is safe and whole, and how it is written."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from past_site import EVIL, NOW, a_month, a_page

from slurm_failover.cli import main
from slurm_failover.commands import past, report
from slurm_failover.commands.past import Past
from slurm_failover.commands.report import NotWritten, make_report, write_page
from slurm_failover.happening import Kind
from slurm_failover.history import Entry, Outage, Run
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.report import Chart, Series, draw_up, sum_up
from slurm_failover.report.figures import kind_of, place_of
from slurm_failover.report.plot import plot, top_of
from slurm_failover.report.span import say_hours, say_seconds
from slurm_failover.slurm.accounting import Span

DAY = 86400.0
XID = "Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus; reboot needed (job 7)"


def fault(because: str = XID, node: str = "n1", time: float = NOW) -> Entry:
    return Entry(Kind.DRAIN, time, because, node)


def moved(waited: float | None, time: float = NOW) -> Entry:
    return Entry(Kind.FAILOVER, time, "x", "n1", "7", "alice", "t", 1, 8, 3600.0, waited)


def chart(entries: list[Entry], title: str) -> Chart:
    return next(found for found in draw_up(entries) if found.title == title)


@pytest.mark.parametrize(
    ("because", "kind", "place"),
    [
        (XID, "Xid 79", "n1 GPU 0000:3b:00"),
        ("SXid 24007 on NVSwitch 0000:aa:00: sourcetrack timeout", "SXid 24007", "n1"),
        (
            "uncorrectable error inside the GPU (GPU 0000:1c:00)",
            "uncorrectable error inside the GPU",
            "n1 GPU 0000:1c:00",
        ),
        ("an NVMe device is lost (nvme4); reboot needed", "an NVMe device is lost", "n1"),
        ("out of memory: the kernel killed a process", "out of memory", "n1"),
        ("", "", "n1"),
    ],
)
def test_a_faults_sentence_names_its_kind_and_its_place(
    because: str, kind: str, place: str
) -> None:
    assert (kind_of(fault(because)), place_of(fault(because))) == (kind, place)


def test_faults_are_counted_by_day_and_kind_and_a_quiet_day_is_a_gap() -> None:
    entries = [fault(), fault(node="n2"), fault("Xid 48 on GPU 0000:3b:00: x", time=NOW - 2 * DAY)]
    days = chart([*entries, moved(2.0)], "Faults by day and kind")
    assert len(days.labels) == 3
    assert days.series == (Series("Xid 79", (0.0, 0.0, 2.0)), Series("Xid 48", (1.0, 0.0, 0.0)))


def test_rare_kinds_are_counted_together() -> None:
    entries = [fault(f"kind {number}: x") for number in range(9)]
    days = chart(entries, "Faults by day and kind")
    assert [series.name for series in days.series][-1] == "other kinds"
    assert sum(sum(series.values) for series in days.series) == 9


def test_a_long_time_is_shown_by_month() -> None:
    months = chart([fault(), fault(time=NOW - 200 * DAY)], "Faults by day and kind")
    assert months.head == "Month"
    assert all(re.fullmatch(r"\d{4}-\d\d", label) for label in months.labels)
    assert sum(months.series[0].values) == 2


def test_places_with_the_most_faults_come_first_and_few_are_left_out() -> None:
    many = [fault(node=f"n{number}") for number in range(30)]
    places = chart([*many, fault(node="n7")], "Faults by node and GPU")
    assert places.labels[0] == "n7 GPU 0000:3b:00"
    assert places.labels[-1] == "15 more"
    assert sum(places.series[0].values) == 31


def test_restarts_fall_into_their_bins() -> None:
    waits = (0.0, 1.0, 121.0, 599.0, 600.0, None)
    bins = chart([moved(wait) for wait in waits], "Restart latency")
    counted = dict(zip(bins.labels, bins.series[0].values, strict=True))
    assert {label for label, count in counted.items() if count} == {
        *("under 1 s", "1 s to 2 s", "121 s to 10 min", "10 min or more", "not started again")
    }
    assert counted["121 s to 10 min"] == 2


def test_the_sums_are_those_of_the_entries() -> None:
    runs = [Run("7", start=NOW, end=NOW + 3600, gpus=8)]
    entries = [fault(), moved(1.0), replace(moved(None), kind=Kind.DENIED), moved(3.0)]
    summary = sum_up(entries, runs, NOW)
    assert (summary.faults, summary.nodes, summary.failovers, summary.jobs) == (1, 1, 2, 1)
    assert (summary.denied, summary.exceeded) == (1, 0)
    assert summary.lost == 8 * (3601 + 3603)
    assert summary.saved == 8 * (120 + 118)
    assert summary.kept == 8 * 3600
    assert (summary.typical, summary.longest) == (2.0, 3.0)
    assert sum_up([], [], NOW).typical is None


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 1), (1, 1), (3, 4), (4, 4), (5, 10), (41, 100), (0.3, 0.4)]
)
def test_an_axis_ends_at_a_round_number(largest: float, top: float) -> None:
    assert top_of(largest) == pytest.approx(top)


def test_the_bars_of_a_day_stand_on_each_other_and_none_leaves_the_picture() -> None:
    series = (Series("a", (1.0, 2.0)), Series("b", (3.0, 0.0)))
    svg = plot(Chart("t", "about", "Day", ("x", "y"), series), "c")
    bars = [{k: float(v) for k, v in r.attrib.items() if k != "class"} for r in svg.iter("rect")]
    assert len(bars) == 3
    first, second = bars[0], bars[1]
    assert second["y"] + second["height"] == pytest.approx(first["y"], abs=0.1)
    assert second["height"] == pytest.approx(3 * first["height"], rel=0.01)
    assert all(bar["y"] >= 0 and bar["x"] + bar["width"] <= 420 for bar in bars)
    assert [bar.findtext("title") for bar in svg.iter("rect")] == ["x, a: 1", "x, b: 3", "y, a: 2"]
    assert svg.get("role") == "img"
    assert svg.findtext("desc") == "about"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0.4 s"), (121, "121 s"), (600, "10 min"), (7200, "2 h"), (270000, "3.12 d")],
)
def test_lengths_of_time_in_words(seconds: float, words: str) -> None:
    assert say_seconds(seconds) == words
    assert say_hours(3600 * 1234) == "1,234"


# --- the page -----------------------------------------------------------------------------------


class Reader(HTMLParser):
    """What a browser would make of a page: its elements, and the text that is no markup."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def count(self, tag: str) -> int:
        return [name for name, _ in self.tags].count(tag)


def test_no_text_of_a_user_becomes_markup() -> None:
    reader = Reader(a_page())
    assert (reader.count("script"), reader.count("img"), reader.count("b")) == (0, 0, 0)
    assert EVIL in reader.words
    assert "exit code 3 & <b>more</b>" in reader.words


def test_the_page_needs_nothing_and_its_policy_lets_nothing_in() -> None:
    page = a_page()
    reader = Reader(page)
    names = {name for _, attributes in reader.tags for name in attributes}
    assert not {"src", "href", "style", "srcset"} & names
    assert not [name for name in names if name.startswith("on")]
    policy = next(a["content"] for tag, a in reader.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in page
    assert "@import" not in page


def test_who_does_not_see_the_plots_has_words_and_tables() -> None:
    reader = Reader(a_page())
    plots = [attributes for tag, attributes in reader.tags if tag == "svg"]
    ids = {attributes.get("id") for _, attributes in reader.tags}
    assert len(plots) == 6
    for attributes in plots:
        assert attributes["role"] == "img"
        assert set(str(attributes["aria-labelledby"]).split()) <= ids
    assert reader.count("table") == 7
    assert "upper bound" in reader.words
    assert "121 s" in reader.words


def test_a_page_of_a_quiet_time_says_so() -> None:
    reader = Reader(make_report(Past([], []), Span("now-30days"), NOW))
    assert reader.count("svg") == 0
    assert reader.words.count("Nothing of this in that time.") == 6
    assert "Nothing happened in that time." in reader.words


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([fault(), moved(1.0)], ("fault1on 1 node", "failover1of 1 job")),
        (
            [fault(), fault(node="n2"), moved(1.0), replace(moved(2.0), job="8")],
            ("faults2on 2 nodes", "failovers2of 2 jobs"),
        ),
        ([], ("faults0on 0 nodes", "failovers0of 0 jobs")),
    ],
)
def test_what_is_counted_is_named_as_one_or_as_many(
    entries: list[Entry], words: tuple[str, ...]
) -> None:
    reader = Reader(make_report(Past([], entries), Span("now-30days"), NOW))
    assert "".join((*words, "denied")) in reader.words


def test_a_page_does_not_grow_without_end() -> None:
    reader = Reader(a_page(1200))
    assert "The latest 1000 of 2000" in reader.words
    assert reader.count("tr") < 1200


def test_half_characters_do_not_stop_the_page() -> None:
    entry = replace(moved(1.0), name="\udc80\x00", nodes="n\udcff")
    assert make_report(Past([], [entry]), Span("x"), NOW).encode()


def test_no_text_on_the_page_steers_a_browser_or_a_terminal() -> None:
    steering = "\x00\x1b[2J\u202e\ud800"
    words = f"Xid 79{steering} on GPU 0000:3b:00: x{steering}"
    rogue = replace(moved(1.0), name=steering, user=steering, because=words)
    page = make_report(Past([], [fault(words), rogue]), Span(steering, steering), NOW)
    assert {c for c in page if not c.isprintable()} == {"\n"}


# --- the file -----------------------------------------------------------------------------------


def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(str(path), "one", force=False)
    with pytest.raises(NotWritten, match="is there already; --force replaces it"):
        write_page(str(path), "two", force=False)
    assert path.read_text() == "one"
    write_page(str(path), "three", force=True)
    assert path.read_text() == "three"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_file_is_neither_followed_nor_replaced(tmp_path: Path, *, force: bool) -> None:
    """As root, --force over /dev/stdout or /dev/null would take them from the whole host."""
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "link").symlink_to(other)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = {path.name: path.lstat().st_ino for path in tmp_path.iterdir()}
    kinds = {"link": "a link", "dangling": "a link", "folder": "a folder", "pipe": "a pipe"}
    for name, kind in kinds.items():
        told = f"{name} is no file but {kind}, and stays as it is; name another FILE"
        with pytest.raises(NotWritten, match=told):
            write_page(str(tmp_path / name), "page", force=force)
    with pytest.raises(NotWritten, match=r"name another FILE, as .*/folder/report\.html$"):
        write_page(str(tmp_path / "folder"), "page", force=force)
    assert {path.name: path.lstat().st_ino for path in tmp_path.iterdir()} == before
    assert other.read_text() == "precious"


def test_a_folder_that_can_not_be_written_to_is_told_before_slurm_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm()
    monkeypatch.setattr(past, "Accounting", lambda _: slurm)
    done = CliRunner().invoke(main, ["report", "--html", str(tmp_path / "none" / "x.html")])
    assert (done.exit_code, slurm.asked) == (1, [])
    assert "No such file or directory; name a FILE in a folder that is there" in done.output


def test_a_page_that_can_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotWritten, match="No such file or directory"):
        write_page(str(tmp_path / "none" / "x.html"), "page", force=False)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(NotWritten, match="No space left"):
        write_page(str(tmp_path / "x.html"), "page", force=False)
    assert list(tmp_path.iterdir()) == []


def test_the_page_has_the_rights_that_the_user_gives_new_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_page(str(tmp_path / "x.html"), "page", force=False)
    finally:
        os.umask(before)
    assert (tmp_path / "x.html").stat().st_mode & 0o777 == 0o640


class Slurm:
    """A Slurm with a month behind it."""

    def __init__(self) -> None:
        self.asked: list[Span] = []
        self.month = a_month(9)

    def runs(self, span: Span, *_: object) -> list[Run]:
        self.asked.append(span)
        return self.month[0]

    def outages(self, _: Span) -> list[Outage]:
        return self.month[1]

    def jobs(self) -> list[JobFacts]:
        return []

    def nodes(self) -> list[NodeFacts]:
        return []


def test_the_command_writes_the_page_and_asks_nothing_where_it_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm, path = Slurm(), tmp_path / "report.html"
    monkeypatch.setattr(past, "Accounting", lambda _: slurm)
    monkeypatch.setattr(past, "connect_for_many", lambda *_: slurm)

    def type_it(*words: str) -> Result:
        return CliRunner().invoke(main, ["report", "--html", str(path), *words])

    done = type_it()
    assert done.exit_code == 0
    assert re.fullmatch(rf"{re.escape(str(path))}: \d+ KiB\n", done.output)
    assert path.read_text().startswith("<!DOCTYPE html>")
    refused = type_it("--since", "2026-01-01")
    assert refused.exit_code == 1
    assert "--force replaces it" in refused.output
    assert slurm.asked == [Span("now-30days", "")]
    assert type_it("--since", "2026-01-01", "--until", "now", "--force").exit_code == 0
    assert slurm.asked[1:] == [Span("2026-01-01", "now")]


def test_a_page_takes_no_file_s_place_that_came_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    monkeypatch.setattr(report, "_refuse", lambda *_, **__: page.write_text("theirs"))
    with pytest.raises(NotWritten):
        write_page(str(page), "ours", force=False)
    assert page.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [page]
