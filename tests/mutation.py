"""What `tests/mutation` runs: mutmut over a copy of the tree, and its results held against what is
explained in mutation.toml.
"""

from __future__ import annotations

import configparser
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

DECIDES = (
    "slurm_failover/policy.py",
    "slurm_failover/case.py",
    "slurm_failover/record.py",
    "slurm_failover/lifecycle.py",
    "slurm_failover/evidence.py",
    "slurm_failover/classify/events.py",
    "slurm_failover/classify/judge.py",
    "slurm_failover/classify/match.py",
)
TESTS = (
    "tests/unit/test_policy.py",
    "tests/unit/test_case.py",
    "tests/unit/test_between_attempts.py",
    "tests/unit/test_record.py",
    "tests/unit/test_lifecycle.py",
    "tests/unit/test_evidence.py",
    "tests/unit/test_decider.py",
    "tests/unit/test_endings.py",
    "tests/unit/test_classify_judge.py",
    "tests/unit/test_precedence.py",
    "tests/unit/test_severities.py",
    "tests/unit/test_classify_samples.py",
    "tests/unit/test_classify_command.py",
    "tests/unit/test_missed.py",
    "tests/unit/test_untold.py",
    "tests/unit/test_outcomes.py",
    "tests/unit/test_replay.py",
    "tests/unit/test_storms.py",
    "tests/properties/test_codec_properties.py",
)
EXPLAINED = Path(__file__).with_name("mutation.toml")


@dataclass(frozen=True)
class Survivor:
    """A change that no test noticed: in which function, and the line before and after it."""

    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.function}\n    - {self.before}\n    + {self.after}"


def main(copy: Path, files: tuple[str, ...]) -> int:
    """Mutate, print, and give the exit status."""
    configure(copy, files or DECIDES)
    subprocess.run(
        [sys.executable, "-m", "mutmut", "run", "--max-children", "2"],
        cwd=copy,
        stdout=(copy / "mutmut.log").open("w"),
        check=False,
    )
    results = read_results(copy)
    counted = Counter(results.values())
    survivors = [show(copy, name) for name, state in results.items() if state == "survived"]
    explained = read_explained()
    unknown = [found for found in survivors if found not in explained]
    for found in unknown:
        print(found)
    noticed = sum(counted[state] for state in ("killed", "timeout", "suspicious", "segfault"))
    total = noticed + counted["survived"] + counted["no tests"]
    print(
        f"{noticed} of {total} changes are noticed ({100 * noticed / max(total, 1):.1f} %); "
        f"{counted['survived'] - len(unknown)} survivors are explained, {len(unknown)} are not, "
        f"{counted['no tests']} meet no test"
    )
    return 1 if unknown or counted["no tests"] or not total else 0


def configure(copy: Path, files: tuple[str, ...]) -> None:
    """Tell mutmut what to change and what to run."""
    path = copy / "setup.cfg"
    config = configparser.ConfigParser()
    config.read(path)
    config["mutmut"] = {
        "source_paths": "\n" + "\n".join(files),
        "pytest_add_cli_args_test_selection": "\n" + "\n".join(TESTS),
        "pytest_add_cli_args": "\n-p\nno:randomly",
        "also_copy": "\nslurm_failover\ntests\nplugins\ndocker\nsetup.cfg",
    }
    with path.open("w") as file:
        config.write(file)


def read_results(copy: Path) -> dict[str, str]:
    """Every change by its name, with what became of it."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        cwd=copy,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pairs = (line.strip().split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    return {name: state for name, state in pairs}


def show(copy: Path, name: str) -> Survivor:
    """One change, as the lines that differ."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", "show", name],
        cwd=copy,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line[:3] not in ("---", "+++")]
    before = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    return Survivor(name.rpartition("__mutmut_")[0], before, after)


def read_explained() -> set[Survivor]:
    """The survivors that change nothing that anyone could see, each with a reason."""
    table = tomllib.loads(EXPLAINED.read_text())
    return {
        Survivor(row["function"], row["before"], row["after"])
        for row in table.get("survivor", [])
        if row["because"]
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:])))
