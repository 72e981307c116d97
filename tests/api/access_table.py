"""Who may call what, typed in from the pages of the API and not from the daemon's own table: what the tests of access go by.

Sources: section 6 of the Computer API page ("Access") for the scopes; "Access" of the terminals page for `terminals.*`; the API schema for the
methods, the routes (those of files have two addresses there) and the reasons of `forbidden`;
section 3 of the Computer API page for the statuses. Without an agent nothing is found by a
turn's, ask's or subagent's id, and what needs an agent is `feature_unavailable`.

A cell is one call by one credential: a line of `TABLE`, one of the 32 sets of scopes, who calls (`RANKS`), and on what kind of connection.
`Line.expected` says what it is answered with.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

from attrs import frozen

SCOPES: Final = ("sessions:read", "sessions:write", "files:read", "files:write", "terminals")
SCOPE_SETS: Final = tuple(frozenset(some) for size in range(6) for some in combinations(SCOPES, size))
RANKS: Final = {"owner": ("alice", False), "member": ("bob", False), "admin": ("root", True)}
"""Who calls: a member id, and whether the credential says `admin`. The session that is there is alice's."""

THERE: Final = "cs_0123456789abcdef"
ABSENT: Final = "cs_00000000000000zz"
TURN: Final = "tn_0123456789ab"
ASK: Final = "ak_0123456789ab"
SUBAGENT: Final = "sa_0123456789ab"

STATUSES: Final = {
    "ok": 200,
    "created": 201,
    "missing_scope": 403,
    "read_only": 403,
    "terminal_owner_only": 403,
    "owner_only": 403,
    "session_not_found": 404,
    "turn_not_found": 404,
    "ask_not_found": 404,
    "subagent_not_found": 404,
    "terminal_not_found": 404,
    "feature_unavailable": 409,
    "id_conflict": 409,
}
"""Of each word of the table."""
REASONS: Final = ("missing_scope", "read_only", "terminal_owner_only")
"""Words that are the reason of a `forbidden`; the others are error codes, but for the next."""
WITHOUT_REASON: Final = "owner_only"
"""A `forbidden` that carries none: the API schema has no reason for files."""

# "read only" says whether a connection may that has attached the session that is there with readOnly. `/` separates owner, member, admin.
TABLE: Final = """
call                     scopes                        read only  on      answer
sessions.attach          sessions:read                 may        there   ok
sessions.attach          sessions:read                 may        absent  session_not_found
sessions.attach+readOnly sessions:read                 may        there   ok
sessions.attach+readOnly sessions:read                 may        absent  session_not_found
sessions.attach+resume   sessions:read,sessions:write  may        there   ok
sessions.attach+resume   sessions:read,sessions:write  may        absent  session_not_found
sessions.detach          sessions:read                 may        there   ok
sessions.detach          sessions:read                 may        absent  ok
sessions.get             sessions:read                 may        there   ok
sessions.get             sessions:read                 may        absent  session_not_found
sessions.list            sessions:read                 -          all     ok
sessions.create          sessions:write                -          free    created
sessions.create          sessions:write                -          taken   ok/id_conflict/id_conflict
sessions.update          sessions:write                not        there   ok
sessions.update          sessions:write                not        absent  session_not_found
sessions.interrupt       sessions:write                not        there   ok
sessions.interrupt       sessions:write                not        absent  session_not_found
sessions.compact         sessions:write                not        there   feature_unavailable
sessions.compact         sessions:write                not        absent  session_not_found
sessions.suspend         sessions:write                not        there   ok
sessions.suspend         sessions:write                not        absent  session_not_found
sessions.resume          sessions:write                not        there   ok
sessions.resume          sessions:write                not        absent  session_not_found
turns.send               sessions:write                not        there   feature_unavailable
turns.send               sessions:write                not        absent  session_not_found
turns.get                sessions:read                 may        there   turn_not_found
turns.get                sessions:read                 may        absent  session_not_found
turns.cancel             sessions:write                not        there   turn_not_found
turns.cancel             sessions:write                not        absent  session_not_found
asks.list                sessions:read                 may        there   ok
asks.list                sessions:read                 may        absent  session_not_found
asks.get                 sessions:read                 may        there   ask_not_found
asks.get                 sessions:read                 may        absent  session_not_found
asks.answer              sessions:write                not        there   ask_not_found
asks.answer              sessions:write                not        absent  session_not_found
asks.dismiss             sessions:write                not        there   ask_not_found
asks.dismiss             sessions:write                not        absent  session_not_found
subagents.list           sessions:read                 may        there   ok
subagents.list           sessions:read                 may        absent  session_not_found
subagents.get            sessions:read                 may        there   subagent_not_found
subagents.get            sessions:read                 may        absent  session_not_found
subagents.stop           sessions:write                not        there   subagent_not_found
subagents.stop           sessions:write                not        absent  session_not_found
events.list              sessions:read                 may        there   ok
events.list              sessions:read                 may        absent  session_not_found
files.list               files:read                    -          there   ok/owner_only/ok
files.list               files:read                    -          absent  session_not_found
files.list+relay         files:read                    -          there   ok/owner_only/ok
files.list+relay         files:read                    -          absent  session_not_found
files.read               files:read                    -          there   ok/owner_only/ok
files.read               files:read                    -          absent  session_not_found
files.read+relay         files:read                    -          there   ok/owner_only/ok
files.read+relay         files:read                    -          absent  session_not_found
files.download           files:read                    -          there   ok/owner_only/ok
files.download           files:read                    -          absent  session_not_found
files.download+relay     files:read                    -          there   ok/owner_only/ok
files.download+relay     files:read                    -          absent  session_not_found
files.upload             files:write                   -          there   created/owner_only/created
files.upload             files:write                   -          absent  session_not_found
files.upload+relay       files:write                   -          there   created/owner_only/created
files.upload+relay       files:write                   -          absent  session_not_found
terminals.open           terminals                     not        there   ok/terminal_owner_only/ok
terminals.open           terminals                     not        absent  session_not_found
terminals.resize         terminals                     may        own     ok
terminals.resize         terminals                     may        foreign terminal_not_found
terminals.resize         terminals                     may        absent  terminal_not_found
terminals.eof            terminals                     may        own     ok
terminals.eof            terminals                     may        foreign terminal_not_found
terminals.eof            terminals                     may        absent  terminal_not_found
terminals.close          terminals                     may        own     ok
terminals.close          terminals                     may        foreign terminal_not_found
terminals.close          terminals                     may        absent  terminal_not_found
ping                     -                             may        all     ok
"""

ROUTES: Final = {
    "sessions.get": ("GET", "/sessions/{}"),
    "sessions.list": ("GET", "/sessions"),
    "sessions.create": ("POST", "/sessions"),
    "sessions.update": ("PATCH", "/sessions/{}"),
    "sessions.interrupt": ("POST", "/sessions/{}/interrupt"),
    "sessions.compact": ("POST", "/sessions/{}/compact"),
    "sessions.suspend": ("POST", "/sessions/{}/suspend"),
    "sessions.resume": ("POST", "/sessions/{}/resume"),
    "turns.send": ("POST", "/sessions/{}/turns"),
    "turns.get": ("GET", "/sessions/{}/turns/" + TURN),
    "turns.cancel": ("POST", "/sessions/{}/turns/" + TURN + "/cancel"),
    "asks.list": ("GET", "/sessions/{}/asks"),
    "asks.get": ("GET", "/sessions/{}/asks/" + ASK),
    "asks.answer": ("POST", "/sessions/{}/asks/" + ASK + "/answer"),
    "asks.dismiss": ("POST", "/sessions/{}/asks/" + ASK + "/dismiss"),
    "subagents.list": ("GET", "/sessions/{}/subagents"),
    "subagents.get": ("GET", "/sessions/{}/subagents/" + SUBAGENT),
    "subagents.stop": ("POST", "/sessions/{}/subagents/" + SUBAGENT + "/stop"),
    "events.list": ("GET", "/sessions/{}/events"),
    "files.list": ("GET", "/sessions/{}/workspace/files"),
    "files.list+relay": ("GET", "/files/{}/files"),
    "files.read": ("GET", "/sessions/{}/workspace/file"),
    "files.read+relay": ("GET", "/files/{}/file"),
    "files.download": ("GET", "/sessions/{}/workspace/archive"),
    "files.download+relay": ("GET", "/files/{}/archive"),
    "files.upload": ("PUT", "/sessions/{}/workspace/archive"),
    "files.upload+relay": ("PUT", "/files/{}/archive"),
}
"""The HTTP routes, with a place for the session's id."""
FILE: Final = "a.txt"
"""A file that every workspace has."""
QUERIES: Final = {
    "files.list": "?path=",
    "files.read": f"?path={FILE}",
    "files.download": "?path=",
    "files.upload": "?path=new&replace=true",
}
"""What is in the query of a route, by method."""
HTTP_ONLY: Final = ("sessions.list", "sessions.create", "files.list", "files.read", "files.download", "files.upload")
"""What the API schema serves over HTTP alone, and the list of sessions and the files, which are outside it."""

BODIES: Final[dict[str, dict[str, Any]]] = {
    "sessions.attach+readOnly": {"readOnly": True},
    "sessions.attach+resume": {"resume": True},
    "sessions.update": {"title": "T"},
    "turns.send": {"input": "Hello"},
    "asks.answer": {"answer": {"decision": "allow"}},
    "terminals.open": {"cols": 80, "rows": 24},
    "terminals.resize": {"cols": 100, "rows": 30},
}
"""The params of a call besides the ids."""
_IDS: Final = {
    "turns.get": {"turnId": TURN},
    "turns.cancel": {"turnId": TURN},
    "asks.get": {"askId": ASK},
    "asks.answer": {"askId": ASK},
    "asks.dismiss": {"askId": ASK},
    "subagents.get": {"subagentId": SUBAGENT},
    "subagents.stop": {"subagentId": SUBAGENT},
}


@frozen(eq=False)
class Line:
    """One line of the table.

    Attributes:
        call: The method, with what else tells the call apart.
        scopes: What it needs, in the order in which it is asked for.
        read_only: Whether it is refused on a connection that has attached the session readOnly.
        on: The session: `there` or `absent`. The terminal: `own`, `foreign` or `absent`. The id of a new session: `free` or `taken`.
            `all`: nothing is named.
        answers: One for each of `RANKS`.
    """

    call: str
    scopes: tuple[str, ...]
    read_only: bool
    on: str
    answers: dict[str, str]

    @property
    def method(self) -> str:
        """The method's name."""
        return self.call.partition("+")[0]

    def expected(self, scopes: frozenset[str], rank: str, *, read_only: bool = False) -> str:
        """What a caller is answered, in a word of the table. `read_only`: on a connection that has attached the session `THERE` so."""
        if not scopes.issuperset(self.scopes):
            return "missing_scope"
        if read_only and self.read_only and self.on == "there":
            return "read_only"
        return self.answers[rank]

    def params(self, terminal: str | None = None) -> dict[str, Any]:
        """The call's params as they are on the wire; those of a terminal need its id."""
        params = {**_IDS.get(self.method, {}), **BODIES.get(self.call, {})}
        if terminal is not None:
            params["terminalId"] = terminal
        elif self.on in ("there", "absent"):
            params["sessionId"] = THERE if self.on == "there" else ABSENT
        return params

    @property
    def names_terminal(self) -> bool:
        """Whether it is about a terminal that is open."""
        return self.method in ("terminals.resize", "terminals.eof", "terminals.close")


def _lines() -> Iterator[Line]:
    for row in TABLE.strip().split("\n")[1:]:
        call, scopes, read_only, on, answers = row.split()
        words = answers.split("/")
        yield Line(
            call=call,
            scopes=() if scopes == "-" else tuple(scopes.split(",")),
            read_only=read_only == "not",
            on=on,
            answers=dict(zip(RANKS, words * 3 if len(words) == 1 else words, strict=True)),
        )


LINES: Final = tuple(_lines())
