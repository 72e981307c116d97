"""J8 of the threat model, with a whole daemon: mutations of real requests, each of which gets a defined answer.

`COMPUTERD_FUZZ` is how many seconds this takes (4); 10⁶ messages are what the threat model asks for before a release, about ten minutes.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import statistics
import time
from typing import Any

from computerd.contract.methods import METHODS
from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, ConnectionClosed

SECONDS = float(os.environ.get("COMPUTERD_FUZZ", "4"))
BATCH = 90
"""Messages of a connection: fewer than the hundred after which it would hear of nothing but the rate."""
NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 2**53, 2**64, 1.5, 1e308, "", "a\0b", "x" * 300, "\u202e", "__proto__", [], {}, [[]], {"a": {}}, "cs_0123456789abcdef",
    "tm_0123456789ab", "../..", "𝄞",
)  # fmt: skip
BYTES = (
    b'"',
    b"{",
    b"[",
    b",",
    b":",
    b"\\",
    b"\\ud800",
    b"NaN",
    b"1e999",
    b"\xef\xbb\xbf",
    b"\0",
    b"\n",
    b"0",
    b"-",
    b"e",
    b"true",
)


class NonsenseTests(ComputerCase):
    """J8."""

    timeout = SECONDS * 3 + 60

    def corpus(self) -> list[dict[str, Any]]:
        """A request of every method, with params that are right for some of them."""
        right: dict[str, Any] = {
            "sessionId": self.session, "cols": 80, "rows": 24, "command": "true", "tty": True, "term": "xterm", "terminalId": "tm_0123456789ab",
            "after": 0, "limit": 5, "types": ["terminal.opened"], "text": "hello", "name": "x", "path": "a/b",
        }  # fmt: skip
        corpus = []
        for method in METHODS:
            known = [field for field in method.params.__struct_encode_fields__ if field in right]
            corpus.append(
                {"jsonrpc": "2.0", "id": 1, "method": method.name, "params": {name: right[name] for name in known}}
            )
        return corpus

    def mutated(self, request: dict[str, Any], chance: random.Random) -> bytes:
        """One message: the request with one to three things wrong, in its values or in its bytes."""
        value = json.loads(json.dumps(request))
        for _ in range(chance.randint(0, 2)):
            target = chance.choice([value, value["params"]]) if isinstance(value.get("params"), dict) else value
            name = chance.choice([*target, "extra"])
            if chance.random() < 0.3:
                target.pop(name, None)
            else:
                target[name] = copy.deepcopy(chance.choice(NASTY))
        text = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode()
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
            at = chance.randrange(len(text) + 1)
            kind = chance.randrange(4)
            if kind == 0:
                text = text[:at] + chance.choice(BYTES) + text[at:]
            elif kind == 1:
                text = text[:at]
            elif kind == 2:
                text = text[:at] + text[at + chance.randint(1, 8) :]
            else:
                text = text[:at] + text[max(0, at - chance.randint(1, 40)) :]
        return text

    def test_every_mutation_is_answered(self) -> None:
        """J8: never `internal`, never a traceback, and an echo elsewhere takes 100 ms at most in the middle."""
        seed = int(os.environ.get("COMPUTERD_SEED", "8"))
        chance = random.Random(seed)
        corpus = self.corpus()
        other = self.connect()
        # on a session that no message names: one of them may be to suspend it
        echo = other.open(self.computer.session(), "stty raw -echo; echo go; cat")
        echo.expect(b"go")
        until, sent, waits = time.monotonic() + SECONDS, 0, []
        before = self.computer.memory()
        while time.monotonic() < until:
            client = self.computer.client()
            batch = [self.mutated(chance.choice(corpus), chance) for _ in range(BATCH)]
            closes = self.send(client, batch, chance)
            began = time.monotonic()
            echo.type(b"!")
            echo.expect(b"!")
            waits.append(time.monotonic() - began)
            self.answers(client, batch, closes)
            client.socket.close()
            sent += len(batch)
        self.assertGreater(sent, BATCH)
        self.assertLess(statistics.median(waits), 0.1)
        self.assertLess(self.computer.memory() - before, 32 << 20)
        self.assertNotIn("Traceback", self.computer.log)

    def send(self, client: Client, batch: list[bytes], chance: random.Random) -> bool:
        """Sends it all; whether something among it is to close the connection."""
        closes = False
        for text in batch:
            with contextlib.suppress(ConnectionClosed):
                client.socket.send(text, text=True)
                if chance.random() < 0.1:
                    client.socket.send(chance.randbytes(chance.randint(4, 60)))
            try:
                text.decode()
            except UnicodeDecodeError:
                closes = True
        return closes

    def answers(self, client: Client, batch: list[bytes], closes: bool) -> None:
        """Reads all answers: each is a result or an error of the specification."""
        if closes:
            self.assertEqual(client.closed()[0], 1007, batch)
        else:
            client.socket.send(json.dumps({"jsonrpc": "2.0", "id": "last", "method": "ping"}))
            client.until(lambda: "last" in client.answers)
        for answer in client.answers.values():
            error = answer.get("error")
            if error is not None:
                self.assertIn(error["code"], (-32700, -32600, -32601, -32602, -32000), answer)
                self.assertNotEqual((error.get("data") or {}).get("code"), "internal", answer)
