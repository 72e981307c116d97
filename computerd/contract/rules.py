"""The rules between the fields of one params object, which no single field's type can say. Source: the Computer API page, section 5."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct

from computerd.contract.errors import invalid
from computerd.contract.params import Attach, OpenTerminal


def check_open(params: OpenTerminal) -> None:
    """A tty needs its size; pipes have neither a size nor a terminal type.

    Raises:
        ApiError: `invalid_request` with the field `cols`, `rows` or `term`.
    """
    for name, value in (("cols", params.cols), ("rows", params.rows)):
        if params.tty and value is UNSET:
            raise invalid(name, f"{name} is required on a tty. Send the terminal's size, or tty false for pipes.")
        if not params.tty and value is not UNSET:
            raise invalid(name, f"{name} is for a tty only. Leave it out, or send tty true.")
    if not params.tty and params.term is not UNSET:
        raise invalid("term", "term is for a tty only. Leave it out, or send tty true.")


def check_attach(params: Attach) -> None:
    """Resuming a session changes it, and `readOnly` promises not to.

    Raises:
        ApiError: `invalid_request` with the field `resume`.
    """
    if params.resume is True and params.read_only is True:
        raise invalid("resume", "resume changes the session, which readOnly forbids. Leave one of them out.")


SCHEMAS: Final[dict[type[Struct], dict[str, object]]] = {
    OpenTerminal: {
        "if": {"properties": {"tty": {"const": False}}, "required": ["tty"]},
        "then": {"properties": {"cols": False, "rows": False, "term": False}},
        "else": {"required": ["cols", "rows"]},
    },
    Attach: {
        "not": {
            "properties": {"resume": {"const": True}, "readOnly": {"const": True}},
            "required": ["resume", "readOnly"],
        }
    },
}
"""The same rules as JSON Schema: what is added to the schema of the params."""
