"""A client that shares no code with the daemon (the `websockets` library), run as a child: does what a case says and prints one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect


def say(outcome: object) -> None:
    """The one line."""
    sys.stdout.write(json.dumps(outcome) + "\n")


def until_closed(socket: ClientConnection) -> tuple[int, str]:
    """The close code and reason that the client saw."""
    try:
        while True:
            socket.recv(timeout=20)
    except ConnectionClosed as closed:
        return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")


def main() -> None:
    """Runs one case."""
    case, url, token = sys.argv[1:4]
    options: dict[str, Any] = {
        "subprotocols": ["opc.v1"],
        "additional_headers": {"Authorization": f"Bearer {token}"},
        "proxy": None,
    }
    if case == "none":
        options["subprotocols"] = None
    if case == "refused":
        options["additional_headers"] = {}
        try:
            connect(url, **options)
        except InvalidStatus as error:
            say([error.response.status_code, error.response.headers["WWW-Authenticate"]])
        return
    with connect(url, **options) as socket:
        if case == "calls":
            ready = json.loads(socket.recv(timeout=20))
            socket.send('{"jsonrpc":"2.0","id":1,"method":"ping"}')
            say([ready["method"], json.loads(socket.recv(timeout=20))["id"], socket.ping().wait(20)])
            return
        if case == "big":
            socket.send(b"x" * (1 << 20) + b"x")
        elif case == "bigtext":
            socket.send(iter(["x" * (1 << 20), "x"]))
        elif case == "short":
            socket.send(b"abc")
        elif case == "utf8":
            socket.send(b"\xff\xff", text=True)
        elif case == "wait":
            sys.stdout.write("open\n")
            sys.stdout.flush()
        say(until_closed(socket))


main()
