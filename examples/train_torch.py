"""train.py for PyTorch: model, optimizer and position go on from the last checkpoint."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint.pt"))
STEPS = int(os.environ.get("STEPS", "1000"))
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "100"))
SAVED_BUT_NOT_DONE = 75

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
asked_to_save = False


def ask_to_save(*_: object) -> None:
    global asked_to_save  # noqa: PLW0603 - a signal handler has nowhere else to put it
    asked_to_save = True


def load() -> int:
    """Restore the last checkpoint; the step to go on from."""
    if not CHECKPOINT.exists():
        return 0
    state = torch.load(CHECKPOINT, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def save(step: int) -> None:
    """Replace the checkpoint, so that a crash leaves the old one or the new one."""
    new = CHECKPOINT.with_suffix(".new")
    with new.open("wb") as file:
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(CHECKPOINT)


def train(step: int) -> float:
    """One step on data that its number determines, so that a repeated step sees the same."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(128, 64, generator=generator).to(device)
    loss = torch.nn.functional.mse_loss(model(x).squeeze(1), x.sum(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main() -> None:
    signal.signal(signal.SIGUSR1, ask_to_save)
    step = load()
    attempt = os.environ.get("SLURM_FAILOVER_ATTEMPT", "")
    reason = os.environ.get("SLURM_FAILOVER_REASON", "")
    print(f"attempt {attempt} from step {step}{reason and f' ({reason})'}", flush=True)
    while step < STEPS:
        loss = train(step)
        step += 1
        print(f"step {step} loss {loss:.4f}", flush=True)
        if asked_to_save or step % EVERY == 0:
            save(step)
        if asked_to_save:
            sys.exit(SAVED_BUT_NOT_DONE)
    save(step)
    print("done", flush=True)


main()
