"""A file system that takes every request and answers none: whoever touches it sleeps in the kernel
and can not be killed (state D), as over a dead disk or a lost NFS server.

Run as root: ``python3 silent_disk.py PATH`` mounts it there, prints a line, and is its server.
When that dies, whoever sleeps wakes with an error.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from pathlib import Path

DEVICE = "/dev/fuse"
NOSUID_NODEV = 6
INIT = 26
"""The one request that is answered: FUSE's first (linux/fuse.h, protocol 7.31)."""


def mount(path: str) -> int:
    """Mount it over a folder or a file; the handle of its server. Raises OSError."""
    handle = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    kind = stat.S_IFMT(Path(path).stat().st_mode)
    options = f"fd={handle},rootmode={kind | 0o755:o},user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"silent", os.fsencode(path), b"fuse", NOSUID_NODEV, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return handle


def serve(handle: int) -> None:
    """Greet the kernel, and take all that comes."""
    while True:
        request = os.read(handle, 1 << 20)
        _, opcode, number = struct.unpack_from("=IIQ", request)
        if opcode == INIT:
            greeting = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0)
            os.write(handle, struct.pack("=IiQ", 16 + len(greeting), 0, number) + greeting)
            sys.stdout.write("mounted\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve(mount(sys.argv[1]))
