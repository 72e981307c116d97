"""Every cell of the access table as clients meet it: over HTTP, over WebSocket, and in the URL of a connection, by the daemon's own front door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from attrs import frozen

from computerd.contract.methods import METHODS
from computerd.contract.objects import Person
from tests.api.access_table import (
    ABSENT,
    FILE,
    HTTP_ONLY,
    LINES,
    QUERIES,
    RANKS,
    REASONS,
    ROUTES,
    SCOPE_SETS,
    SCOPES,
    STATUSES,
    THERE,
    WITHOUT_REASON,
    Line,
)
from tests.net.clients import Peer, Reply, request
from tests.net.real_front import RealFrontCase
from tests.session.journal_interface import ALICE, session_id

SHOWN = 20
"""Wrong cells that a failure lists."""
ROUTED = tuple(line for line in LINES if line.call in ROUTES)
CALLABLE = tuple(line for line in LINES if line.method not in HTTP_ONLY)
NO_TERMINAL = "tm_00000000000z"
CALLERS = tuple((rank, scopes) for rank in RANKS for scopes in SCOPE_SETS)
FULL = frozenset(SCOPES)


@frozen
class Came:
    """What one cell came to.

    Attributes:
        told: The error's body apart from its request id, or "".
    """

    cell: str
    line: Line
    expected: str
    word: str
    told: str = ""


def word(error: dict[str, Any] | None, status: int | None = None) -> str:
    """An answer in a word of the table; what the table has no word for, with all that it says."""
    if error is None:
        return "ok" if status is None else {200: "ok", 201: "created"}.get(status, f"status {status}")
    known = error.get("reason", WITHOUT_REASON) if error["code"] == "forbidden" else error["code"]
    if (
        STATUSES.get(str(known)) != error["status"]
        or status not in (None, error["status"])
        or (known in (*REASONS, WITHOUT_REASON)) != (error["code"] == "forbidden")
    ):
        return f"{error['code']} {error.get('reason')} {error['status']} {status}"
    return str(known)


def told(error: dict[str, Any] | None) -> str:
    """All of an error but its request id."""
    return json.dumps({name: value for name, value in (error or {}).items() if name != "requestId"})


def name(line: Line, rank: str, scopes: frozenset[str]) -> str:
    """A cell in words."""
    return f"{line.call} on {line.on} by {rank} with {', '.join(sorted(scopes)) or 'no scope'}"


class AccessCase(RealFrontCase):
    """A session of alice's, and one more of everybody's own."""

    def setUp(self) -> None:
        super().setUp()
        self.files.contents[FILE] = b"x"
        self.create(ALICE, id=THERE)
        self.mine = {rank: session_id(number) for number, rank in enumerate(RANKS)}
        for rank, (member, _) in RANKS.items():
            self.create(Person(id=member, name=None, email=None), id=self.mine[rank])

    def judge(self, came: list[Came]) -> None:
        """Every cell is as expected, and who lacks a scope is told the same whatever is there."""
        wrong = [f"{one.cell}: {one.word}, not {one.expected}" for one in came if one.word != one.expected]
        if wrong:
            self.fail(f"{len(wrong)} of {len(came)} cells are wrong, such as\n" + "\n".join(wrong[:SHOWN]))
        missing: dict[str, set[str]] = {}
        for one in came:
            if one.word == "missing_scope":
                missing.setdefault(one.cell.replace(f" on {one.line.on} ", " "), set()).add(one.told)
        self.assertEqual([cell for cell, bodies in missing.items() if len(bodies) > 1], [])


class HttpTests(AccessCase):
    """Over HTTP."""

    COUNT: ClassVar = 5_088
    """Cells: 53 lines of the table that have a route, times 32 sets of scopes and 3 ranks."""

    def target(self, call: str, session: str) -> str:
        """The path of a route, with its query."""
        return ROUTES[call][1].format(session) + QUERIES.get(call.partition("+")[0], "")

    def effects(self) -> tuple[int, int]:
        """What a call could have changed or asked for."""
        return sum(map(len, self.journal.log.values())), len(self.files.calls)

    def exchange(self, peer: Peer, line: Line, target: str, body: object, token: str) -> Reply:
        """One request. An archive that is refused before it has come ends its connection."""
        verb = ROUTES[line.call][0]
        if line.method != "files.upload":
            return self.http(peer, verb, target, None if verb == "GET" else body, token)
        peer = self.memory.connect()
        reply = self.archive(peer, target, b"tar", token)
        peer.lose()
        return reply

    def ask(self, peer: Peer, line: Line, rank: str, scopes: frozenset[str], number: int) -> Came:
        """One cell."""
        params = line.params()
        target = self.target(line.call, params.pop("sessionId", ""))
        body = {key: value for key, value in params.items() if not key.endswith("Id")}
        # the body of an answer is the answer
        body = body.get("answer", body)
        if line.on in ("free", "taken"):
            body = {"id": THERE if line.on == "taken" else session_id(1000 + number)}
        before = self.effects()
        reply = self.exchange(peer, line, target, body, self.token(rank, scopes))
        error = None if reply.status < 400 else reply.error
        if error is not None:
            self.assertEqual(self.effects(), before, "a refusal had an effect")
        expected = line.expected(scopes, rank)
        return Came(name(line, rank, scopes), line, expected, word(error, reply.status), told(error))

    def test_every_cell(self) -> None:
        """C4, C5."""
        came: list[Came] = []
        for rank, scopes in CALLERS:
            peer = self.memory.connect()
            came += [self.ask(peer, line, rank, scopes, len(came) + at) for at, line in enumerate(ROUTED)]
            peer.lose()
        self.assertEqual(len({one.cell for one in came}), self.COUNT)
        self.assertEqual(len(ROUTED) * 2**5 * 3, self.COUNT)
        self.judge(came)

    def test_every_route_is_there_and_is_served(self) -> None:
        """What the published table has and what the pages have are the same routes, and none is unknown to the site."""
        ids = {"turnId": "tn_0123456789ab", "askId": "ak_0123456789ab", "subagentId": "sa_0123456789ab"}
        published = {
            name: (method.route.verb, path.format(sessionId="{}", **ids))
            for method in METHODS
            if method.route is not None
            for name, path in zip(
                (method.name, f"{method.name}+relay"), (method.route.path, *method.route.aliases), strict=False
            )
        }
        self.assertEqual(published, ROUTES)
        peer = self.memory.connect()
        for call, (verb, form) in ROUTES.items():
            body: object = None if verb in ("GET", "PUT") else {}
            reply = self.http(peer, verb, self.target(call, THERE), body, self.token())
            self.assertNotIn(reply.status, (405, 500), form)
            if reply.status == 404:
                self.assertNotEqual(reply.error["code"], "not_found", form)

    def test_head_is_refused_as_get_is(self) -> None:
        for call, (verb, form) in ROUTES.items():
            if verb == "GET":
                for scopes, status in ((FULL - {"sessions:read", "files:read"}, b"403"), (FULL, b"404")):
                    peer = self.memory.connect()
                    path = self.target(call, ABSENT) if status == b"403" else form.format(ABSENT) + "x"
                    peer.send(request("HEAD", path, token=self.token("admin", scopes)))
                    head, body = peer.transport.take().split(b"\r\n\r\n")
                    self.assertEqual((head.split(b" ")[1], body), (status, b""), path)

    def test_without_a_credential_nothing_is_told(self) -> None:
        bodies = set()
        for verb, form in ROUTES.values():
            for session in (THERE, ABSENT):
                reply = self.http(self.memory.connect(), verb, form.format(session))
                self.assertEqual((reply.status, reply.headers["www-authenticate"]), (401, "Bearer"))
                bodies.add(told(reply.error))
        self.assertEqual(len(bodies), 1)


class WebSocketTests(AccessCase):
    """Over WebSocket."""

    COUNT: ClassVar = 7_776
    """Cells: 54 lines of the table, times 32 sets of scopes and 3 ranks; once more on a connection that has attached the session readOnly, for
    the 16 sets of scopes that can."""

    def setUp(self) -> None:
        super().setUp()
        self.others = self.memory.open(self.token())

    def opened(self, peer: Peer, session: str) -> str:
        """A terminal."""
        answer = self.answer(peer, "terminals.open", {"sessionId": session, "cols": 80, "rows": 24})
        return str(answer["result"]["terminal"]["id"])

    def named(self, line: Line, peer: Peer, rank: str, scopes: frozenset[str]) -> str | None:
        """The terminal that a cell names. Who lacks the scope can have none of its own."""
        if not line.names_terminal:
            return None
        if line.on == "foreign":
            return self.opened(self.others, THERE)
        if line.on == "own" and "terminals" in scopes:
            return self.opened(peer, self.mine[rank])
        return NO_TERMINAL

    def walk(self, rank: str, scopes: frozenset[str], *, read_only: bool) -> Iterator[Came]:
        """Every line of the table, on one connection."""
        peer = self.memory.open(self.token(rank, scopes))
        attach = {"sessionId": THERE, "readOnly": True}
        if read_only:
            self.answer(peer, "sessions.attach", attach)
        for number, line in enumerate(CALLABLE, 10):
            terminal = self.named(line, peer, rank, scopes)
            answer = self.answer(peer, line.method, line.params(terminal), number)
            yield self.came(line, rank, scopes, answer, read_only=read_only)
            if read_only and line.method in ("sessions.attach", "sessions.detach"):
                self.answer(peer, "sessions.attach", attach)
        peer.lose()
        self.others.lose()
        self.others = self.memory.open(self.token())
        self.spawner.spawned.clear()
        self.memory.advance(1)

    def came(self, line: Line, rank: str, scopes: frozenset[str], answer: dict[str, Any], *, read_only: bool) -> Came:
        """What an answer is."""
        error = answer.get("error")
        if error is not None:
            self.assertEqual(error["code"], -32000, line.call)
            self.assertEqual(error["message"], error["data"]["message"])
            error = error["data"]
        cell = name(line, rank, scopes) + (", readOnly" if read_only else "")
        return Came(cell, line, line.expected(scopes, rank, read_only=read_only), word(error), told(error))

    def test_every_cell(self) -> None:
        """C4, C5."""
        came: list[Came] = []
        for rank, scopes in CALLERS:
            came += self.walk(rank, scopes, read_only=False)
            if "sessions:read" in scopes:
                came += self.walk(rank, scopes, read_only=True)
        self.assertEqual(len({one.cell for one in came}), self.COUNT)
        self.assertEqual(len(CALLABLE) * 3 * (2**5 + 2**4), self.COUNT)
        self.judge(came)

    def test_what_is_served_over_http_alone_is_unknown_to_everybody(self) -> None:
        for rank, scopes in CALLERS:
            peer = self.memory.open(self.token(rank, scopes))
            for method in HTTP_ONLY:
                self.assertEqual(self.answer(peer, method, {})["error"]["code"], -32601)
            peer.lose()

    def test_every_method_of_the_pages_is_known(self) -> None:
        peer = self.memory.open(self.token())
        for line in CALLABLE:
            answer = self.answer(peer, line.method, line.params(NO_TERMINAL if line.names_terminal else None))
            self.assertNotEqual(answer.get("error", {}).get("code"), -32601, line.method)


class UrlTests(AccessCase):
    """Attaches that the URL of a connection names."""

    COUNT: ClassVar = 384
    """Cells: a session that is there and one that is not, with and without readOnly, times 32 sets of scopes and 3 ranks."""

    def ask(self, rank: str, scopes: frozenset[str], *, read_only: bool) -> Iterator[Came]:
        """Two cells."""
        option = "&readOnly=true" if read_only else ""
        path = f"/connect?sessionId={THERE}&sessionId={ABSENT}{option}"
        peer = self.memory.open(self.token(rank, scopes), path=path)
        ready, *attached = [message for message in peer.messages() if message["method"] != "event"]
        self.assertEqual(ready["method"], "ready")
        call = "sessions.attach+readOnly" if read_only else "sessions.attach"
        for session, message in zip((THERE, ABSENT), attached, strict=True):
            self.assertEqual((message["method"], message["params"]["sessionId"]), ("sessions.attached", session))
            (line,) = [
                one for one in LINES if one.call == call and one.on == ("there" if session == THERE else "absent")
            ]
            error = message["params"]["error"]
            self.assertEqual(message["params"]["session"] is None, error is not None)
            yield Came(name(line, rank, scopes), line, line.expected(scopes, rank), word(error), told(error))
        if "sessions:write" in scopes:
            answer = self.answer(peer, "sessions.update", {"sessionId": THERE, "title": "T"})
            refused = read_only and "sessions:read" in scopes
            self.assertEqual(answer.get("error", {}).get("data", {}).get("reason"), "read_only" if refused else None)
        peer.lose()

    def test_every_cell(self) -> None:
        """C4, C5."""
        came: list[Came] = []
        for rank, scopes in CALLERS:
            for read_only in (False, True):
                came += self.ask(rank, scopes, read_only=read_only)
        self.assertEqual(len({one.cell for one in came}), self.COUNT)
        self.assertEqual(2 * 2 * 2**5 * 3, self.COUNT)
        self.judge(came)

    def test_resume_in_the_url_needs_the_scope_for_it(self) -> None:
        for scopes, expected in ((FULL, "ok"), (FULL - {"sessions:write"}, "missing_scope")):
            peer = self.memory.open(self.token("owner", scopes), path=f"/connect?sessionId={THERE}&resume=true")
            (message,) = [one for one in peer.messages() if one["method"] == "sessions.attached"]
            self.assertEqual(word(message["params"]["error"]), expected)
            peer.lose()
