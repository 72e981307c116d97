"""Text of strangers, so that it can be printed on a terminal: nothing in it steers the terminal or begins another line."""

from __future__ import annotations

import json


def visible(text: str) -> str:
    r"""`text` with what does not print written as `\xNN`, `\uNNNN` or `\UNNNNNNNN`: controls, line ends, marks that turn the direction."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def json_line(value: object) -> str:
    """`value` as JSON on one line, without blanks. What does not print is escaped, which JSON means the same by."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] if one != "\x7f" else "\\u007f" for one in text)


def shortened(text: str, most: int) -> str:
    """At most `most` characters of `text`; an ellipsis says that there were more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _escaped(one: str) -> str:
    code = ord(one)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
