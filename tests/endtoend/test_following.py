"""Clients that follow sessions: attach, acknowledge, fall behind, come back, wait (S2, C5 of the threat model; BR-105)."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any, ClassVar

from websockets.exceptions import InvalidStatus

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import WAIT, Client, RefusedError, http, raw
from tests.endtoend.computer import Computer, eventually

MIB = 1 << 20
LARGE = 200_000
"""About as many bytes has an event of `grow`."""
MAX_BACKLOG_BYTES = 8 * MIB
MAX_ATTACHED = 20
MAX_WAITING = 100
MAX_MEMORY = 2 * MIB
"""That a client which does not read may cost, beyond its socket."""


def numbers(events: list[dict[str, Any]]) -> list[int]:
    """Their `seq`."""
    return [event["seq"] for event in events]


def grow(client: Client, session: str, number: int) -> int:
    """A large event: all of the session's metadata changes. Its `seq`."""
    metadata = {f"{key:02}": chr(0x1F600 + number % 50) * 500 for key in range(50)}
    seq: int = client.ask("sessions.update", sessionId=session, metadata=metadata)["seq"]
    return seq


def grow_past(client: Client, session: str, size: int) -> int:
    """So many bytes of events, more or less. The last `seq`."""
    return [grow(client, session, number) for number in range(-(-size // LARGE))][-1]


def drain(client: Client, session: str, seq: int) -> list[int]:
    """Reads up to an event, and acknowledges each: history over 8 MiB comes only to those who do. The numbers."""
    seen: list[int] = []
    while not seen or seen[-1] < seq:
        client.until(lambda: bool(client.events[session]))
        seen += numbers(client.events.pop(session))
        client.ack(session, seen[-1])
    return seen


class AttachTests(ComputerCase):
    """`sessions.attach`, `sessions.ack`, `sessions.detach`."""

    def refused(self, client: Client, method: str, **params: object) -> RefusedError:
        """Asks for what is refused."""
        with self.assertRaises(RefusedError) as caught:
            client.ask(method, **params)
        error: RefusedError = caught.exception
        return error

    def test_the_answer_precedes_the_events(self) -> None:
        """Section 6: then all after the number, in order, as `events.list` has them, and what comes next."""
        other = self.connect()
        for number in range(20):
            other.ask("sessions.update", sessionId=self.session, title=f"title {number}")
        client = self.connect()
        number = client.send("sessions.attach", sessionId=self.session, after=0)
        first = json.loads(client.socket.recv(WAIT))
        self.assertEqual(first["id"], number)
        attached = first["result"]
        self.assertEqual((attached["epochStartSeq"], attached["earlierTurns"]), (1, None))
        self.assertEqual(attached["logEpoch"], attached["session"]["logEpoch"])
        self.assertIn("terminal", attached["capabilities"]["features"])
        self.assertGreater(attached["timing"]["serverUs"], 0)
        last = attached["session"]["lastSeq"]
        seen = client.reach(self.session, last)
        self.assertEqual(seen, self.computer.journal(self.session))
        client.ack(self.session, last)
        done = other.ask("sessions.update", sessionId=self.session, title="news")
        (news,) = client.reach(self.session, done["seq"])
        self.assertEqual((news["seq"], news["type"]), (last + 1, "session.updated"))
        self.assertEqual(news["data"]["changes"], {"title": {"from": "title 19", "to": "news"}})

    def test_without_a_number_only_what_is_new(self) -> None:
        client = self.connect()
        attached = client.attach(self.session)
        seq = client.ask("sessions.update", sessionId=self.session, title="new")["seq"]
        self.assertEqual(numbers(client.reach(self.session, seq)), [attached["session"]["lastSeq"] + 1])
        self.assertEqual(self.connect().attach(self.session, tailTurns=5)["earlierTurns"], 0)

    def test_terminals_are_seen(self) -> None:
        client, other = self.connect(), self.connect("bob")
        other.attach(self.session)
        shell = client.open(self.session, "exit 3")
        shell.wait()
        other.until(lambda: len(other.events[self.session]) == 2)
        opened, closed = other.events[self.session]
        self.assertEqual(
            (opened["type"], opened["data"]), ("terminal.opened", {"terminalId": shell.id, "command": "exit 3"})
        )
        self.assertEqual((closed["type"], closed["data"]), ("terminal.closed", {"terminalId": shell.id, "exitCode": 3}))
        self.assertEqual((opened["actor"]["id"], closed["actor"]), ("alice", None))

    def test_several_sessions(self) -> None:
        """Each has its own numbers; a detach ends one; an attach replaces the one before."""
        sessions = [self.session, self.computer.session(), self.computer.session()]
        client, other = self.connect(), self.connect()
        for session in sessions:
            client.attach(session, after=0)
        last = {}
        for round_ in range(5):
            for session in sessions:
                last[session] = other.ask("sessions.update", sessionId=session, title=f"title {round_}")["seq"]
        for session in sessions:
            self.assertEqual(numbers(client.reach(session, last[session])), list(range(1, last[session] + 1)))
        self.assertEqual(client.ask("sessions.detach", sessionId=sessions[0]), {})
        self.assertEqual(client.ask("sessions.detach", sessionId=sessions[0]), {})
        for session in sessions:
            last[session] = other.ask("sessions.update", sessionId=session, title="late")["seq"]
        for session in sessions[1:]:
            self.assertEqual(numbers(client.reach(session, last[session])), [last[session]])
        client.ask("ping")
        self.assertEqual(client.events[sessions[0]], [])
        client.attach(sessions[1], after=last[sessions[1]] - 2)
        self.assertEqual(len(client.reach(sessions[1], last[sessions[1]])), 2)

    def test_acknowledgements_that_make_no_sense(self) -> None:
        """They are notifications: nobody is answered, and nothing happens."""
        client = self.connect()
        last = client.attach(self.session, after=0)["session"]["lastSeq"]
        client.reach(self.session, last)
        for params in (
            {"sessionId": self.session, "seq": 10**9},
            {"sessionId": self.session, "seq": 0},
            {"sessionId": self.session, "seq": -1},
            {"sessionId": self.session, "seq": "1"},
            {"sessionId": "cs_0000000000000000", "seq": 1},
            {"seq": 1},
            {},
        ):
            client.notify("sessions.ack", **params)
        seq = client.ask("sessions.update", sessionId=self.session, title="on")["seq"]
        self.assertEqual(numbers(client.reach(self.session, seq)), [last + 1])
        self.assertEqual(client.notices("session.detached"), [])

    def test_what_is_refused(self) -> None:
        """And none of it is an attach."""
        client = self.connect()
        last = self.computer.get(self.session)["lastSeq"]
        error = self.refused(client, "sessions.attach", sessionId=self.session, after=last + 1)
        self.assertEqual((error.slug, error.data["status"], error.data["field"]), ("cursor_ahead", 409, "after"))
        error = self.refused(client, "sessions.attach", sessionId="cs_0000000000000000")
        self.assertEqual((error.slug, error.data["status"]), ("session_not_found", 404))
        for params, field in (
            ({"after": -1}, "after"),
            ({"after": True}, "after"),
            ({"tailTurns": 51}, "tailTurns"),
            ({"readOnly": "yes"}, "readOnly"),
            ({"more": 1}, "more"),
            ({"resume": True, "readOnly": True}, "resume"),
        ):
            error = self.refused(client, "sessions.attach", sessionId=self.session, **params)
            self.assertEqual((error.code, error.data["field"]), (-32602, field))
        self.connect().ask("sessions.update", sessionId=self.session, title="on")
        client.ask("ping")
        self.assertEqual(client.events[self.session], [])

    def test_twenty_and_no_more(self) -> None:
        """Per connection. One that is attached already may be attached anew."""
        sessions = [self.computer.session() for _ in range(MAX_ATTACHED)]
        client = self.connect()
        for session in sessions:
            client.attach(session)
        error = self.refused(client, "sessions.attach", sessionId=self.session)
        self.assertEqual((error.slug, error.data["status"], error.data["retryable"]), ("too_many_attached", 409, True))
        client.attach(sessions[0], after=0)
        self.connect().attach(self.session)
        client.ask("sessions.detach", sessionId=sessions[1])
        client.attach(self.session)

    def test_read_only(self) -> None:
        """C5: on that connection, for that session."""
        client, free = self.connect(), self.connect()
        client.attach(self.session, readOnly=True)
        for method, params in (
            ("sessions.update", {"title": "no"}),
            ("sessions.suspend", {}),
            ("sessions.resume", {}),
            ("terminals.open", {"cols": 80, "rows": 24}),
        ):
            error = self.refused(client, method, sessionId=self.session, **params)
            self.assertEqual((error.slug, error.data["reason"]), ("forbidden", "read_only"), method)
        client.ask("sessions.update", sessionId=self.computer.session(), title="yes")
        seq = free.ask("sessions.update", sessionId=self.session, title="yes")["seq"]
        client.reach(self.session, seq)
        client.attach(self.session)
        client.ask("sessions.update", sessionId=self.session, title="now")

    def test_a_reader_follows_and_may_not_wake(self) -> None:
        """C5: `sessions:read` is enough to look, and `resume` needs more."""
        token = self.computer.token("carol", scopes=("sessions:read",))
        with Client.to(self.computer.url, token) as client:
            client.attach(self.session, after=0)
            error = self.refused(client, "sessions.attach", sessionId=self.session, resume=True)
            self.assertEqual((error.slug, error.data["reason"]), ("forbidden", "missing_scope"))
            seq = self.connect().ask("sessions.update", sessionId=self.session, title="x")["seq"]
            client.reach(self.session, seq)
        nothing = self.computer.token("carol", scopes=("files:read",))
        with Client.to(self.computer.url, nothing) as client:
            error = self.refused(client, "sessions.attach", sessionId=self.session)
            self.assertEqual((error.slug, error.data["reason"]), ("forbidden", "missing_scope"))


class AddressTests(ComputerCase):
    """Attaches that the connection's URL names."""

    def to(self, query: str) -> Client:
        """A connection."""
        client = Client.to(f"{self.computer.url}?{query}", self.computer.token())
        self.addCleanup(client.socket.close)
        return client

    def test_each_is_answered(self) -> None:
        """By `sessions.attached`, after `ready` and before the session's first event, also when it is refused."""
        other = self.computer.session()
        http(f"{self.computer.base}/sessions/{other}", "PATCH", token=self.computer.token(), body={"title": "x"})
        unknown = "cs_0000000000000000"
        query = f"sessionId={self.session}&sessionId={unknown}&sessionId={other}&sessionId={other}&after=1"
        socket = raw(
            f"{self.computer.url}?{query}",
            additional_headers={"Authorization": f"Bearer {self.computer.token()}"},
            subprotocols=["opc.v1"],
        )
        self.addCleanup(socket.close)
        seen: list[tuple[str, str, int]] = []
        errors: dict[str, Any] = {}
        while (
            not any(method == "event" and where == other and seq == 3 for method, where, seq in seen) or len(errors) < 3
        ):
            body = json.loads(socket.recv(WAIT))
            params = body["params"]
            seen.append((body["method"], params.get("sessionId", ""), params.get("seq", 0)))
            if body["method"] == "sessions.attached":
                errors[params["sessionId"]] = params["error"]
                attached = params["error"] is None
                for name in ("session", "logEpoch", "epochStartSeq", "capabilities", "timing"):
                    self.assertEqual(params[name] is not None, attached, name)
        self.assertEqual(seen[0][0], "ready")
        self.assertEqual(set(errors), {self.session, unknown, other})
        self.assertEqual((errors[unknown]["code"], errors[unknown]["status"]), ("session_not_found", 404))
        for session in (self.session, other):
            of_it = [(method, seq) for method, where, seq in seen if where == session]
            self.assertEqual(of_it[0], ("sessions.attached", 0))
            self.assertEqual([seq for _, seq in of_it[1:]], list(range(2, len(of_it) + 1)))

    def test_one_that_is_ahead(self) -> None:
        client = self.to(f"sessionId={self.session}&after=999")
        client.until(lambda: bool(client.notices("sessions.attached")))
        (notice,) = client.notices("sessions.attached")
        self.assertEqual((notice["error"]["code"], notice["session"]), ("cursor_ahead", None))
        client.attach(self.session)

    def test_options(self) -> None:
        client = self.to(f"sessionId={self.session}&tailTurns=2&readOnly=true&deltas=false")
        client.until(lambda: bool(client.notices("sessions.attached")))
        self.assertEqual(client.notices("sessions.attached")[0]["earlierTurns"], 0)
        with self.assertRaises(RefusedError) as caught:
            client.ask("sessions.update", sessionId=self.session, title="no")
        self.assertEqual(caught.exception.data["reason"], "read_only")

    def test_a_query_that_makes_no_sense(self) -> None:
        """Is refused before the upgrade."""
        many = "&".join(f"sessionId=cs_{number:016}" for number in range(MAX_ATTACHED + 1))
        for query, field in (
            (many, "sessionId"),
            (f"sessionId={self.session}&after=x", "after"),
            (f"sessionId={self.session}&after=1&after=2", "after"),
            (f"sessionId={self.session}&tailTurns=0", "tailTurns"),
            (f"sessionId={self.session}&readOnly=maybe", "readOnly"),
            (f"sessionId={self.session}&more=1", "more"),
        ):
            with self.assertRaises(InvalidStatus) as caught:
                self.to(query)
            response = caught.exception.response
            assert response.body is not None
            error = json.loads(bytes(response.body))["error"]
            self.assertEqual(
                (response.status_code, error["code"], error["field"]), (400, "invalid_request", field), query
            )


class BehindTests(ComputerCase):
    """Clients that do not acknowledge, or do not read at all."""

    own = True
    timeout = 120

    def test_too_far_behind(self) -> None:
        """At 8 MiB: the session is detached, and everything else on the connection goes on."""
        other = self.computer.session()
        writer = self.connect()
        client = Client.to(self.computer.url, self.computer.token(), max_queue=None)  # it reads, and says nothing
        self.addCleanup(client.socket.close)
        shell = client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        client.attach(self.session)
        client.attach(other)
        first = grow(writer, self.session, 0)
        last = grow_past(writer, self.session, MAX_BACKLOG_BYTES + MIB)
        client.until(lambda: bool(client.notices("session.detached")))
        (notice,) = client.notices("session.detached")
        self.assertEqual(notice, {"sessionId": self.session, "reason": "too_far_behind"})
        seen = client.events.pop(self.session)
        given = sum(len(json.dumps(event, ensure_ascii=False).encode()) for event in seen)
        self.assertEqual(numbers(seen), list(range(first, seen[-1]["seq"] + 1)))
        self.assertLess(given, MAX_BACKLOG_BYTES + LARGE)
        self.assertGreater(given, MAX_BACKLOG_BYTES - 3 * LARGE)
        shell.type(b"still here")
        shell.expect(b"still here")
        seq = writer.ask("sessions.update", sessionId=other, title="x")["seq"]
        client.reach(other, seq)
        # and it may come back
        client.attach(self.session, after=seen[-1]["seq"])
        self.assertEqual(drain(client, self.session, last), list(range(seen[-1]["seq"] + 1, last + 1)))

    def test_who_acknowledges_is_not(self) -> None:
        """Twice as much, acknowledged at some distance."""
        client, writer = self.connect(), self.connect()
        client.attach(self.session)
        seen: list[dict[str, Any]] = []
        for number in range(2 * MAX_BACKLOG_BYTES // LARGE):
            seq = grow(writer, self.session, number)
            if number % 20 == 19:
                seen += client.reach(self.session, seq)
                client.ack(self.session, seq - 10)
        client.ask("ping")
        self.assertEqual(client.notices("session.detached"), [])
        self.assertEqual(numbers(seen), list(range(seen[0]["seq"], seen[-1]["seq"] + 1)))

    def test_a_client_that_does_not_read(self) -> None:
        """Costs no memory, is detached, and finds its connection as it was when it reads again."""
        writer, reader = self.connect(), self.connect()
        frozen = self.frozen()
        reader.attach(self.session)
        for _ in range(2):  # what the daemon keeps anyway
            reader.reach(self.session, seq := grow_past(writer, self.session, MAX_BACKLOG_BYTES // 2))
            reader.ack(self.session, seq)
        attached = frozen.attach(self.session)
        before = self.computer.memory()
        highest = 0
        for number in range((MAX_BACKLOG_BYTES + 4 * MIB) // LARGE):
            seq = grow(writer, self.session, number)
            reader.reach(self.session, seq)
            reader.ack(self.session, seq)
            highest = max(highest, self.computer.memory())
        self.assertLess(highest - before, MAX_MEMORY)
        frozen.until(lambda: bool(frozen.notices("session.detached")))
        self.assertEqual(frozen.notices("session.detached")[0]["reason"], "too_far_behind")
        first = attached["session"]["lastSeq"] + 1
        seen = frozen.events.pop(self.session)
        self.assertEqual(numbers(seen), list(range(first, first + len(seen))))
        frozen.ask("ping")
        frozen.attach(self.session, after=seen[-1]["seq"])
        self.assertEqual(drain(frozen, self.session, seq), list(range(seen[-1]["seq"] + 1, seq + 1)))
        self.assertEqual(frozen.run(self.session, "exit 4")[1], 4)

    def frozen(self) -> Client:
        """A connection whose buffers are small, and which nobody reads until somebody asks."""
        bare = socket.socket()
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        bare.connect(("127.0.0.1", self.computer.port))
        client = Client.to(self.computer.url, self.computer.token(), sock=bare, max_queue=1)
        self.addCleanup(client.socket.close)
        return client


class Flood(threading.Thread):
    """Updates of a session, one after the other, until `over`."""

    def __init__(self, computer: Computer, session: str, name: str) -> None:
        super().__init__(daemon=True)
        self.client = computer.client()
        self.session = session
        self.title = name
        self.over = threading.Event()
        self.last = 0

    def run(self) -> None:
        """Eighty a second: a connection may ask a hundred times."""
        number = 0
        while not self.over.wait(0.0125):
            number += 1
            title = f"{self.title} {number}"
            self.last = self.client.ask("sessions.update", sessionId=self.session, title=title)["seq"]
        self.client.socket.close()


class ComebackTests(ComputerCase):
    """A bad network."""

    def test_amid_a_flood(self) -> None:
        """S2, BR-105: each event once, in order, over twenty connections that are cut."""
        floods = [Flood(self.computer, self.session, f"title {number}") for number in range(3)]
        for flood in floods:
            flood.start()
            self.addCleanup(flood.join, WAIT)
            self.addCleanup(flood.over.set)
        seen: list[dict[str, Any]] = []
        for _ in range(20):
            client = self.computer.client()
            client.attach(self.session, after=len(seen))
            client.until(lambda c=client: len(c.events[self.session]) >= 15)
            seen += client.events[self.session]
            client.socket.socket.close()
        for flood in floods:
            flood.over.set()
            flood.join(WAIT)
        client = self.connect()
        client.attach(self.session, after=len(seen))
        last = max(flood.last for flood in floods)
        if len(seen) < last:
            seen += client.reach(self.session, last)
        self.assertEqual(len(seen), last)
        self.assertEqual(numbers(seen), list(range(1, len(seen) + 1)))
        self.assertEqual(seen, self.computer.journal(self.session))
        self.assertGreaterEqual(len(seen), 300)


class PollTests(ComputerCase):
    """`events.list` with `waitMs`."""

    own: ClassVar[bool] = True

    def waiting(self) -> int:
        """How many wait, as the daemon says."""
        return int(self.computer.metrics()["computerd_waiting_polls"])

    def poll(self, after: int) -> socket.socket:
        """A request over HTTP that waits for a minute."""
        asking = socket.create_connection(("127.0.0.1", self.computer.port), WAIT)
        self.addCleanup(asking.close)
        asking.sendall(
            f"GET /sessions/{self.session}/events?after={after}&waitMs=60000 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self.computer.token()}\r\n\r\n".encode()
        )
        return asking

    def test_it_ends_with_news_or_in_time(self) -> None:
        """BR-105."""
        last = self.computer.get(self.session)["lastSeq"]
        client, other = self.connect(), self.connect()
        began = time.monotonic()
        result = client.ask("events.list", sessionId=self.session, after=last, waitMs=300)
        self.assertEqual((result["events"], result["lastSeq"], result["hasMore"]), ([], last, False))
        self.assertGreater(time.monotonic() - began, 0.29)
        number = client.send("events.list", sessionId=self.session, after=last, waitMs=60_000)
        eventually(lambda: self.waiting() == 1, "it waits")
        other.ask("sessions.update", sessionId=self.session, title="news")
        result = client.answer(number)
        self.assertEqual((numbers(result["events"]), result["lastSeq"]), ([last + 1], last + 1))

    def test_who_leaves_waits_no_more(self) -> None:
        """Over WebSocket and over HTTP; at once."""
        last = self.computer.get(self.session)["lastSeq"]
        client = self.connect()
        for _ in range(10):
            client.send("events.list", sessionId=self.session, after=last, waitMs=60_000)
        eventually(lambda: self.waiting() == 10, "all wait")
        client.socket.close()
        eventually(lambda: self.waiting() == 0, "nobody waits", 2)
        asking = [self.poll(last) for _ in range(10)]
        eventually(lambda: self.waiting() == 10, "all wait")
        for bare in asking[:5]:
            bare.close()
        eventually(lambda: self.waiting() == 5, "five wait", 2)
        for bare in asking[5:]:
            bare.shutdown(socket.SHUT_RDWR)
        eventually(lambda: self.waiting() == 0, "nobody waits", 2)

    def test_a_hundred_cost_nothing(self) -> None:
        """No time, little memory; one more is refused, and all are answered at once."""
        last = self.computer.get(self.session)["lastSeq"]
        token = self.computer.token()
        self.poll(last).close()
        eventually(lambda: self.waiting() == 0, "nobody waits")
        before = self.computer.memory()
        asking = [self.poll(last) for _ in range(MAX_WAITING)]
        eventually(lambda: self.waiting() == MAX_WAITING, "all wait")
        self.assertLess(self.computer.memory() - before, 6 * MIB)
        reply = http(f"{self.computer.base}/sessions/{self.session}/events?after={last}&waitMs=1000", token=token)
        self.assertEqual((reply.status, reply.code), (429, "rate_limited"))
        self.assertGreater(reply.json["error"]["retryAfterMs"], 0)
        self.quiet()
        http(f"{self.computer.base}/sessions/{self.session}", "PATCH", token=token, body={"title": "news"})
        for bare in asking:
            bare.settimeout(2)
            self.assertTrue(bare.recv(65536).startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.waiting(), 0)

    def test_what_is_refused(self) -> None:
        last = self.computer.get(self.session)["lastSeq"]
        url, token = f"{self.computer.base}/sessions/{self.session}/events", self.computer.token()
        for query, status, code in (
            (f"after={last + 1}", 409, "cursor_ahead"),
            ("after=-1", 400, "invalid_request"),
            ("waitMs=60001", 400, "invalid_request"),
            ("limit=501", 400, "invalid_request"),
            ("turnId=tn_000000000000", 404, "turn_not_found"),
        ):
            reply = http(f"{url}?{query}", token=token)
            self.assertEqual((reply.status, reply.code), (status, code), query)
        reply = http(f"{self.computer.base}/sessions?cursor=x", token=token)
        self.assertEqual((reply.status, reply.code), (400, "invalid_cursor"))
        reply = http(f"{self.computer.base}/sessions/{self.session}?minSeq={last + 1}", token=token)
        self.assertEqual((reply.status, reply.code), (409, "cursor_ahead"))
