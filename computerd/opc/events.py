"""`opc events`: a session's journal, once or for ever."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from computerd.opc import backoff, eventline, locate, plain, requests, say, sessions
from computerd.opc.bookmark import Bookmark, Gap
from computerd.opc.failure import Failure
from computerd.opc.lines import Lines
from computerd.opc.locate import Place
from computerd.opc.patient import Patient
from computerd.opc.say import Say
from computerd.opc.streams import Sink, sanitise

PAGE: Final = 500
"""Events of one answer: the API's limit."""


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Prints the events.

    Raises:
        Failure: They can't be had, or not printed.
        BrokenPipeError: Nobody reads them.
    """
    sanitise()
    settings = locate.configured(options, env)
    speaker = say.speaker(options.quiet, options.verbose, settings.color.value, env)

    def find() -> Place:
        return locate.locate(settings, env)

    place = find()
    if place.address.exposed and place.token is not None:
        speaker.warn(f"the token crosses the network in clear; use wss:// instead of {place.address.url}.")
    session = options.session or sessions.newest(place, speaker)
    if session is None:
        if sessions.subject(place.token) is None:
            # without a credential that names its member: the daemon says what is wrong, if it is there at all
            requests.ask(place, "GET", "/sessions", {"limit": "1"})
        raise Failure(
            "session_not_found", "you have no session. Name one: `opc events SESSION`; `opc sessions` lists them."
        )
    sink = Sink(1)
    lines = Lines(sink, plain.json_line if options.json else eventline.line, options.type)
    history = History(Patient(find, lines.rest, time.monotonic, backoff.chance), session)
    try:
        bookmark = history.bookmark(options.after, options.tail)
        if options.follow:
            renewable = settings.url is None and settings.token is None
            _follow(find, session, bookmark, lines, speaker, renewable=renewable)
        else:
            history.print(bookmark, options.type, lines, speaker)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure("output_lost", f"can't write the events: {error.strerror or error}. Some are lost.") from None
    finally:
        sink.close()
    return 0


def _follow(
    find: Callable[[], Place], session: str, bookmark: Bookmark, lines: Lines, speaker: Say, *, renewable: bool
) -> None:
    from computerd.opc.follow import Follow  # noqa: PLC0415  60 ms for a WebSocket

    waits = backoff.Backoff(backoff.chance)
    Follow(find, session, bookmark, lines, speaker, time.monotonic, waits, renewable=renewable).run()


class History:
    """A session's journal over HTTP, page by page.

    Args:
        daemon: Asks again if need be.
        session: Its id.
    """

    def __init__(self, daemon: Patient, session: str) -> None:
        self._daemon = daemon
        self._path = f"/sessions/{quote(session, safe='')}"

    def bookmark(self, after: int | None, tail: int | None) -> Bookmark:
        """Where to begin: after an event, before the last few, or at the beginning.

        Raises:
            Failure: There is no such session, or no answer.
        """
        if tail is None:
            return Bookmark(after or 0)
        session = self._daemon.ask("GET", self._path).get("session")
        last = session.get("lastSeq") if isinstance(session, dict) else None
        if not isinstance(session, dict) or not isinstance(last, int) or not isinstance(session.get("logEpoch"), str):
            raise _strange()
        return Bookmark(max(0, last - tail), session["logEpoch"])

    def print(self, bookmark: Bookmark, types: Sequence[str] | None, lines: Lines, speaker: Say) -> None:
        """Prints what comes after `bookmark`, up to the event that is the last one at the first answer.

        Raises:
            Failure: There is no such session, or no answer, or a strange one.
            BrokenPipeError: Nobody reads the lines.
        """
        after, end = bookmark.after, None
        query = {"limit": str(PAGE)} | ({"types": ",".join(types)} if types else {})
        while True:
            answer = self._daemon.ask("GET", f"{self._path}/events", query | {"after": str(after)})
            events, last = answer.get("events"), answer.get("lastSeq")
            if not isinstance(events, list) or not isinstance(last, int):
                raise _strange()
            end = last if end is None else end
            for place, event in enumerate(events):
                seq = _seq(event)
                if seq > end:
                    return
                if seq <= after or (seq != after + 1 and place > 0 and not types):
                    raise _strange()
                if seq != after + 1 and not types:
                    speaker.error(Gap(after + 1, seq - 1).words())
                after = seq
                lines.event(event)
                lines.drain()
            if not events or answer.get("hasMore") is not True or after >= end:
                return


def _seq(event: object) -> int:
    seq = event.get("seq") if isinstance(event, dict) else None
    if not isinstance(seq, int):
        raise _strange()
    return seq


def _strange() -> Failure:
    return Failure(
        "invalid_answer", "the daemon did not answer with events as this client knows them. Look at its log."
    )
