"""The JSON-RPC calls of one connection: counted, parsed, decoded, carried out concurrently, answered once each."""

# Twisted has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from computerd.api.connection import Connection
from computerd.api.front import Answer, Front
from computerd.contract import limits, results
from computerd.contract.access import Access
from computerd.contract.decoding import decode
from computerd.contract.errors import ApiError, Code, internal
from computerd.contract.methods import BY_NAME, CLIENT_NOTIFICATIONS, Method
from computerd.contract.objects import ErrorBody
from computerd.contract.params import Attach
from computerd.net.limited import Limited
from computerd.net.sender import Sender, text_frame
from computerd.net.shares import Shares, journal_seconds
from computerd.net.tally import OTHER, Tally
from computerd.terminal.budget import Budget
from computerd.wire import rpc
from computerd.wire.rpc import Notification, Request, RpcError

_REFUSED_PER_SECOND: Final = 400.0
"""Messages over the limit that are answered in a second; then the client is not read for that long. With the answers' cost of about
40 µs this keeps a flood under 20 ms of work a second."""
_READ_ID_UP_TO: Final = 4096
"""Characters of a message over the limit that is parsed only to say which request was refused."""
_MAX_IN_FLIGHT: Final = 1000
_ATTACH: Final = BY_NAME["sessions.attach"]


class Calls:
    """What a connection's text messages lead to.

    Args:
        seconds: A monotonic clock.
        request_id: Makes an id for the log.
        hold: Reads nothing more of this client for so many seconds.
        tally: Counts the answers.
        shares: What the member may have of the reactor's time.
    """

    _log = Logger()

    def __init__(
        self,
        front: Front,
        connection: Connection,
        sender: Sender,
        seconds: Callable[[], float],
        request_id: Callable[[], str],
        hold: Callable[[float], None],
        tally: Tally,
        shares: Shares,
    ) -> None:
        self._front = front
        self._connection = connection
        self._sender = sender
        self._seconds = seconds
        self._request_id = request_id
        self._hold = hold
        self._tally = tally
        self._shares = shares
        self._budget = Budget(limits.MAX_REQUESTS_PER_SECOND, limits.MAX_REQUESTS_PER_SECOND, seconds)
        self._refusals = Budget(_REFUSED_PER_SECOND, _REFUSED_PER_SECOND, seconds)
        self._in_flight: dict[Deferred[Answer], bool] = {}
        self._ended = False

    def receive(self, text: str) -> None:
        """A text message. It costs one request, whatever it is, and what it takes of the member's share."""
        arrived = self._seconds()
        began = self._shares.worked()
        notified = self._take(text, arrived)
        self._spend(self._shares.worked() - began)
        if notified is not None:
            # The events that an acknowledgement lets go are nobody's request: a client that is held up for them acknowledges late, falls behind
            # and is detached, although it reads all that it is given.
            self._front.notified(notified, self._connection)

    def _spend(self, seconds: float) -> None:
        wait = self._shares.spend(self._connection.caller.member.id, seconds)
        if wait:
            self._hold(wait)

    def _take(self, text: str, arrived: float) -> Struct | None:
        """Does what a request asks for; of a notification, returns the params."""
        if not self._budget.take(1):
            self._refuse_for_rate(text)
            return None
        try:
            message = rpc.parse(text)
        except RpcError as error:
            self._tally.nonsense()
            self._send(rpc.error(error.id, error))
            return None
        if isinstance(message, Notification):
            return _of_notification(message)
        self._request(message, arrived, len(text))
        return None

    def _refuse_for_rate(self, text: str) -> None:
        if not self._refusals.take(1):
            self._hold(1.0)
        request: rpc.Id | None = None
        if len(text) <= _READ_ID_UP_TO:
            try:
                message = rpc.parse(text)
            except RpcError as error:
                request = error.id
            else:
                if isinstance(message, Notification):
                    return
                request = message.id
        refusal = Limited(
            "requests",
            f"More than {limits.MAX_REQUESTS_PER_SECOND} requests in a second: send them more slowly.",
            retry_after_ms=self._budget.wait_ms(1),
        )
        self._refused(OTHER, refusal)
        self._send(rpc.error(request, RpcError(rpc.API_ERROR, refusal.message, request, refusal.body())))

    def _request(self, request: Request, arrived: float, size: int) -> None:
        method = BY_NAME.get(request.method)
        if method is None or not method.socket or not self._front.serves(method):
            self._tally.nonsense()
            self._send(rpc.error(request.id, rpc.unknown_method(request.id)))
            return
        try:
            if len(self._in_flight) >= _MAX_IN_FLIGHT:
                raise Limited(
                    "in_flight", "Too many requests wait for their answer: wait for some.", retry_after_ms=1000
                )
            params = decode(method.params, request.params)
        except ApiError as error:
            self._refused(method.name, error)
            self._send(rpc.api_error(request.id, error, None))
            return
        self._shares.spend(self._connection.caller.member.id, journal_seconds(method, size))
        working = self._start(method, params, arrived)
        working.addCallbacks(
            lambda answer: self._answer(request.id, answer),
            lambda failure: self._failed(request.id, failure),
        )
        working.addErrback(lambda failure: self._failed(request.id, failure))

    def _refused(self, method: str, error: ApiError) -> None:
        self._tally.called(method, error)
        self._tally.refused(error)

    def _start(self, method: Method, params: Struct, arrived: float) -> Deferred[Answer]:
        working = ensureDeferred(self._front.call(method, params, self._connection.caller, self._connection, arrived))
        # only what reads may be stopped half-way when the client has gone
        self._in_flight[working] = method.access is Access.READ

        def settled(outcome: Answer | Failure) -> Answer | Failure:
            self._in_flight.pop(working, None)
            if not self._ended:
                self._tally.called(method.name, outcome.value if isinstance(outcome, Failure) else None)
            return outcome

        working.addBoth(settled)
        return working

    def _failed(self, request: rpc.Id, failure: Failure) -> None:
        if failure.check(CancelledError) and self._ended:
            return
        self._send(rpc.api_error(request, *self._refusal(failure)))

    def _refusal(self, failure: Failure) -> tuple[ApiError, str | None]:
        error = failure.value
        if isinstance(error, ApiError) and error.code is not Code.INTERNAL:
            return error, None
        request_id = self._request_id()
        self._log.failure("request {request_id} failed", failure, request_id=request_id)
        return internal(), request_id

    def _answer(self, request: rpc.Id, answer: Answer) -> None:
        began = self._shares.worked()
        self._send(rpc.result(request, answer.result))
        # the next message is held up for it
        self._shares.spend(self._connection.caller.member.id, self._shares.worked() - began)

    def _send(self, message: bytes) -> None:
        if not self._ended:
            self._sender.control(text_frame(message))

    def attach(self, params: Attach) -> None:
        """An attach that the connection's URL names: answered by `sessions.attached`."""
        if not self._front.serves(_ATTACH):
            refusal = ApiError(Code.FEATURE_UNAVAILABLE, "This version of the server can't attach sessions yet.")
            self._attached(params, refusal, None)
            return
        working = self._start(_ATTACH, params, self._seconds())
        working.addCallbacks(
            lambda answer: self._attached(params, None, answer.result),
            lambda failure: self._attached(params, *self._refusal(failure)),
        )

    def _attached(self, params: Attach, error: ApiError | None, outcome: Struct | str | None) -> None:
        if self._ended:
            return
        attached = outcome if isinstance(outcome, results.Attached) else None
        request_id = outcome if isinstance(outcome, str) else None
        body = None if error is None else msgspec.convert(error.body(request_id), ErrorBody)
        self._sender.notify(
            "sessions.attached",
            results.SessionsAttached(
                session_id=params.session_id,
                error=body,
                session=None if attached is None else attached.session,
                log_epoch=None if attached is None else attached.log_epoch,
                epoch_start_seq=None if attached is None else attached.epoch_start_seq,
                capabilities=None if attached is None else attached.capabilities,
                earlier_turns=None if attached is None else attached.earlier_turns,
                timing=None if attached is None else attached.timing,
            ),
        )

    def end(self) -> None:
        """The connection has ended: no answer is sent any more."""
        self._ended = True
        for working, stoppable in list(self._in_flight.items()):
            if stoppable:
                working.cancel()


def _of_notification(message: Notification) -> Struct | None:
    """One that is not known, or makes no sense, is passed over: nobody waits for an answer (JSON-RPC 2.0, section 4.1)."""
    kind = CLIENT_NOTIFICATIONS.get(message.method)
    if kind is None or message.params is None:
        return None
    try:
        return decode(kind, message.params)
    except ApiError:
        return None
