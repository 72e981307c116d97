"""The worker's program as a child, spoken with over a socketpair as the daemon does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest

from computerd.host.worker import boot, frames

LIMIT = 30.0
"""Seconds that a test waits for the worker."""

_PATHS = f"{boot.PACKAGE}.paths"


class Failed(Exception):
    """The worker's F frame."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Program:
    """A worker in a folder.

    Attributes:
        pid: Of the child.
    """

    def __init__(
        self,
        folder: Path,
        *,
        python: str = sys.executable,
        paths: tuple[str, ...] = (),
        user: int | None = None,
        umask: int = 0o022,
        walk: bool = False,
    ) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        ours.settimeout(LIMIT)
        self.child = subprocess.Popen(
            [python, "-I", "-S", "-E", "-X", "utf8", "-c", boot.BOOT],
            cwd=folder,
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},
            umask=umask,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        theirs.close()
        self.pid = self.child.pid
        self._decoder = frames.Decoder()
        self._frames: dict[int, list[tuple[bytes, bytes]]] = {}
        self._next = 1
        modules = boot.sources()
        if walk:  # as on a kernel without openat2
            modules[_PATHS] = modules[_PATHS].replace("walk: bool = False", "walk: bool = True")
        boot_frame = json.dumps({"modules": modules, "paths": list(paths)}).encode()
        ours.sendall(frames.encode(0, frames.BOOT, boot_frame) if walk else boot.first_frame(paths))

    def send(self, number: int, kind: bytes, payload: bytes = b"") -> None:
        """Sends a frame."""
        self._socket.sendall(frames.encode(number, kind, payload))

    def begin(self, verb: str, **params: Any) -> int:
        """Sends a call; returns its number."""
        number, self._next = self._next, self._next + 1
        self.call(number, verb=verb, **params)
        return number

    def call(self, number: int, **params: Any) -> None:
        """Sends a C frame."""
        self.send(number, frames.CALL, json.dumps(params).encode())

    def frame(self, number: int) -> tuple[bytes, bytes]:
        """The next frame of a request."""
        while not self._frames.get(number):
            data = self._socket.recv(1 << 20)
            if not data:
                raise EOFError("the worker is gone: " + self.words())
            for request, kind, payload in self._decoder.feed(data):
                self._frames.setdefault(request, []).append((kind, payload))
        return self._frames[number].pop(0)

    def answer(self, number: int) -> dict[str, Any]:
        """The R or E frame of a request. Raises Failed."""
        kind, payload = self.frame(number)
        while kind in (frames.MORE, frames.BUSY):
            kind, payload = self.frame(number)
        answer: dict[str, Any] = json.loads(payload)
        if kind == frames.FAILURE:
            raise Failed(answer["code"], answer["message"])
        assert kind in (frames.RESULT, frames.END), kind
        return answer

    def ask(self, verb: str, **params: Any) -> dict[str, Any]:
        """Calls, and waits for the answer."""
        return self.answer(self.begin(verb, **params))

    def stream(self, number: int) -> Iterator[bytes]:
        """The data of a request, up to its end. Raises Failed."""
        while True:
            kind, payload = self.frame(number)
            if kind == frames.DATA:
                self.send(number, frames.MORE, len(payload).to_bytes(4, "big"))
                yield payload
                continue
            answer = json.loads(payload)
            if kind == frames.FAILURE:
                raise Failed(answer["code"], answer["message"])
            assert kind == frames.END, kind
            self.last = answer
            return

    def names(self, path: str = "", depth: int = 1, limit: int = 100) -> list[str]:
        """Paths below a folder, page by page."""
        found: list[str] = []
        cursor = None
        while True:
            page = self.ask("list", path=path, depth=depth, limit=limit, cursor=cursor)
            found += [entry[0] for entry in page["entries"]]
            cursor = page["cursor"]
            if cursor is None:
                return found

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file."""
        number = self.begin("open", path=path)
        size = self.answer(number)["size"]
        self.call(number, start=start, length=size - start if length is None else length)
        return b"".join(self.stream(number))

    def pack(self, path: str = "", coding: str = "identity") -> bytes:
        """An archive."""
        number = self.begin("pack", path=path, coding=coding)
        self.answer(number)
        return b"".join(self.stream(number))

    def unpack(
        self,
        path: str,
        archive: bytes,
        *,
        replace: bool = False,
        coding: str = "identity",
        piece: int = frames.MAX_PAYLOAD,
    ) -> dict[str, Any]:
        """Uploads an archive."""
        number = self.begin("unpack", path=path, replace=replace, coding=coding)
        self.answer(number)
        return self.upload(number, archive, piece)

    def upload(self, number: int, archive: bytes, piece: int = frames.MAX_PAYLOAD) -> dict[str, Any]:
        """Sends the archive of a request that is ready."""
        window = frames.WINDOW
        for at in range(0, len(archive), piece):
            data = archive[at : at + piece]
            while window < len(data):
                kind, payload = self.frame(number)
                if kind == frames.BUSY:
                    continue
                if kind != frames.MORE:
                    self._frames[number].insert(0, (kind, payload))
                    return self.answer(number)
                window += int.from_bytes(payload, "big")
            window -= len(data)
            self.send(number, frames.DATA, data)
        self.send(number, frames.END)
        return self.answer(number)

    def words(self) -> str:
        """What it wrote to its descriptor 2, once it has ended."""
        self.child.wait(LIMIT)
        assert self.child.stderr is not None
        return self.child.stderr.read().decode()

    def close(self) -> str:
        """Ends it as a daemon that is gone; returns what it wrote to descriptor 2, the first time."""
        self._socket.close()
        if self.child.stderr is None or self.child.stderr.closed:
            return ""
        try:
            words = self.words()
        except subprocess.TimeoutExpired:
            self.child.kill()
            words = "it did not end"
        assert self.child.stderr is not None
        self.child.stderr.close()
        return words

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Ends it by a signal."""
        with suppress(ProcessLookupError):
            self.child.send_signal(number)
        self.child.wait(LIMIT)


def tool(name: str) -> str:
    """A program of the system, for comparison; skips the test where there is none."""
    found = shutil.which(name)
    if found is None:
        raise SkipTest(f"needs {name}")
    return found
