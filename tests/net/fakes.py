"""Stand-ins for what `net` talks to: a front that does nothing but answer, revocations in memory, a clock for both kinds of time."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from attrs import define, field
from msgspec import Struct

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.front import Answer
from computerd.contract import objects, results
from computerd.contract.access import Scope
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import Method
from computerd.net.credentials import Credentials
from computerd.net.keyring import KeyRing
from computerd.net.keys import thumbprint
from computerd.net.signer import Minted, Signer
from computerd.workspace.port import Coding

NOW = 1_800_000_000.0
SESSION = "cs_0123456789abcdef"
Work = Callable[[Struct, Caller, Connection | None], Awaitable[Struct | Answer]]


def session(owner: str = "alice") -> objects.Session:
    """A session object."""
    return objects.Session(
        id=SESSION, title="A", status="idle", archived=False,
        owner=objects.Person(id=owner, name=None, email=None),
        origin=objects.Origin(type="api", client=None, slack=None),
        settings=objects.Settings(model=None, effort=None, mode=None, speed=None),
        metadata={}, active_turn_id=None, queued=[], asks=[], subagents=[], last_turn=None, last_text=None,
        context=objects.Context(used_tokens=None, window_tokens=None), last_seq=1, log_epoch="le_0", epoch_start_seq=1,
        created_at="2026-11-13T09:30:00.000Z", last_active_at="2026-11-13T09:30:00.000Z", synced_at="2026-11-13T09:30:00.000Z",
        urls=objects.Urls(dashboard=None),
    )  # fmt: skip


@define
class Wall:
    """Seconds since the epoch, as a test sets them."""

    now: float = NOW

    def __call__(self) -> float:
        """The time."""
        return self.now


@define(eq=False)
class FakeRevocations:
    """Revocations in memory."""

    gone: set[str] = field(factory=set)
    members: dict[str, float] = field(factory=dict)
    _watchers: list[Callable[[], None]] = field(factory=list)

    def revoked(self, token_id: str, member: str, issued_at: float) -> bool:
        """Whether a credential was revoked."""
        return token_id in self.gone or issued_at <= self.members.get(member, -1)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Has `changed` called."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def revoke(self, token_id: str) -> None:
        """Revokes one."""
        self.gone.add(token_id)
        for watcher in list(self._watchers):
            watcher()


@define(eq=False)
class FakeFront:
    """A front whose work a test sets by method name; `ping` and `sessions.create` are there."""

    work: dict[str, Work] = field(factory=dict)
    calls: list[tuple[str, Struct, Caller, Connection | None]] = field(factory=list)
    arrivals: list[float] = field(factory=list)
    notifications: list[tuple[Struct, Connection]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.work.setdefault("ping", _ping)
        self.work.setdefault("sessions.create", _create)

    def serves(self, method: Method) -> bool:
        """Whether a test gave it work."""
        return method.name in self.work

    async def call(
        self, method: Method, params: Struct, caller: Caller, connection: Connection | None, arrived: float
    ) -> Answer:
        """Does it."""
        self.calls.append((method.name, params, caller, connection))
        self.arrivals.append(arrived)
        answer = await self.work[method.name](params, caller, connection)
        return answer if isinstance(answer, Answer) else Answer(answer)

    async def give(self, method: Method, params: Struct, caller: Caller, coding: Coding) -> Any:
        """Does it."""
        self.calls.append((method.name, params, caller, None))
        return await self.work[method.name](params, caller, None)

    async def take(self, method: Method, params: Struct, caller: Caller, coding: Coding) -> Any:
        """Does it."""
        self.calls.append((method.name, params, caller, None))
        return await self.work[method.name](params, caller, None)

    def notified(self, params: Struct, connection: Connection) -> None:
        """Keeps it."""
        self.notifications.append((params, connection))


async def _ping(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
    return results.Pong(timing=objects.Timing(server_us=1))


async def _create(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
    return results.SessionCreated(session=session(caller.member.id), turn=None, seq=1)


async def refuse(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
    """Work that refuses."""
    raise ApiError(Code.SESSION_NOT_FOUND, "No such session.")


async def fail(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
    """Work that has a bug."""
    raise ZeroDivisionError("secret detail")


@define(eq=False)
class Issuer:
    """A host's key, and credentials signed with it."""

    seconds: Callable[[], float]
    wall: Wall = field(factory=Wall)
    revocations: FakeRevocations = field(factory=FakeRevocations)
    signer: Signer = field(init=False)
    keys: KeyRing = field(init=False)
    credentials: Credentials = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.signer = Signer.ephemeral("", os.urandom)
        self.signer = Signer(self.signer.key, thumbprint(self.signer.key.public_key()))
        self.keys = KeyRing(lambda: [self.signer.key.public_key()], self.seconds)
        self.credentials = Credentials(self.keys, self.revocations, self.wall)

    def mint(
        self,
        member: str = "alice",
        ttl: float | None = None,
        scopes: Iterable[Scope] = tuple(Scope),
        *,
        admin: bool = False,
    ) -> Minted:
        """A credential."""
        return self.signer.mint(
            member, name="Alice", email=None, admin=admin, scopes=scopes, ttl=ttl, now=self.wall(), random=os.urandom
        )
