"""The daemon as a service: in which order its parts start and stop, what a signal does, and how a failed start ends.

Start: folders and keys, then the journal, then the listeners; systemd hears READY when all of that is done. Stop, within
`limits.SHUTDOWN_SECONDS` of SIGTERM: listeners, terminals (hung up, and killed 5 s later), connections (1012), journal, because each
needs the next to say its last word. A start that can't be ends with one line on standard error and status 78, which systemd is told not to retry.
"""

# Twisted has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.failure import Failure

import computerd
from computerd.config.errors import EX_CONFIG, ConfigError
from computerd.config.hosting import host_settings
from computerd.config.loading import load
from computerd.config.settings import Config
from computerd.contract import limits
from computerd.contract.errors import ApiError
from computerd.host.settings import HostError
from computerd.journal.refusal import JournalError
from computerd.net.keys import KeyProblem
from computerd.net.refusal import ListenError
from computerd.tap.log import FORMATS, LineObserver
from computerd.tap.notify import Notifier
from computerd.tap.options import Options
from computerd.tap.parts import Parts, Surroundings, assemble
from computerd.tap.repeats import Repeats

EX_SOFTWARE: Final = 70
"""Of sysexits.h: the journal died."""
INVALID: Final = "invalid"
"""The result of a `config.loaded` or `key.changed` that changed nothing: the log says what is wrong."""
_OPEN_FILES: Final = 16384
_REFUSALS: Final = (ConfigError, HostError, JournalError, KeyProblem, ListenError, ApiError, OSError)
"""What a host that can't serve as configured raises."""


@define(eq=False, slots=False)
class Daemon(Service):
    """The whole daemon.

    Attributes:
        options: The command line, for reading the configuration again.
        config: As it was at the start or at the last SIGHUP.
        around: Reactor, clocks, randomness.
        notifier: Speaks to systemd.
    """

    options: Options
    config: Config
    around: Surroundings
    notifier: Notifier
    parts: Parts | None = field(default=None, init=False)
    _status: int = field(default=0, init=False)
    _log = Logger()

    def setServiceParent(self, parent: Any) -> None:
        """Joins the application, and has it log in our format."""
        super().setServiceParent(parent)
        if isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._observer())

    def _observer(self) -> Repeats:
        parent = getattr(self.options, "parent", None) or {}
        file = parent.get("logfile")
        stream = sys.stdout if file in (None, "-") else open(file, "a", encoding="utf-8")  # noqa: SIM115  # open for the daemon's whole life
        text = "journal" if "JOURNAL_STREAM" in os.environ and stream is sys.stdout else "text"
        lines = LineObserver(stream, FORMATS["json" if self.config.log.format == "json" else text])
        reactor = self.around.reactor
        # whichever thread logs
        repeats = Repeats(lines, reactor.seconds, lambda *call: reactor.callFromThread(reactor.callLater, *call))
        reactor.addSystemEventTrigger("after", "shutdown", repeats.tell)
        return repeats

    # start

    def startService(self) -> None:
        """Starts everything, or ends the process with status 78."""
        super().startService()
        ensureDeferred(self._start()).addErrback(self._refuse)

    async def _start(self) -> None:
        os.umask(0o077)
        _raise_open_files()
        for notice in self.config.notices:
            self._log.warn("{notice}", notice=notice)
        self.parts = parts = assemble(self.config, self.around, self._journal_failed)
        self._note_configuration("ok")
        # an agent's user that can't be used is said now, and not to the first who opens a terminal
        parts.spawner.account("")
        await parts.journal.start()
        await parts.lifecycle.start()
        parts.retention.start()
        await parts.net.listen()
        self._note_keys("key.loaded")
        parts.net.keys.watch(lambda: self._note_keys("key.changed"))
        signal.signal(signal.SIGHUP, lambda number, frame: self._soon(self.reload))
        # what is there now stays: collections need not walk it, nor touch pages that a fork (on an old kernel) would have to copy
        gc.collect()
        gc.freeze()
        _give_back_memory()
        self.notifier.send("READY=1", f"STATUS=listening on {', '.join(self.config.listen)}")
        self.notifier.feed(self.around.reactor)
        parts.trail.note("daemon.started", subject=f"computerd {computerd.__version__}")
        self._log.info(
            "computerd {version} is ready at {url}; {host}",
            version=computerd.__version__,
            url=parts.net.url(),
            host="; ".join(parts.spawner.describe().values()),
        )

    def _refuse(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, _REFUSALS):
            text = error.message if isinstance(error, ApiError) else str(error)
            self._end(EX_CONFIG, text)
            return
        self._log.failure("the start failed", failure)
        self._end(EX_SOFTWARE, f"the start failed: {failure.getErrorMessage()}; the log says more")

    def _journal_failed(self) -> None:
        self._end(EX_SOFTWARE, "the journal has died, and nothing can be promised without it; the log says more")

    def _end(self, status: int, text: str) -> None:
        """Ends the process with `status`, after an orderly stop."""
        # not sys.stderr, which twistd has turned into the log
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"computerd: {' '.join(text.split())}\n")
            sys.__stderr__.flush()
        self._status = status
        reactor = self.around.reactor
        # twistd has no way to end with a status of ours
        reactor.addSystemEventTrigger("after", "shutdown", self._exit)
        reactor.callWhenRunning(lambda: reactor.callLater(0, self._stop_reactor))

    def _stop_reactor(self) -> None:
        reactor = self.around.reactor
        if reactor.running:
            reactor.stop()

    def _exit(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self._status)

    def _soon(self, function: Callable[[], None]) -> None:
        # a signal handler does nothing but this
        self.around.reactor.callFromThread(function)

    # reload

    def reload(self) -> None:
        """Reads keys and configuration again. What is wrong is logged, and what was good stays. No terminal is dropped."""
        self.notifier.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        parts = self.parts
        try:
            self.config = load(self.options.flags(), os.environ, self.around.uid)
        except ConfigError as error:
            self._log.error("the configuration stays as it was: {error}", error=error)
            self._note_configuration(INVALID)
        else:
            self._note_configuration("ok")
        if parts is not None:
            parts.spawner.configure(host_settings(self.config))
            parts.net.reload()
        self._log.info("keys and limits were read again")
        self.notifier.send("READY=1")

    # the audit trail

    def _note_configuration(self, result: str) -> None:
        if self.parts is not None:
            file = self.config.file
            self.parts.trail.note("config.loaded", result, subject="no file" if file is None else str(file))

    def _note_keys(self, action: str) -> None:
        if self.parts is not None:
            names = sorted(self.parts.net.keys.names())
            self.parts.trail.note(action, subject=" ".join(names) or "none yet")

    # stop

    def stopService(self) -> Deferred[None]:
        """Ends everything in order, within `limits.SHUTDOWN_SECONDS`."""
        super().stopService()
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        self.notifier.send("STOPPING=1")
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        parts = self.parts
        if parts is not None:
            began = self.around.reactor.seconds()
            # of the ten seconds, the last two are the journal's
            await self._until(began + limits.SHUTDOWN_SECONDS - 2, self._hang_up(parts))
            parts.trail.note("daemon.stopped")
            await self._until(began + limits.SHUTDOWN_SECONDS - 0.5, parts.journal.stop())
            parts.scrapes.stop()
        self.notifier.starve()

    async def _hang_up(self, parts: Parts) -> None:
        parts.lifecycle.stop()
        parts.retention.stop()
        await parts.net.stop_accepting()
        await parts.spawner.shutdown()
        await parts.net.close_all()

    async def _until(self, deadline: float, work: Deferred[None] | Coroutine[Any, Any, None]) -> None:
        """Waits for `work`, but not beyond `deadline`; what fails is logged, and the next part still has its turn."""
        reactor = self.around.reactor
        waiting = work if isinstance(work, Deferred) else ensureDeferred(work)
        waiting.addTimeout(max(0.1, deadline - reactor.seconds()), reactor, onTimeoutCancel=lambda *_: None)
        waiting.addErrback(lambda failure: self._log.failure("a part did not stop in order", failure))
        await waiting


def _give_back_memory() -> None:
    """Returns to the system what the start has freed; only glibc knows how, and it has no other use for it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _raise_open_files() -> None:
    """Lets this process open as many files as it may; terminals get limits of their own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
