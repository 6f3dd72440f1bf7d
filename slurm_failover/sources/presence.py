"""Whether it is worth asking NVML at all. On every hook's healthy path: imports next to nothing.

A node without GPUs must not pay for a process that finds no library.
"""

from __future__ import annotations

import os

NO_DRIVER = "the GPUs: neither NVIDIA's driver nor its library is here"
_LIBRARY = "libnvidia-ml.so.1"
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib64/nvidia",
    "/usr/lib/wsl/lib",
)


def nvml_may_answer(proc: str = "/proc", folders: tuple[str, ...] = _FOLDERS) -> bool:
    """Whether the NVIDIA driver is loaded, or its library is where libraries are.

    A node whose driver is not loaded is worth asking too: that may be the fault.
    """
    if os.path.exists(f"{proc}/driver/nvidia"):  # noqa: PTH110 - no pathlib on a hook's path
        return True
    named = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return any(os.path.exists(f"{folder}/{_LIBRARY}") for folder in (*named, *folders))  # noqa: PTH110
