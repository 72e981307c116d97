"""Where connections come in: who may, which request goes where, and which become WebSockets."""

# twisted.web and autobahn have no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from attrs import evolve
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.web import http

from computerd.api.caller import Caller
from computerd.api.front import Front
from computerd.api.trail import NOWHERE
from computerd.contract.errors import ApiError, Code
from computerd.contract.identifiers import REQUEST
from computerd.contract.methods import Method
from computerd.net.attempts import Attempts
from computerd.net.credentials import Credentials, Forged, Verified, no_credential, no_key_yet
from computerd.net.factory import ConnectionFactory, attaches
from computerd.net.heads import Head, MethodNotAllowed, Rules, bearer, check_upgrade
from computerd.net.httpchannel import IDLE_SECONDS, Channel
from computerd.net.members import Members
from computerd.net.request import Call, Health, Metrics, Plan, Request, Upgrade
from computerd.net.routes import Routes, allowed
from computerd.net.tally import FORGED, MISSING, NO_LONGER, Tally
from computerd.net.throttle import Throttle, source
from computerd.net.transfers import Transfers

MAX_STRANGERS: Final = 100
"""Connections that have not presented a good credential. One more, and the one that has been silent longest goes: so
they can't keep out a client that means it, however many there are (sshd's `MaxStartups` drops at random instead)."""
MAX_STRANGERS_PER_SOURCE: Final = 10
"""Of one address; those of this machine are not counted apart, because a proxy on it speaks for many."""
_PROGRAM: Final = re.compile(r"([A-Za-z][A-Za-z0-9._-]{0,31})(/[A-Za-z0-9._+-]{1,31})?")


class Site(http.HTTPFactory):
    """The factory of HTTP channels.

    Attributes:
        closing: No request may follow the one that is being answered.
    """

    noisy = False  # the daemon says once that it is ready, and where
    closing = False

    def __init__(
        self,
        reactor: IReactorTime,
        front: Front,
        credentials: Credentials,
        throttle: Throttle,
        rules: Rules,
        sockets: ConnectionFactory,
        wall: Callable[[], float],
        random: Callable[[int], bytes],
        tally: Tally | None = None,
        attempts: Attempts | None = None,
    ) -> None:
        super().__init__(timeout=IDLE_SECONDS, reactor=reactor)
        self.front: Final = front
        self.credentials: Final = credentials
        self.throttle: Final = throttle
        self.rules: Final = rules
        self.sockets: Final = sockets
        self.routes: Final = Routes()
        self.tally: Final = tally or Tally()
        self.attempts: Final = Attempts(NOWHERE, reactor.seconds) if attempts is None else attempts
        self._wall = wall
        self._random = random
        self._strangers: dict[Channel, str | None] = {}
        self.members: Final = Members()
        self.transfers: Final = Transfers(self.tally)

    # what Twisted asks of a factory

    def startFactory(self) -> None:
        """No access log: it would name what people do, once a request."""

    def stopFactory(self) -> None:
        """Nothing was started."""

    def log(self, request: http.Request) -> None:
        """No access log."""

    def buildProtocol(self, addr: IAddress | None) -> Channel:  # type: ignore[override]  # Twisted's makes a wrapper around one
        """A channel for a client that has just connected."""
        channel = Channel()
        channel.site = self
        channel.factory = self
        channel.requestFactory = Request
        channel.callLater = self.reactor.callLater
        channel.timeOut = int(IDLE_SECONDS)
        return channel

    # connections

    def admit(self, channel: Channel) -> None:
        """A connection begins, as a stranger."""
        if self.closing:
            channel.abort()
            return
        origin = source(channel.getPeer())
        self._strangers[channel] = origin
        if origin is not None:
            same = [other for other, place in self._strangers.items() if place == origin]
            if len(same) > MAX_STRANGERS_PER_SOURCE:
                same[0].abort()
                self._strangers.pop(same[0], None)
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            oldest.abort()
            self._strangers.pop(oldest, None)

    def release(self, channel: Channel) -> None:
        """A connection has ended, or has become a WebSocket."""
        self._strangers.pop(channel, None)
        self.members.release(channel)

    def close_idle(self) -> None:
        """Closes every connection that has no request; the others after their answer, or now when that could take long."""
        self.closing = True
        self.transfers.stop_all()
        for channel in [*self._strangers, *self.members]:
            if channel.idle:
                channel.abort()

    def abort(self) -> None:
        """Closes every connection now."""
        for channel in [*self._strangers, *self.members]:
            channel.abort()

    def check(self) -> None:
        """Ends every transfer whose credential no longer counts."""
        self.transfers.check(self.credentials.problem)

    # requests

    def judge(self, head: Head, channel: Channel) -> Plan:
        """What a request is to become, from its head alone.

        Raises:
            ApiError: A refusal.
        """
        self.rules.check(head)
        if head.path == "/health":
            _check_verb(head)
            return Health()
        verified = self._authenticate(head, channel)
        if head.path == "/connect":
            _check_verb(head)
            return Upgrade(check_upgrade(head), verified, attaches(head))
        if verified is None:
            raise no_key_yet()
        if head.path == "/metrics" and channel.metrics is not None:
            _check_verb(head)
            return Metrics(channel.metrics, verified.caller)
        match = self.routes.find(head.verb, head.path)
        self._check_served(match.method)
        return Call(match, self._with_program(verified.caller, head), verified)

    def _check_served(self, method: Method) -> None:
        if not self.front.serves(method):
            raise ApiError(Code.NOT_FOUND, f"This version of the server does not serve {method.name} yet.")

    def _authenticate(self, head: Head, channel: Channel) -> Verified | None:
        """The caller; None when the host's key is not there yet."""
        token = bearer(head)
        if token is None:
            self.unauthenticated(channel, MISSING)
            raise no_credential()
        verified = self.credentials.known(token)
        if verified is None:
            origin = source(channel.getPeer())
            self._check_throttle(origin)
            try:
                verified = self.credentials.verify(token)
            except Forged:
                self.throttle.failed(origin)
                self.unauthenticated(channel, FORGED)
                raise no_credential() from None
            except ApiError as error:
                if error.code is Code.UNAVAILABLE:
                    return None
                self.unauthenticated(channel, NO_LONGER)
                raise
        # one that was closed to make room for others may still have had a request on its way
        if channel in self._strangers or channel in self.members:
            self.members.keep(channel, verified.caller.member.id)
            self._strangers.pop(channel, None)
        return verified

    def _check_throttle(self, origin: str | None) -> None:
        try:
            self.throttle.check(origin)
        except ApiError as error:
            self.attempts.failed(origin, error.code.value)
            raise

    def unauthenticated(self, channel: Channel, why: str) -> None:
        """A request on `channel` has no good credential: counts it, for the metrics and for the audit trail."""
        self.tally.unauthenticated[why] += 1
        self.attempts.failed(source(channel.getPeer()), why)

    def _with_program(self, caller: Caller, head: Head) -> Caller:
        """The caller with the program that it uses, which it says itself: good for display only."""
        agent = _PROGRAM.match(head.one("User-Agent") or "")
        if agent is None:
            return caller
        return evolve(caller, client=agent[0], via="opc" if agent[1] and agent[0].startswith("opc/") else "api")

    def upgrade(self, channel: Channel, head: Head, plan: Upgrade) -> None:
        """Makes a WebSocket of a connection."""
        verified = plan.verified
        if verified is not None:
            verified = evolve(verified, caller=self._with_program(verified.caller, head))
        self.sockets.take_over(channel, head, plan.key, verified, plan.attaches, self.request_id())

    # small things

    def request_id(self) -> str:
        """A new `rq_…`."""
        return REQUEST.new(self._random)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._wall()

    def date(self) -> bytes:
        """The value of a Date header."""
        date: bytes = http.datetimeToString(self._wall())
        return date


def _check_verb(head: Head) -> None:
    verbs = allowed(["GET"])
    if head.verb not in verbs or (head.verb == "HEAD" and head.upgrades):
        raise MethodNotAllowed(verbs)
