"""Measure healthy hooks inside the test cluster's image; see tests/bench/hooks."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILDER = HERE.parent.parent / "docker" / "image.py"
LIMITS = {"epilog without NVML": 60.0, "epilog with NVML": 250.0}
"""Milliseconds on a quiet machine, by the requirement."""


def main() -> None:
    """Build the image, measure in a container of it, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    image = subprocess.run([sys.executable, BUILDER], stdout=subprocess.PIPE, text=True, check=True)
    command = ["docker", "run", "--rm", "-i", "--hostname=n1", "--entrypoint=python3"]
    inside = [*command, image.stdout.strip(), "-", str(runs)]
    script = (HERE / "hooks_inside.py").read_text()
    done = subprocess.run(inside, input=script, stdout=subprocess.PIPE, text=True, check=True)
    medians = json.loads(done.stdout)
    bare, _ = medians["bare python3 -I -S"]
    print(f"medians of {runs} runs each, in turns: wall time, processor time")
    for name, (wall, processor) in medians.items():
        limit = f"   limit {LIMITS[name]:.0f} ms" if name in LIMITS else ""
        print(f"{name:24} {wall:7.1f} ms {processor:7.1f} ms   {wall / bare:5.1f} x bare{limit}")


if __name__ == "__main__":
    main()
