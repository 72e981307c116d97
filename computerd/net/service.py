"""The network edge as one service: listens, ends connections in order, hands out the local credential."""

# Twisted has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from computerd.api.front import Front
from computerd.api.trail import NOWHERE, Trail
from computerd.contract.closing import CloseCode
from computerd.net.attempts import Attempts
from computerd.net.credentials import Credentials
from computerd.net.entrance import Entrance, Exposition, is_private
from computerd.net.factory import ConnectionFactory
from computerd.net.heads import Rules
from computerd.net.keyring import KeyRing
from computerd.net.keys import KeyProblem
from computerd.net.local import LocalSocket
from computerd.net.refusal import ListenError
from computerd.net.roster import Roster
from computerd.net.site import Site
from computerd.net.tally import Tally
from computerd.net.throttle import Throttle
from computerd.terminal.traffic import Traffic

_CHECK_SECONDS: Final = 1.0
"""Between two looks at the clock for credentials that have expired."""
GOODBYE_SECONDS: Final = 6.0
"""For all clients to take their close frame; one that does not is cut off after 5 s."""


@define(eq=False, slots=False)
class NetService(Service):
    """Everything that clients reach.

    Attributes:
        reactor: Where it listens, and its monotonic clock.
        endpoints: Twisted server endpoint strings.
        front: Carries calls out.
        keys: The verification keys.
        credentials: Checks tokens with them.
        allowed_origins: Of browsers, beside the server's own.
        allowed_hosts: Names of the server, beside those of the loopback.
        local: Hands out the local credential; None: nobody does.
        clock: Seconds since the epoch.
        random: n bytes of a cryptographic source.
        metrics: Renders what `GET /metrics` answers; None: there is no such path.
        metrics_everywhere: Whether it is there for those who come in where other machines can connect, too.
        traffic: Counts what terminals carry.
        tally: Counts connections, requests and refusals.
        roster: Every connection.
        trail: Is told who comes and goes, and who may not come.
        worked: Seconds of processor time that this thread has used; None: as the reactor's clock says.
    """

    reactor: Any
    endpoints: Sequence[str]
    front: Front
    keys: KeyRing
    credentials: Credentials
    allowed_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    local: LocalSocket | None
    clock: Callable[[], float]
    random: Callable[[int], bytes]
    metrics: Exposition | None = None
    metrics_everywhere: bool = False
    traffic: Traffic = field(factory=Traffic)
    tally: Tally = field(factory=Tally)
    roster: Roster = field(factory=Roster)
    trail: Trail = NOWHERE
    worked: Callable[[], float] | None = None
    attempts: Attempts = field(init=False)
    site: Site = field(init=False)
    ports: list[IListeningPort] = field(factory=list, init=False)
    _ends: list[Callable[[], object]] = field(factory=list, init=False)
    _log = Logger()

    @attempts.default
    def _make_attempts(self) -> Attempts:
        attempts = Attempts(self.trail, self.reactor.seconds)
        if self.local is not None:
            self.local.attempts = attempts
        return attempts

    @site.default
    def _make_site(self) -> Site:
        sockets = ConnectionFactory(
            self.reactor, self.front, self.credentials, self.roster, self.clock, self.random, self.tally, self.traffic,
            self.trail, self.worked,
        )  # fmt: skip
        rules = Rules(frozenset(self.allowed_origins), frozenset(name.lower() for name in self.allowed_hosts))
        throttle = Throttle(self.reactor.seconds)
        return Site(
            self.reactor, self.front, self.credentials, throttle, rules, sockets, self.clock, self.random, self.tally,
            self.attempts,
        )  # fmt: skip

    async def listen(self) -> None:
        """Listens on every endpoint and on the local socket, or on none.

        Raises:
            ListenError: One of them can't be had.
            KeyProblem: The keys can't be used.
        """
        self.keys.open()
        if not self.keys.ready:
            self._log.warn(
                "the host's verification key is not there yet: callers hear that the service is unavailable until it is"
            )
        try:
            for text in self.endpoints:
                self.ports.append(await self._listen(text))
            if self.local is not None:
                self.ports.append(self.local.listen(self.reactor, self.url()))
        except BaseException:
            await self.stop_accepting()
            raise
        self._watch()

    async def _listen(self, text: str) -> IListeningPort:
        entrance = Entrance(self.site)
        try:
            port: IListeningPort = await serverFromString(self.reactor, text).listen(entrance)
        except Exception as error:
            # an endpoint string can name any plugin, which may raise anything
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ListenError(f"can't listen on {text}: {reason}") from error
        # where it is bound, not where a client says it has called: a listener of all interfaces is reached over the loopback too
        if self.metrics_everywhere or is_private(port.getHost()):
            entrance.metrics = self.metrics
        return port

    def _watch(self) -> None:
        ticking = LoopingCall(self._look_around)
        ticking.clock = self.reactor
        ticking.start(_CHECK_SECONDS, now=False).addErrback(
            lambda failure: self._log.failure("the check failed", failure)
        )
        self._ends += [
            ticking.stop,
            self.credentials.revocations.watch(self._check),
            self.keys.watch(self._check),
        ]

    def _look_around(self) -> None:
        self._check()
        self.attempts.tell()

    def _check(self) -> None:
        """Ends what goes on with a credential that no longer counts."""
        self.roster.check()
        self.site.check()

    def url(self) -> str:
        """Where a client on this machine connects."""
        for text, port in zip(self.endpoints, self.ports, strict=False):
            address = port.getHost()
            scheme = "wss" if text.startswith(("ssl:", "tls:")) else "ws"
            if isinstance(address, IPv4Address):
                host = "127.0.0.1" if address.host == "0.0.0.0" else address.host
                return f"{scheme}://{host}:{address.port}/connect"
            if isinstance(address, IPv6Address):
                host = "::1" if address.host == "::" else address.host
                return f"{scheme}://[{host}]:{address.port}/connect"
        for port in self.ports:
            address = port.getHost()
            if isinstance(address, UNIXAddress) and address.name:
                return f"ws+unix://{os.fsdecode(address.name)}:/connect"
        return "ws://127.0.0.1:7390/connect"

    def reload(self) -> None:
        """Reads the keys again, at SIGHUP. A problem is logged, and what was good stays so."""
        try:
            self.keys.reload()
        except KeyProblem as problem:
            self._log.error("the keys stay as they were: {problem}", problem=problem)
            self.trail.note("key.changed", "invalid")

    # the end

    def stop_accepting(self) -> Deferred[None]:
        """No new connections, and no new requests on those that are there. WebSockets go on."""
        self.site.close_idle()
        ports, self.ports = self.ports, []
        closed = DeferredList([maybeDeferred(port.stopListening) for port in ports], consumeErrors=True)
        return closed.addCallback(lambda _: None)

    def close_all(self, code: CloseCode = CloseCode.RESTARTING) -> Deferred[None]:
        """Ends every connection with `code`. Fires when all are gone, within `GOODBYE_SECONDS`."""
        self.roster.closing = True
        ends, self._ends = self._ends, []
        for end in ends:
            end()
        self.site.abort()
        self.attempts.tell(all_of_them=True)
        done = self.roster.close_all(code)
        if done.called:
            return succeed(None)
        return done.addTimeout(GOODBYE_SECONDS, self.reactor, onTimeoutCancel=lambda value, _: self.roster.abort_all())

    def stopService(self) -> Deferred[None]:
        """Both, for whoever has nothing to do in between."""
        super().stopService()
        return self.stop_accepting().addCallback(lambda _: self.close_all())
