"""The worker's loop: frames come in, each request has a thread, and all of it ends with the socket.

Threads, because a file system may keep a call waiting for ever (FUSE, NFS), and only that request shall wait with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Final

from computerd.host.worker import frames, verbs
from computerd.host.worker.failures import UNAVAILABLE, Refused, Stopped, of_any
from computerd.host.worker.paths import Root
from computerd.host.worker.request import Line, Request

MAX_REQUESTS: Final = 32
"""At a time. Twice what the daemon asks for: a thread ends a little after its answer."""
_CHUNK: Final = 4 * frames.MAX_PAYLOAD
_LAST: Final = 3.0
"""Seconds for requests to clear away what they have begun, once the daemon is gone."""
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Worker:
    """The requests that run."""

    def __init__(self, root: Root, line: Line) -> None:
        self._root = root
        self._line = line
        self._lock = threading.Lock()
        self._running: dict[int, tuple[Request, threading.Thread]] = {}

    def feed(self, number: int, kind: bytes, payload: bytes) -> None:
        """Takes a frame. One for a request that has ended is late, and no mistake."""
        with self._lock:
            request, _ = self._running.get(number, (None, None))
            full = len(self._running) >= MAX_REQUESTS
        if request is not None:
            request.feed(kind, payload)
        elif kind == frames.CALL:
            self._begin(Request(number, json.loads(payload), self._line), full)

    def stop(self) -> None:
        """Ends all requests, and waits for them a little."""
        until = time.monotonic() + _LAST
        with self._lock:
            running = list(self._running.values())
        for request, _ in running:
            request.stop()
        for _, thread in running:
            thread.join(max(0.0, until - time.monotonic()))

    def _begin(self, request: Request, full: bool) -> None:
        thread = threading.Thread(target=self._run, args=(request,), daemon=True)
        if full:
            request.fail(Refused(UNAVAILABLE, f"The worker has {MAX_REQUESTS} requests already."))
            return
        with self._lock:
            self._running[request.number] = (request, thread)
        thread.start()

    def _run(self, request: Request) -> None:
        refused = Refused(UNAVAILABLE, "The request ended without an answer.")
        try:
            verbs.verb(request.text("verb"))(request, self._root)
        except BaseException as error:  # whatever it is, it ends this request and no other
            refused = of_any(error)
            if not isinstance(error, (Refused, Stopped, OSError)):
                traceback.print_exc()
        with self._lock:
            del self._running[request.number]
        try:
            request.fail(refused)
        except OSError:  # the daemon is gone, and the loop ends as well
            return


def serve(worker: Worker, descriptor: int) -> None:
    """Reads frames until there are no more. Raises Malformed."""
    decoder = frames.Decoder()
    with memoryview(bytearray(_CHUNK)) as room:  # one for ever: a new one for each reading would cost page faults
        while size := os.readv(descriptor, [room]):
            for frame in decoder.feed(room[:size]):
                worker.feed(*frame)


def main(paths: Sequence[str]) -> None:
    """Serves descriptor 0, in the folder that it was started in. Never returns."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    sys.stdout = sys.stderr  # descriptor 1 is for frames
    sys.path.extend(paths)  # after the standard library
    for number in _ENDINGS:
        signal.signal(number, leave)
    worker = Worker(Root.here(), Line(1))
    try:
        serve(worker, 0)
    except (OSError, SystemExit):
        pass
    except BaseException:
        traceback.print_exc()
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    worker.stop()
    os._exit(0)  # a thread that waits for a dead file system is not waited for
