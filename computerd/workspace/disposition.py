"""The name under which a browser saves what it gets (RFC 6266). Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

_UNSAFE: Final = re.compile(r'[^ -~]|["\\%/]')
"""What a quoted string does not hold, or clients read in different ways (RFC 6266, appendix D)."""
_ATTRIBUTE: Final = "!#$&+-.^_`|~"
"""Beside letters and digits, what stands for itself in an extended value (RFC 8187, section 3.2.1)."""


def disposition(name: str, *, shown: bool) -> str:
    """The value of `Content-Disposition`.

    Args:
        name: A file's name; any text.
        shown: Whether it may be shown in place.
    """
    plain = _UNSAFE.sub("_", name)
    value = f'{"inline" if shown else "attachment"}; filename="{plain}"'
    if plain == name:
        return value
    return f"{value}; filename*=UTF-8''{quote(name, safe=_ATTRIBUTE, errors='replace')}"
