"""Clients that stand it when the daemon dies: they work all at once, write down what they were told, and it is compared with the journal.

A `Ledger` outlives every daemon. Each round, some threads work against the daemon of that round until it ends: a `Worker` opens, closes
and updates, a `Follower` attaches and acknowledges, a `Poller` waits over HTTP. Each goes on where the last round's left off.
"""

from __future__ import annotations

import itertools
import random
import threading
from abc import abstractmethod
from collections import Counter
from contextlib import suppress
from http.client import HTTPException
from typing import Any, ClassVar, Final

from attrs import define, field
from websockets.exceptions import WebSocketException

from tests.endtoend.client import WAIT, Client, ConnectionClosed, RefusedError, Shell, http
from tests.endtoend.computer import Computer

STAYS: Final = 7701
"""Seconds that a program sleeps which asks to outlive its terminal."""
GOES: Final = 7702
"""Seconds that one sleeps which does not."""
COMMANDS: Final = (
    ("true", True),
    ("echo hi; exec cat", False),
    (f"sleep {GOES} & exec sleep {GOES}", True),
    (f"nohup sleep {STAYS} >/dev/null 2>&1 & setsid sleep {STAYS} & exec cat", True),
    (f"setsid nohup sh -c 'sleep {STAYS} & exec sleep {STAYS}' >/dev/null 2>&1 & exec cat", False),
)
"""What is run, and whether on a tty."""
TRANSIENT: Final = frozenset({"rate_limited", "too_many_terminals", "computer_unavailable", "unavailable"})
"""Refusals that a client under load has to expect, also from a daemon that is ending."""
UNCERTAIN: Final = "unavailable"
"""The one after which it may have been done all the same."""


@define(eq=False)
class Update:
    """A `sessions.update` with a key and a title that no other has.

    Attributes:
        answer: The first that came; None while there is none.
        refused: It was said that it was not done.
    """

    session: str
    key: str
    answer: dict[str, Any] | None = None
    refused: bool = False

    def send(self, client: Client) -> int:
        """Asks for it, maybe again."""
        return client.send("sessions.update", sessionId=self.session, idempotencyKey=self.key, title=self.key)


@define(eq=False)
class Ledger:
    """What clients were told.

    Attributes:
        sessions: On which they work.
        epoch: The journal's.
        updates: All that were asked for.
        opened: Terminals, with their session.
        followed: The events that each follower got, by session.
        polled: The same for pollers.
        goodbyes: The codes that connections were closed with, and how often.
        troubles: What must not happen.
    """

    sessions: list[str]
    epoch: str
    updates: list[Update] = field(factory=list)
    opened: list[tuple[str, str]] = field(factory=list)
    followed: dict[str, list[dict[str, Any]]] = field(factory=dict)
    polled: dict[str, list[dict[str, Any]]] = field(factory=dict)
    goodbyes: Counter[int] = field(factory=Counter)
    repeated: int = 0
    troubles: list[str] = field(factory=list)
    _numbers: itertools.count[int] = field(factory=lambda: itertools.count(1))

    @classmethod
    def of(cls, computer: Computer, sessions: int) -> Ledger:
        """With new sessions."""
        ids = [computer.session() for _ in range(sessions)]
        return cls(ids, computer.get(ids[0])["logEpoch"])

    def update(self, session: str) -> Update:
        """A new one, written down."""
        made = Update(session, f"update {next(self._numbers)}")
        self.updates.append(made)
        return made

    def take(self, book: dict[str, list[dict[str, Any]]], session: str, events: list[dict[str, Any]]) -> None:
        """Writes events down, which have to be the next ones."""
        known = book.setdefault(session, [])
        for event in events:
            if event["seq"] != len(known) + 1:
                self.troubles.append(f"{session}: {event['seq']} after {len(known)}")
            known.append(event)

    def check(self, computer: Computer) -> Counter[str]:
        """Compares everything with the journal. Returns the counts of what was compared.

        Raises:
            AssertionError: It is not as clients were told.
        """
        assert not self.troubles, self.troubles
        counts: Counter[str] = Counter(repeated=self.repeated)
        for session in self.sessions:
            now = computer.get(session)
            assert (now["logEpoch"], now["epochStartSeq"]) == (self.epoch, 1), now
            journal = computer.journal(session)
            numbers = [event["seq"] for event in journal]
            assert numbers == list(range(1, now["lastSeq"] + 1)), f"gaps in {numbers}"
            for book in (self.followed, self.polled):
                known = book.get(session, [])
                assert known == journal[: len(known)], f"{session}: what was seen is not what is there"
                counts["seen"] += len(known)
            counts["events"] += len(journal)
            self._check_updates(session, journal, counts)
            self._check_terminals(session, journal, counts)
        return counts

    def _check_updates(self, session: str, journal: list[dict[str, Any]], counts: Counter[str]) -> None:
        found: dict[str, list[int]] = {}
        for event in journal:
            if event["type"] == "session.updated":
                found.setdefault(event["data"]["changes"]["title"]["to"], []).append(event["seq"])
        for update in self.updates:
            if update.session != session:
                continue
            seqs = found.pop(update.key, [])
            if update.answer is not None:
                counts["acknowledged"] += 1
                assert seqs == [update.answer["seq"]], f"{update.key}: told {update.answer['seq']}, there is {seqs}"
            else:
                counts["unanswered"] += 1
                assert len(seqs) <= (0 if update.refused else 1), f"{update.key}: {seqs}"
        assert not found, f"nobody asked for {found}"

    def _check_terminals(self, session: str, journal: list[dict[str, Any]], counts: Counter[str]) -> None:
        opened, closed = (
            Counter(event["data"]["terminalId"] for event in journal if event["type"] == kind)
            for kind in ("terminal.opened", "terminal.closed")
        )
        assert opened == closed and set(opened.values()) <= {1}, (opened - closed, closed - opened)
        told = {terminal for where, terminal in self.opened if where == session}
        assert told <= set(opened), told - set(opened)
        counts["terminals"] += len(opened)
        counts["acknowledged"] += len(told)


class Actor(threading.Thread):
    """One client of one round.

    Args:
        computer: The daemon.
        ledger: Where it writes down what it is told.

    Attributes:
        over: Set when it is to end by itself.
        busy: Set once it has begun, or has ended.
    """

    member: ClassVar[str] = "alice"

    def __init__(self, computer: Computer, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.computer = computer
        self.ledger = ledger
        self.over = threading.Event()
        self.busy = threading.Event()

    def run(self) -> None:
        """Works until the daemon ends, or `over`."""
        try:
            self.work()
        except TimeoutError as error:
            self.ledger.troubles.append(f"{type(self).__name__}: {error!r}")
        except ConnectionClosed as closed:
            self.ledger.goodbyes[closed.rcvd.code if closed.rcvd else 1006] += 1
        except (WebSocketException, OSError, HTTPException):
            self.ledger.goodbyes[0] += 1
        except Exception as error:
            self.ledger.troubles.append(f"{type(self).__name__}: {error!r}")
        finally:
            self.busy.set()

    @abstractmethod
    def work(self) -> None:
        """What it does."""


class Worker(Actor):
    """Updates, opens and closes, by chance.

    Args:
        chance: Decides.
    """

    def __init__(self, computer: Computer, ledger: Ledger, chance: random.Random) -> None:
        super().__init__(computer, ledger)
        self.chance = chance
        self.mine: list[Shell] = []

    def work(self) -> None:
        """See `Actor`."""
        with self.computer.client(self.member) as client:
            self.busy.set()
            while not self.over.wait(0.003):
                dice = self.chance.random()
                if dice < 0.6:
                    self._update(client)
                elif dice < 0.8 or not self.mine:
                    self._open(client)
                else:
                    self._close()

    def _close(self) -> None:
        try:
            self.mine.pop(self.chance.randrange(len(self.mine))).close()
        except RefusedError as error:
            # it may have ended by itself; or the worker is faster than it may be, and it is left open
            if error.slug != "terminal_not_found":
                _expected(error)

    def _update(self, client: Client) -> None:
        session = self.chance.choice(self.ledger.sessions)
        updates = [self.ledger.update(session) for _ in range(self.chance.randint(1, 6))]
        numbers = [update.send(client) for update in updates]
        for update, number in zip(updates, numbers, strict=True):
            try:
                update.answer = client.answer(number)
            except RefusedError as error:
                _expected(error)
                update.refused = error.slug != UNCERTAIN

    def _open(self, client: Client) -> None:
        session = self.chance.choice(self.ledger.sessions)
        command, tty = self.chance.choice(COMMANDS)
        try:
            shell = client.open(session, command, tty=tty)
        except RefusedError as error:
            _expected(error)
            return
        self.ledger.opened.append((session, shell.id))
        self.mine.append(shell)


class Repeater(Actor):
    """Asks again for what had no answer when the daemon ended, and for some that had: nothing is done twice."""

    def work(self) -> None:
        """See `Actor`."""
        asked = [update for update in self.ledger.updates if not update.refused]
        open_ = [update for update in asked if update.answer is None]
        again = [update for update in asked if update.answer is not None][-10:]
        with self.computer.client(self.member) as client:
            self.busy.set()
            numbers = [(update, update.send(client)) for update in [*open_, *again][:90]]
            for update, number in numbers:
                answer = client.answer(number)
                if update.answer is None:
                    update.answer = answer
                elif update.answer != answer:
                    self.ledger.troubles.append(f"{update.key}: {update.answer} and then {answer}")
                self.ledger.repeated += 1


class Follower(Actor):
    """Attaches to every session, where the last round's left off, and acknowledges what it gets."""

    def work(self) -> None:
        """See `Actor`."""
        with self.computer.client(self.member) as client:
            try:
                for session in self.ledger.sessions:
                    attached = client.attach(session, after=len(self.ledger.followed.get(session, [])))
                    if attached["logEpoch"] != self.ledger.epoch:
                        self.ledger.troubles.append(f"another epoch: {attached}")
                self.busy.set()
                while not self.over.is_set():
                    try:
                        client.take(0.1)
                    except TimeoutError:
                        continue
                    self._write(client)
            finally:
                self._write(client)
                for notice in client.notices("session.detached"):
                    self.ledger.troubles.append(f"detached: {notice}")

    def _write(self, client: Client) -> None:
        for session, events in client.events.items():
            arrived = events[:]
            events.clear()
            if not arrived:
                continue
            self.ledger.take(self.ledger.followed, session, arrived)
            if arrived[-1]["seq"] % 7 == 0:
                with suppress(ConnectionClosed):
                    client.ack(session, arrived[-1]["seq"])


class Poller(Actor):
    """Waits for news of one session over HTTP.

    Args:
        session: Which.
    """

    def __init__(self, computer: Computer, ledger: Ledger, session: str) -> None:
        super().__init__(computer, ledger)
        self.session = session

    def work(self) -> None:
        """See `Actor`."""
        token = self.computer.token(self.member)
        url = f"{self.computer.base}/sessions/{self.session}/events?limit=50&waitMs=1000"
        while not self.over.is_set():
            after = len(self.ledger.polled.get(self.session, []))
            reply = http(f"{url}&after={after}", token=token)
            if reply.status == 503:  # the daemon is ending
                return
            assert reply.status == 200, reply.body
            self.ledger.take(self.ledger.polled, self.session, reply.json["events"])
            self.busy.set()


def crew(computer: Computer, ledger: Ledger, chance: random.Random) -> list[Actor]:
    """The clients of one round, at work."""
    computer.token(Actor.member)  # made once, before several would
    actors: list[Actor] = [
        *(Worker(computer, ledger, random.Random(chance.random())) for _ in range(3)),
        Repeater(computer, ledger),
        Follower(computer, ledger),
        *(Poller(computer, ledger, session) for session in ledger.sessions[:2]),
    ]
    for actor in actors:
        actor.start()
    for actor in actors:
        assert actor.busy.wait(WAIT), actor
    return actors


def catch_up(computer: Computer, ledger: Ledger) -> None:
    """Lets everybody get what is there, and an answer to what had none."""
    Repeater(computer, ledger).run()
    with computer.client(Actor.member) as client:
        for session in ledger.sessions:
            known = len(ledger.followed.get(session, []))
            last = client.attach(session, after=known)["session"]["lastSeq"]
            if last > known:
                ledger.take(ledger.followed, session, client.reach(session, last))


def _expected(error: RefusedError) -> None:
    if error.slug not in TRANSIENT:
        raise error
