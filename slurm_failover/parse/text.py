"""Bytes → readable text: no NUL, no colours, no control characters, whatever the encoding."""

from __future__ import annotations

import re

LONGEST = 2048
_NOISE = re.compile("\x1b\\[[0-9;?]{0,16}[ -/]{0,4}[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def decode(raw: bytes) -> str:
    """The text of a line: at most ``LONGEST`` bytes of it, in UTF-8 with replacements."""
    text = raw[:LONGEST].decode("utf-8", "replace")
    if "\x1b" in text or not text.isprintable():
        text = _NOISE.sub("", text)
    return text.rstrip("\r\n")
