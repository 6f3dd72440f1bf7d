"""Metrics: counted between short-lived processes, and fit for Prometheus by its own tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_failover.exposition import METRICS, PREFIX, ROLES, read_values, render
from slurm_failover.happening import Happening, Kind
from slurm_failover.metrics import Metrics
from slurm_failover.settings.protection import MetricsSettings
from slurm_failover.settings.tables import FailoverSettings, Settings, StateSettings

ROOT = Path(__file__).parent.parent.parent
ALERTS = ROOT / "monitoring" / "slurm-failover-alerts.yml"
DASHBOARD = ROOT / "monitoring" / "slurm-failover-dashboard.json"
PROMTOOL = shutil.which("promtool") or shutil.which(str(ROOT / ".cache/promtool/promtool"))


class Site:
    """A host with a folder for node exporter."""

    def __init__(self, folder: Path, mode: str = "act") -> None:
        self.folder = folder / "textfile"
        self.folder.mkdir()
        self.said: list[str] = []
        self.settings = replace(
            Settings(),
            failover=FailoverSettings(mode=mode),
            metrics=MetricsSettings(str(self.folder)),
            state=StateSettings(directory=str(folder / "state")),
        )

    def count(self, role: str, *what: Happening) -> None:
        """As processes of their own would, one after the other."""
        for one in what:
            Metrics(self.settings, role, self.said.append).count(one)

    def text(self, role: str) -> str:
        return (self.folder / f"slurm_failover_{role}.prom").read_text()

    def value(self, role: str, series: str) -> float | None:
        found = re.search(rf"^{re.escape(PREFIX + series)} (\S+)$", self.text(role), re.MULTILINE)
        return float(found.group(1)) if found else None


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def drain(code: str = "xid-79") -> Happening:
    return Happening(Kind.DRAIN, "because", node="n1", code=code)


def resumed(seconds: float) -> Happening:
    return Happening(Kind.RESUMED, "because", job="7", seconds=seconds)


def test_faults_and_drains_are_counted_by_code(site: Site) -> None:
    again = Happening(Kind.FAULT, "because", node="n1", code="xid-79")
    site.count("node", drain(), again, drain("xid-48"))
    assert site.value("node", 'faults_total{code="xid-79"}') == 2
    assert site.value("node", 'faults_total{code="xid-48"}') == 1
    assert site.value("node", "drains_total") == 2


def test_what_was_not_counted_yet_is_shown_as_none_rather_than_left_out(site: Site) -> None:
    site.count("controller", Happening(Kind.FAILOVER, "because"))
    assert site.value("controller", "failovers_total") == 1
    assert site.value("controller", "exceeded_total") == 0
    assert site.value("controller", "breaker_open") == 0


def test_decisions_are_counted_by_what_they_are(site: Site) -> None:
    kinds = (Kind.EXCEEDED, Kind.RETRIED, Kind.PUT_OFF, Kind.PUT_OFF)
    denied = Happening(Kind.DENIED, "because", state="internalerror")
    site.count("controller", denied, *(Happening(kind, "because") for kind in kinds))
    assert site.value("controller", 'denials_total{state="internalerror"}') == 1
    assert site.value("controller", "exceeded_total") == 1
    assert site.value("controller", "image_retries_total") == 1
    assert site.value("controller", "failovers_put_off_total") == 2


def test_restarts_are_a_histogram(site: Site) -> None:
    site.count("controller", resumed(0.9), resumed(3), resumed(5000))
    buckets = {
        bound: site.value("controller", f'restart_latency_seconds_bucket{{le="{bound}"}}')
        for bound in ("1", "2", "4", "3600", "+Inf")
    }
    assert buckets == {"1": 1, "2": 1, "4": 2, "3600": 2, "+Inf": 3}
    assert site.value("controller", "restart_latency_seconds_count") == 3
    assert site.value("controller", "restart_latency_seconds_sum") == pytest.approx(5003.9)


def test_a_drain_that_waits_is_a_gauge(site: Site) -> None:
    site.count("node", Happening(Kind.DRAIN_PUT_OFF, "because", node="n1", code="xid-79"))
    assert site.value("node", "drains_waiting") == 1
    assert site.value("node", "drains_total") == 0
    site.count("node", drain())
    assert site.value("node", "drains_waiting") == 0


def test_an_observer_counts_what_it_sees_and_not_what_it_does_not_do(tmp_path: Path) -> None:
    site = Site(tmp_path, "observe")
    site.count("node", drain())
    site.count("controller", Happening(Kind.FAILOVER, "because"))
    assert site.value("node", 'faults_total{code="xid-79"}') == 1
    assert site.value("node", "drains_total") == 0
    assert site.value("controller", "failovers_total") == 0


def test_the_file_is_for_everyone_to_read_and_nothing_is_left_beside_it(site: Site) -> None:
    site.count("node", drain())
    [path] = site.folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    settings = replace(Settings(), state=StateSettings(directory=str(tmp_path / "state")))
    Metrics(settings, "node", pytest.fail).count(drain())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said_and_costs_nothing_else(site: Site) -> None:
    site.folder.rmdir()
    site.count("node", drain())
    assert "metrics are not written" in site.said[0]


@pytest.mark.parametrize("kept", ["[]", "{", '{"drains_total": 1}', '{"drains_total": {"": "x"}}'])
def test_damaged_counts_are_said_and_begun_anew(site: Site, kept: str) -> None:
    site.count("node", drain())
    (Path(site.settings.state.directory) / "node" / "metrics.json").write_text(kept)
    site.count("node", drain())
    assert site.value("node", "drains_total") == 1
    assert "counted anew" in site.said[0]


def test_a_label_is_escaped(site: Site) -> None:
    site.count("node", drain('a"b\\c\nd'))
    assert 'code="a\\"b\\\\c\\nd"} 1' in site.text("node")


# --- by the names ---------------------------------------------------------------------------------


def test_every_metric_belongs_to_one_role_and_is_named_by_convention() -> None:
    assert sorted(METRICS) == sorted(name for names in ROLES.values() for name in names)
    for name, metric in METRICS.items():
        assert name.endswith("_total") == (metric.kind == "counter")


def used(text: str) -> set[str]:
    names = re.findall(rf"{PREFIX}([a-z_]+)", text)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


@pytest.mark.parametrize("path", [ALERTS, DASHBOARD], ids=lambda path: path.name)
def test_alerts_and_dashboard_name_metrics_that_there_are(path: Path) -> None:
    assert used(path.read_text()) <= set(METRICS)


def test_every_metric_is_on_the_dashboard_and_in_the_documentation() -> None:
    documented = (ROOT / "docs" / "metrics.md").read_text()
    shown = used(DASHBOARD.read_text())
    for name in METRICS:
        assert PREFIX + name in documented
        assert name in shown


# --- by promtool ----------------------------------------------------------------------------------


def promtool(*words: str, text: str = "") -> str:
    if PROMTOOL is None:
        pytest.skip("promtool is not here: docker/setup.sh fetches it")
    argv = [PROMTOOL, *words]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_promtool_finds_no_fault_in_the_metrics(site: Site, role: str) -> None:
    every = [
        Happening(kind, "because", code='x"y', state="internalerror", seconds=3.5) for kind in Kind
    ]
    site.count(role, *every)
    assert promtool("check", "metrics", text=site.text(role)) == ""


def test_promtool_finds_no_fault_in_the_alerts() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(ALERTS))


def test_every_expression_of_the_dashboard_is_one(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    rules = [
        {"record": f"x{at}", "expr": text.replace("$__range", "1h")}
        for at, text in enumerate(expressions)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


def test_the_breaker_alert_fires_when_it_is_open(tmp_path: Path) -> None:
    case = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": 'slurm_failover_breaker_open{instance="ctl"}', "values": "0 1 1"}
                ],
                "alert_rule_test": [
                    {"eval_time": "0m", "alertname": "SlurmFailoverBreakerOpen", "exp_alerts": []},
                    {
                        "eval_time": "1m",
                        "alertname": "SlurmFailoverBreakerOpen",
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": "critical", "instance": "ctl"},
                                "exp_annotations": _annotations("SlurmFailoverBreakerOpen"),
                            }
                        ],
                    },
                ],
            }
        ],
    }
    path = tmp_path / "case.yml"
    path.write_text(json.dumps(case))
    assert "SUCCESS" in promtool("test", "rules", str(path))


def _annotations(alert: str) -> dict[str, str]:
    """The annotations of an alert, from a file that is YAML without a reader of YAML at hand."""
    body = ALERTS.read_text().split(f"alert: {alert}\n")[1].split("- alert:")[0]
    summary = re.search(r"summary: (.+)", body)
    description = re.search(r"description: >-\n((?:\s{12}.+\n)+)", body)
    assert summary
    assert description
    folded = " ".join(line.strip() for line in description.group(1).splitlines())
    return {"summary": summary.group(1), "description": folded}


def test_values_survive_the_way_through_a_file() -> None:
    values = {"drains_total": {"": 3.0}, "faults_total": {'code="a"': 1.0}}
    assert read_values(json.loads(json.dumps(values))) == values
    assert render({}, "node").count("# TYPE") == 3
