"""One request and its answer over HTTP/1.1, with a body of any length in either direction. h11 speaks; here are the socket and the limits.

States of an upload: asked (the head is sent, with `Expect: 100-continue`); invited (100, or no word for CONTINUE_SECONDS, as RFC 9110,
section 10.1.1 wants it); sending; complete (the last chunk is on its way: only from then on may the daemon carry it out); answered. It may
be answered at any time, and then nothing more is sent: so a refusal costs no transfer, and one in the middle is heard, not run into.
"""

from __future__ import annotations

import contextlib
import select
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Final, Self
from urllib.parse import quote, urlencode

import h11

from computerd.opc import address, requests
from computerd.opc.failure import LINK_LOST, Failure
from computerd.opc.locate import Place

PIECE: Final = 256 * 1024
"""Bytes that are read, written or sent at a time."""
CONTINUE_SECONDS: Final = 15.0
"""For the daemon to say whether it wants the body: it may have to start a process first, for which it has 10 s."""
STALL_SECONDS: Final = 60.0
"""Without a byte either way. The daemon gives up a stream that stands still for 30 s."""
LANDING_SECONDS: Final = 630.0
"""From the last byte of an upload to its answer. The daemon gives itself 600 s for as many files as there may be."""


class Exchange:
    """One request. To be entered, and left whatever happens: leaving cuts the connection.

    Args:
        place: Which daemon.
        method: Such as `GET`.
        path: Such as `/sessions`.
        query: What follows the question mark.
        headers: More of them.
        upload: Whether a body follows, by `send`.
    """

    def __init__(
        self,
        place: Place,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        *,
        upload: bool = False,
    ) -> None:
        self._place = place
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * 1024)
        self._request = _request(place, method, path, query, headers, upload=upload)
        self._invited = False
        self._response: h11.Response | None = None
        self._body: list[bytes] = []
        self._ended = False
        self._trailers: dict[bytes, bytes] = {}
        self.complete = False
        """Whether all of the request may have reached the daemon."""

    def __enter__(self) -> Self:
        self._socket = address.connect(self._place.address)
        self._socket.setblocking(False)
        try:
            self._write(self._http.send(self._request) or b"")
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    # --- the request's body

    def invited(self) -> bool:
        """Waits until the daemon says whether it wants the body. False: it has answered already."""
        limit = time.monotonic() + CONTINUE_SECONDS
        while not self._invited and self._response is None and (left := limit - time.monotonic()) > 0:
            if self._ready(select.POLLIN, left):
                self._read()
        return self._response is None

    def send(self, data: bytes) -> bool:
        """Sends a piece of the body. False: the daemon has answered already, so there is no use in more."""
        if self._response is None and self._ready(select.POLLIN, 0.0):
            self._read()
        if self._response is None and data:
            self._write(b"".join(self._http.send_with_data_passthrough(h11.Data(data=data)) or ()))
        return self._response is None

    def finish(self) -> None:
        """That was all of the body."""
        if self._response is None:
            self.complete = True
            self._write(self._http.send(h11.EndOfMessage()) or b"")

    # --- the answer

    def response(self, seconds: float = STALL_SECONDS) -> h11.Response:
        """The head of the answer, whatever it says."""
        limit = time.monotonic() + seconds
        while self._response is None:
            if not self._ready(select.POLLIN, max(0.0, limit - time.monotonic())):
                raise self._lost(f"it did not answer within {seconds:.0f} s")
            self._read()
        return self._response

    def pieces(self) -> Iterator[bytes]:
        """The body of the answer, as it comes.

        Raises:
            Failure: It is refused, or was cut.
        """
        if not 200 <= self.response().status_code < 300:
            self.whole()
        while True:
            body, self._body = self._body, []
            yield from body
            if self._ended and not self._body:
                return
            if not self._body:
                self._more()

    def whole(self, seconds: float = STALL_SECONDS) -> dict[str, object]:
        """The answer, which is JSON.

        Raises:
            Failure: It is refused, or no answer of a daemon.
        """
        status = self.response(seconds).status_code
        while not self._ended and sum(map(len, self._body)) <= requests.MAX_ANSWER:
            self._more()
        return requests.answer(self._place, status, b"".join(self._body))

    def header(self, name: str) -> str | None:
        """A header of the answer."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.response().headers if key == wanted), None)

    def trailer(self, name: str) -> str | None:
        """A field after the answer's body, once all of that has come; also None where the daemon, or a proxy on the way, sends none."""
        value = self._trailers.get(name.lower().encode())
        return None if value is None else value.decode("latin-1")

    # --- the connection

    def _more(self) -> None:
        if not self._ready(select.POLLIN, STALL_SECONDS):
            raise self._lost(f"nothing came for {STALL_SECONDS:.0f} s")
        self._read()

    def _ready(self, events: int, seconds: float) -> int:
        """Which of the events there are, waiting for at most `seconds`."""
        if events & select.POLLIN and isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return select.POLLIN
        poll = select.poll()
        poll.register(self._socket, events)
        found = poll.poll(max(0, int(seconds * 1000)))
        return found[0][1] if found else 0

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._response is None:
            try:
                rest = rest[self._socket.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                found = self._ready(select.POLLIN | select.POLLOUT, STALL_SECONDS)
                if not found:
                    raise self._lost(f"it took nothing for {STALL_SECONDS:.0f} s") from None
                if found & select.POLLIN:
                    self._read()
            except OSError as error:
                self._last_word(error)

    def _last_word(self, broken: OSError) -> None:
        """The daemon has ended the connection: it may have said why before."""
        while self._response is None:
            if not self._ready(select.POLLIN, 1.0):
                raise self._lost(broken.strerror or str(broken))
            self._read()

    def _read(self) -> None:
        """Takes what has arrived."""
        try:
            data = self._socket.recv(PIECE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from None
        try:
            self._http.receive_data(data)
            while not self._ended and self._take(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            raise self._lost("it was cut in the middle" if not data else f"strange HTTP: {error}") from None
        if not data and not self._ended:
            raise self._lost("it ended the connection")

    def _take(self, event: object) -> bool:
        match event:
            case h11.InformationalResponse():
                self._invited = self._invited or event.status_code == 100
            case h11.Response():
                self._response = event
            case h11.Data():
                self._body.append(bytes(event.data))
            case h11.EndOfMessage():
                self._ended = True
                self._trailers = dict(event.headers)
            case _:
                return False
        return True

    def _lost(self, why: str) -> Failure:
        return Failure(LINK_LOST, f"the connection to {self._place.address.url} was lost: {why}.")


def _request(
    place: Place, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], *, upload: bool
) -> h11.Request:
    target = place.address.path + path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
    told = {"Host": place.address.host_header, "User-Agent": requests.USER_AGENT, **headers}
    if place.token is not None:
        told["Authorization"] = f"Bearer {place.token}"
    if upload:
        told |= {"Transfer-Encoding": "chunked", "Expect": "100-continue"}
    told["Connection"] = "close"
    return h11.Request(method=method, target=target, headers=list(told.items()))
