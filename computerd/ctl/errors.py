"""What ends a command with one line."""

from __future__ import annotations


class CommandError(Exception):
    """A refusal or failure, for the person at the keyboard: what went wrong and what to do next."""
