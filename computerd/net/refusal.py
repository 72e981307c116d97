"""Why the network edge can't begin: one line for the administrator; the daemon ends with status 78 on it."""

from __future__ import annotations


class ListenError(Exception):
    """An endpoint, or the local socket, can't be listened on. The message says which, and what to do."""
