"""The terminal at the daemon: what to tell it, within its limits, and what it tells.

States: asked for, open (it has an id and channels), exited. Nothing is sent to it before it is open.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from computerd.opc import link as links
from computerd.opc.calls import Calls
from computerd.opc.failure import Failure
from computerd.opc.link import Link
from computerd.opc.pace import MARK_EVERY, Pace
from computerd.opc.plan import Ending, Plan, exited
from computerd.opc.pulse import Pulse
from computerd.opc.websocket import Binary, Message, Ponged, Text
from computerd.wire import frames

UNSENT_BYTES: Final = 256 * 1024
"""Waiting for the link; over it, no more input is taken."""


class Greeted(NamedTuple):
    """The daemon said who it is."""

    connection: str
    version: str


class Opened(NamedTuple):
    """The terminal is there."""

    id: str


class Refused(NamedTuple):
    """There will be no terminal."""

    failure: Failure


class Output(NamedTuple):
    """The program wrote. `error`: to standard error, which only pipes tell apart."""

    data: bytes
    error: bool


class InputDropped(NamedTuple):
    """The daemon had to drop input."""


class ResizeRefused(NamedTuple):
    """It was not carried out."""


class Exited(NamedTuple):
    """The program has ended, after its last output."""

    ending: Ending


Happening = Greeted | Opened | Refused | Output | InputDropped | ResizeRefused | Exited


class Remote:
    """One terminal over one link. Every method that sends may raise `Lost`.

    Args:
        now: Seconds of the monotonic clock that all times here are of.
    """

    def __init__(self, link: Link, plan: Plan, now: float) -> None:
        self._link = link
        self._plan = plan
        self._calls = Calls()
        self._pace = Pace(now)
        self._pulse = Pulse(now)
        self._id: str | None = None
        self._channel = 0
        self._error_channel: int | None = None
        self._eof_sent = False
        self._happened: list[Happening] = []
        self.received = 0
        """Bytes of output so far."""
        self.sent = 0
        """Bytes of input so far."""

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._id is not None

    # --- what to tell it

    def open(self) -> None:
        """Asks for it."""
        self._ask("terminals.open", self._plan.params(), self._opened)

    def room(self, now: float) -> int:
        """How many bytes of input may be sent now."""
        if self._id is None or self._link.unsent > UNSENT_BYTES:
            return 0
        return self._pace.room(now)

    def room_in(self, now: float, want: int) -> float | None:
        """Seconds until there is room for `want` bytes; None: that depends on the daemon."""
        if self._id is None or self._link.unsent > UNSENT_BYTES:
            return None
        return self._pace.wait(now, want)

    def input(self, data: bytes) -> None:
        """Sends input, at most what `room` said."""
        self._link.binary(frames.join(self._channel, data))
        self.sent += len(data)
        self._pace.sent(len(data))
        if self._pace.unmarked >= MARK_EVERY:
            self._pace.mark()
            self._ask("ping", {}, self._marked)

    def end_input(self) -> None:
        """Says that there is no more, once."""
        if self._id is not None and not self._eof_sent:
            self._eof_sent = True
            self._ask("terminals.eof", {"terminalId": self._id}, self._checked)

    def resize(self, size: tuple[int, int]) -> None:
        """Tells it the window's columns and rows."""
        if self._id is not None:
            self._ask("terminals.resize", {"terminalId": self._id, "cols": size[0], "rows": size[1]}, self._resized)

    def close(self) -> None:
        """Hangs up."""
        if self._id is not None:
            self._ask("terminals.close", {"terminalId": self._id}, lambda result, error: None)

    def tend(self, now: float, *, reading: bool) -> None:
        """What is to be done from time to time: what waits is sent, and the link kept alive.

        Args:
            now: Seconds.
            reading: False while output is held up: then what the daemon says is not heard.

        Raises:
            Lost: It has been silent for too long.
        """
        self._link.flush()
        if not reading:
            self._pulse.heard(now)
        if self._pulse.due(now):
            self._link.ping()
            if not reading:
                self._link.pong()
        if self._pulse.lost(now):
            raise links.Lost("the daemon does not answer any more. Check the network, and connect again.")

    def tend_in(self, now: float) -> float:
        """Seconds until `tend` is to be called."""
        return self._pulse.wait(now)

    def slept(self, now: float) -> None:
        """This process was stopped: silence in that time proves nothing."""
        self._pulse.heard(now)

    def _ask(self, method: str, params: dict[str, object], answered: Any) -> None:
        self._link.text(self._calls.request(method, params, answered))

    # --- what it tells

    def take(self, now: float) -> list[Happening] | None:
        """What has happened, in order; None when nothing has arrived.

        Raises:
            Lost: The link has ended, and nothing happened before that which was not told yet.
        """
        messages = self._link.receive()
        if messages is None:
            return None
        self._pulse.heard(now)
        for message in messages:
            self._message(message, now)
        happened, self._happened = self._happened, []
        return happened

    def _message(self, message: Message, now: float) -> None:
        match message:
            case Binary(frame):
                self._output(frame)
            case Ponged():
                self._pulse.pong(now)
            case Text(text):
                if (said := self._calls.take(text)) is not None:
                    self._notified(*said)

    def _output(self, frame: bytes) -> None:
        try:
            channel, data = frames.split(frame)
        except frames.BadFrame:
            return
        if channel in (self._channel, self._error_channel):
            self.received += len(data)
            self._happened.append(Output(data, channel == self._error_channel))

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "ready":
            server = params.get("server")
            version = server.get("version") if isinstance(server, dict) else None
            self._happened.append(Greeted(str(params.get("connectionId")), str(version)))
        elif method == "terminal.exited" and self._id is not None and params.get("terminalId") == self._id:
            self._happened.append(Exited(exited(params.get("exitCode"), params.get("signal"))))

    def _opened(self, result: dict[str, Any] | None, error: dict[str, Any] | None) -> None:
        terminal = (result or {}).get("terminal")
        if not isinstance(terminal, dict) or not isinstance(terminal.get("channel"), int):
            otherwise = "the daemon opened no terminal, and did not say why. Look at its log."
            self._happened.append(Refused(Failure.of_body(error, otherwise)))
            return
        self._id, self._channel = str(terminal.get("id")), terminal["channel"]
        self._error_channel = terminal.get("stderrChannel")
        self._happened.append(Opened(self._id))

    def _marked(self, result: dict[str, Any] | None, error: dict[str, Any] | None) -> None:
        self._pace.confirmed()
        self._checked(result, error)

    def _checked(self, result: dict[str, Any] | None, error: dict[str, Any] | None) -> bool:
        """Every answer tells whether input was dropped before its request, which then was not carried out."""
        dropped = error is not None and error.get("code") == "rate_limited"
        if dropped:
            self._happened.append(InputDropped())
        return dropped

    def _resized(self, result: dict[str, Any] | None, error: dict[str, Any] | None) -> None:
        if self._checked(result, error):
            self._happened.append(ResizeRefused())

    def status(self) -> str:
        """For the person, in two lines."""
        trip = self._pulse.round_trip
        timing = f"{trip * 1000:.1f} ms" if trip is not None else "not measured yet"
        return (
            f"session {self._plan.session}, terminal {self._id}\n"
            f"round trip {timing}; {self.received} bytes received, {self.sent} sent\n"
        )
