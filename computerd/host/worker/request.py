"""One request, between the thread that reads frames and the thread that does the work.

Data waits for a window in both directions: what goes out, for what the daemon has said it takes; what comes in, for `read` to have dealt
with it. Only the request's own thread writes for it; the reading thread never waits for anything but the daemon.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from typing import Any, Final, TypeVar

from computerd.host.worker import frames
from computerd.host.worker.failures import Refused, Stopped

T = TypeVar("T")
_PATIENCE: Final = 300.0
"""Seconds that a request waits for the daemon. The daemon's own limits are shorter; this one is for a daemon that hangs."""
_BUSY_SECONDS: Final = 1.0
"""Between two words that a request goes on. The daemon gives up what it hears nothing of for 30 s and more."""
_BATCH: Final = 4 * frames.MAX_PAYLOAD
"""Bytes of data that go out in one system call."""


class Line:
    """The way to the daemon, which all threads share."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, pieces: list[bytes | memoryview]) -> None:
        """Writes them one after another, with nothing between. Raises OSError when the daemon is gone."""
        with self._lock:
            rest = os.writev(self._descriptor, pieces)
            if rest == sum(len(piece) for piece in pieces):
                return
            data = memoryview(b"".join(pieces))
            while rest < len(data):
                rest += os.write(self._descriptor, data[rest:])


class Request:
    """What is asked for, and the way of its answer."""

    def __init__(self, number: int, params: dict[str, Any], line: Line) -> None:
        self.number = number
        self.params = params
        self._line = line
        self._changed = threading.Condition()
        self._window = frames.WINDOW
        self._calls: deque[bytes] = deque()
        self._data: deque[bytes] = deque()
        self._waiting = 0
        self._dealt_with = 0
        self._ended = False
        self._stopped = False
        self._answered = False
        self._said_at = time.monotonic()

    # What the reading thread calls.

    def feed(self, kind: bytes, payload: bytes) -> None:
        """Takes a frame of this request. Raises Malformed when the daemon sends what it may not."""
        with self._changed:
            if kind == frames.DATA:
                self._waiting += len(payload)
                if self._waiting > frames.WINDOW or self._ended:
                    raise frames.Malformed("data that nobody asked for")
                self._data.append(payload)
            elif kind == frames.END:
                self._ended = True
            elif kind == frames.MORE and len(payload) == 4:
                self._window += int.from_bytes(payload, "big")
            elif kind == frames.CALL and len(self._calls) < 2:
                self._calls.append(payload)
            elif kind == frames.CANCEL:
                self._stopped = True
            else:
                raise frames.Malformed(f"kind {kind!r}")
            self._changed.notify_all()

    def stop(self) -> None:
        """Nobody wants the answer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # What the request's own thread calls.

    def text(self, name: str) -> str:
        """A parameter that is a string."""
        return _of_type(self.params.get(name), str, name)

    def number_of(self, name: str, low: int, high: int) -> int:
        """A parameter that is a number from `low` to `high`."""
        value = _of_type(self.params.get(name), int, name)
        if not low <= value <= high:
            raise ValueError(f"{name} is {value}")
        return value

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        return _of_type(self.params.get(name), bool, name)

    def check(self) -> None:
        """Raises Stopped when nobody wants the answer any more."""
        if self._stopped:
            raise Stopped

    def go_on(self) -> None:
        """For work that may take long: as `check`, and tells the daemon now and then that it is done. Cheap."""
        self.check()
        now = time.monotonic()
        if now - self._said_at >= _BUSY_SECONDS:
            self._said_at = now
            self._line.write([frames.encode(self.number, frames.BUSY)])

    def result(self, answer: dict[str, Any], *, stream: bool = False) -> None:
        """Answers; with `stream`, data follows."""
        self._answered = not stream
        self._send(frames.RESULT, {**answer, "stream": True} if stream else answer)

    def end(self, answer: dict[str, Any]) -> None:
        """Ends the stream."""
        self._answered = True
        self._send(frames.END, answer)

    def fail(self, refused: Refused) -> None:
        """Fails, unless it was answered already."""
        if not self._answered:
            self._answered = True
            answer = {"code": refused.code, "message": refused.message}
            self._send(frames.FAILURE, answer | {"field": refused.field} if refused.field else answer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends data, as fast as the daemon takes it."""
        view = memoryview(data)
        while view:
            size = self._take(min(len(view), _BATCH))
            pieces: list[bytes | memoryview] = []
            for at in range(0, size, frames.MAX_PAYLOAD):
                piece = view[at : min(at + frames.MAX_PAYLOAD, size)]
                pieces += (frames.HEAD.pack(5 + len(piece), self.number, frames.DATA), piece)
            self._line.write(pieces)
            view = view[size:]

    def read(self) -> bytes | None:
        """The next bytes of the upload, up to a window of them, after the last one was dealt with; None at its end."""
        if self._dealt_with >= frames.WINDOW // 4:
            self._line.write([frames.encode(self.number, frames.MORE, self._dealt_with.to_bytes(4, "big"))])
            self._dealt_with = 0
        with self._changed:
            self._wait(lambda: self._data or self._ended)
            if not self._data:
                return None
            piece = b"".join(self._data) if len(self._data) > 1 else self._data[0]
            self._data.clear()
            self._waiting = 0
        self._dealt_with += len(piece)
        return piece

    def next_call(self) -> dict[str, Any]:
        """The parameters of a further call on the same request."""
        with self._changed:
            self._wait(lambda: self._calls)
            return _of_type(json.loads(self._calls.popleft()), dict, "call")

    def _take(self, wanted: int) -> int:
        """Takes up to so many bytes out of the window, once there is one."""
        with self._changed:
            self._wait(lambda: self._window > 0)
            size = min(wanted, self._window)
            self._window -= size
            return size

    def _wait(self, ready: Any) -> None:
        """Waits until it is so. The lock is held."""
        if not self._changed.wait_for(lambda: self._stopped or ready(), _PATIENCE) or self._stopped:
            raise Stopped

    def _send(self, kind: bytes, answer: dict[str, Any]) -> None:
        payload = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
        self._line.write([frames.encode(self.number, kind, payload)])


def _of_type(value: Any, kind: type[T], name: str) -> T:
    if type(value) is not kind:
        raise TypeError(f"{name} is no {kind.__name__}")
    return value
