"""`opc schema` and `opc schema NAME`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import published, reference, schema


class Named(SynchronousTestCase):
    def test_an_object_in_any_case(self) -> None:
        self.assertEqual(published.named("Session")["title"], "Session")
        self.assertEqual(published.named("session"), published.named("Session"))

    def test_what_it_refers_to_comes_along(self) -> None:
        found = published.named("Session")
        self.assertIn("Turn", found["$defs"])
        self.assertIn("TurnError", found["$defs"])
        self.assertNotIn("OpenTerminal", found["$defs"])
        self.assertNotIn("$defs", published.named("Person"))

    def test_params_methods_events_deltas_notifications_and_tables(self) -> None:
        self.assertIn("waitMs", published.named("ListEvents")["properties"])
        method = published.named("terminals.open")
        self.assertEqual(method["title"], "terminals.open")
        self.assertIn("OpenTerminal", method["$defs"])
        self.assertIn("TerminalOpened", method["$defs"])
        event = published.named("session.created")
        self.assertEqual(event["properties"]["type"], {"const": "session.created"})
        self.assertIn("Settings", event["$defs"])
        self.assertEqual(published.named("tool.delta")["properties"]["type"], {"const": "tool.delta"})
        self.assertIn("connectionId", published.named("ready")["properties"])
        self.assertEqual(published.named("errors")[0]["code"], "invalid_request")

    def test_an_unknown_name_hears_what_comes_close(self) -> None:
        with self.assertRaises(KeyError) as raised:
            published.named("Sesion")
        self.assertIn("Session", raised.exception.args[0])
        with self.assertRaises(KeyError) as raised:
            published.named("qqqqqq" * 100)
        self.assertIn("opc schema", raised.exception.args[0])
        self.assertLess(len(raised.exception.args[0]), 300)

    def test_every_name_works_and_what_it_gives_is_complete(self) -> None:
        for name in published.names():
            found = published.named(name)
            if isinstance(found, dict):
                references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(found)))
                self.assertEqual(references, set(found.get("$defs", ())), name)
        self.assertIn("terminal.exited", published.names())

    def test_the_text_is_the_document(self) -> None:
        self.assertEqual(published.document(), schema.build())


class Start(SynchronousTestCase):
    def test_needs_no_msgspec(self) -> None:
        program = (
            "import sys; from computerd.contract import published; published.named('Session'); "
            "print([name for name in ('msgspec', 'attr', 'attrs', 'asyncio') if name in sys.modules])"
        )
        environment = {**os.environ, "PYTHONPATH": str(reference.ROOT)}
        answer = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=environment
        )
        self.assertEqual(answer.stdout.strip(), "[]")
