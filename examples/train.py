"""A training run that goes on where it stopped: plain Python, with a checkpoint file.

After a restart it reads the last checkpoint. On SIGUSR1 it saves at once and ends with a status
that is not 0, so that nobody takes it for finished. A checkpoint is written whole or not at all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint.json"))
STEPS = int(os.environ.get("STEPS", "1000"))
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "10"))
SAVED_BUT_NOT_DONE = 75

asked_to_save = False


def ask_to_save(*_: object) -> None:
    """The fault was found: a failover comes in a moment."""
    global asked_to_save  # noqa: PLW0603 - a signal handler has nowhere else to put it
    asked_to_save = True


def load() -> dict[str, float]:
    """The state of the last checkpoint, or of the beginning."""
    return json.loads(CHECKPOINT.read_text()) if CHECKPOINT.exists() else {"step": 0, "loss": 1.0}


def save(state: dict[str, float]) -> None:
    """Replace the checkpoint, so that a crash leaves the old one or the new one."""
    new = CHECKPOINT.with_suffix(".new")
    with new.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(CHECKPOINT)


def train(state: dict[str, float]) -> None:
    """One step. Yours takes longer."""
    time.sleep(float(os.environ.get("STEP_SECONDS", "0.1")))
    state["step"] += 1
    state["loss"] *= 0.99


def main() -> None:
    signal.signal(signal.SIGUSR1, ask_to_save)
    state = load()
    told = {name: os.environ.get(f"SLURM_FAILOVER_{name}", "") for name in ("ATTEMPT", "REASON")}
    print(f"attempt {told['ATTEMPT']} from step {state['step']} ({told['REASON']})", flush=True)
    while state["step"] < STEPS:
        train(state)
        print(f"step {state['step']} loss {state['loss']:.4f}", flush=True)
        if asked_to_save or state["step"] % EVERY == 0:
            save(state)
        if asked_to_save:
            sys.exit(SAVED_BUT_NOT_DONE)
    save(state)
    print("done", flush=True)


main()
