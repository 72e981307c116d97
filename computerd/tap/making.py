"""What twistd calls. Twisted's reactor and all that uses it are imported only after the configuration was read: it decides what is needed."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from computerd.config.errors import EX_CONFIG, ConfigError
from computerd.config.loading import load
from computerd.tap import tls
from computerd.tap.options import Options

if TYPE_CHECKING:
    from computerd.tap.service import Daemon


def makeService(options: Options) -> Daemon:
    """The daemon, not yet started.

    Raises:
        SystemExit: With status 78, after one line on standard error.
    """
    try:
        config = load(options.flags(), os.environ, os.geteuid())
    except ConfigError as error:
        sys.stderr.write(f"computerd: {error}\n")
        raise SystemExit(EX_CONFIG) from None
    with nullcontext() if tls.wanted(config.listen) else tls.spared():
        from twisted.internet import reactor  # noqa: PLC0415  # it is decided above what it loads

        from computerd.tap.notify import Notifier  # noqa: PLC0415  # these import the reactor
        from computerd.tap.parts import Surroundings  # noqa: PLC0415  # likewise
        from computerd.tap.service import Daemon  # noqa: PLC0415  # likewise
    # the wall clock steps; timers must not (and Twisted's default is the wall clock)
    reactor.seconds = time.monotonic  # type: ignore[method-assign]
    around = Surroundings(reactor, time.time, os.urandom, os.geteuid(), time.thread_time)
    return Daemon(options, config, around, Notifier.from_environ(os.environ, os.getpid()))
