"""What a service tells systemd: sd_notify(3), without its library."""

from __future__ import annotations

import os
import socket


def notify(message: str) -> None:
    """Tell systemd, where it started us with Type=notify. What it can not be told is dropped: its
    watchdog acts on silence.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(message.encode(), name)
    except OSError:
        return
