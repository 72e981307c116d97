"""`GET /metrics` and `GET /health` of a whole daemon (point 7 of the operations: what an operator watches)."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import ClassVar

from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import RefusedError, Reply, http
from tests.endtoend.computer import eventually, free_port

OPEN_TO_ALL = free_port()
STALL_SECONDS = 5.0
"""After which the disk counts as stalled; the journal's lock is waited for twice as long."""


class MetricsTests(ComputerCase):
    """A daemon that listens on the loopback, and on all interfaces."""

    own: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("--listen", f"tcp:{OPEN_TO_ALL}")

    def scrape(self, path: str = "/metrics", base: str | None = None) -> Reply:
        """As a Prometheus does it, with a credential that is good for nothing else."""
        token = self.computer.token("prometheus", scopes=())
        return http((base or self.computer.base) + path, token=token)

    def metrics(self) -> dict[str, float]:
        """Every sample, by name and labels."""
        reply = self.scrape()
        self.assertEqual(reply.status, 200, reply.body)
        found = {}
        for family in text_string_to_metric_families(reply.body.decode()):
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
        return found

    def test_a_credential_is_needed(self) -> None:
        """C14: also over the loopback."""
        before = self.metrics()["computerd_authentication_failures_total{reason=missing}"]
        reply = http(self.computer.base + "/metrics")
        self.assertEqual((reply.status, reply.headers["WWW-Authenticate"]), (401, "Bearer"))
        self.assertEqual(self.metrics()["computerd_authentication_failures_total{reason=missing}"], before + 1)

    def test_a_listener_of_all_interfaces_has_none(self) -> None:
        base = f"http://127.0.0.1:{OPEN_TO_ALL}"
        self.assertEqual(http(base + "/health").json, {"status": "ok"})
        reply = self.scrape(base=base)
        self.assertEqual((reply.status, reply.code), (404, "not_found"))
        self.assertEqual(reply.json["error"]["message"], self.scrape("/nothing", base).json["error"]["message"])

    def test_how_it_is_sent(self) -> None:
        reply = self.scrape()
        self.assertEqual(reply.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(reply.headers["Cache-Control"], "no-store")

    def test_a_terminal(self) -> None:
        before = self.metrics()
        client = self.connect()
        shell = client.open(self.session, "cat", tty=False)
        shell.type(b"x" * 1000 + b"\n")
        shell.expect(b"x" * 1000 + b"\n")
        client.socket.send((999).to_bytes(4, "big") + b"for nobody")
        client.ask("ping")
        during = self.metrics()
        shell.eof()
        shell.wait()
        client.socket.close()
        eventually(lambda: self.metrics()["computerd_connections"] == 0, "the connection has ended")
        after = self.metrics()

        def rise(name: str) -> float:
            return after[f"computerd_{name}"] - before.get(f"computerd_{name}", 0)

        self.assertEqual((during["computerd_terminals"], during["computerd_connections"]), (1, 1))
        self.assertEqual((after["computerd_terminals"], after["computerd_connections"]), (0, 0))
        for name, value in {
            "connections_opened_total": 1,
            "connection_closes_total{by=client,code=1000}": 1,
            "terminals_opened_total": 1,
            "terminal_bytes_total{direction=input}": 1001,
            "terminal_bytes_total{direction=output}": 1001,
            "stray_frames_total": 1,
            "rpc_requests_total{method=terminals.open,outcome=ok}": 1,
            "rpc_requests_total{method=terminals.eof,outcome=ok}": 1,
            "rpc_requests_total{method=ping,outcome=ok}": 1,
        }.items():
            self.assertEqual(rise(name), value, name)
        self.assertGreater(during["process_open_fds"], after["process_open_fds"])

    def test_a_session_that_is_followed(self) -> None:
        """What was committed, how long it took, and who was told."""
        before = self.metrics()
        client = self.connect()
        client.attach(self.session)
        during = self.metrics()
        client.run(self.session, "true")
        client.until(
            lambda: [event["type"] for event in client.events[self.session]] == ["terminal.opened", "terminal.closed"]
        )
        after = self.metrics()
        names = ("journal_events_total", "journal_commit_seconds_count", "events_delivered_total")
        for name in names:
            self.assertGreaterEqual(after[f"computerd_{name}"] - before[f"computerd_{name}"], 2, name)
        self.assertEqual(during["computerd_attached_sessions"] - before["computerd_attached_sessions"], 1)
        client.socket.close()
        eventually(
            lambda: self.metrics()["computerd_attached_sessions"] == before["computerd_attached_sessions"],
            "nobody follows it any more",
        )

    def test_a_poll_that_waits(self) -> None:
        url = f"{self.computer.base}/sessions/{self.session}/events?waitMs=20000&after=2"
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.append(http(url, token=self.computer.token()).status))
        thread.start()
        eventually(lambda: self.metrics()["computerd_waiting_polls"] == 1, "it waits")
        client = self.connect()
        client.run(self.session, "true")
        thread.join()
        self.assertEqual(answers, [200])
        self.assertEqual(self.metrics()["computerd_waiting_polls"], 0)

    def test_input_over_the_limit(self) -> None:
        client = self.connect()
        shell = client.open(self.session, "cat > /dev/null", tty=False)
        before = self.metrics()
        size = 3 * 65532 * 16
        shell.type(bytes(size))
        eventually(
            lambda: self.metrics()["computerd_terminal_input_dropped_bytes_total"] > 0,
            "input over the limit is dropped",
        )
        self.assertRaises(RefusedError, client.ask, "ping")
        after = self.metrics()
        name = "computerd_rate_limited_total{what=input}"
        self.assertEqual(after[name] - before[name], 1)
        names = ("computerd_terminal_bytes_total{direction=input}", "computerd_terminal_input_dropped_bytes_total")
        self.assertEqual(sum(after[name] - before[name] for name in names), size)
        shell.close()
        shell.wait()

    def test_the_reactor_s_lateness(self) -> None:
        before = self.metrics()["computerd_reactor_lag_seconds_count"]
        eventually(
            lambda: self.metrics()["computerd_reactor_lag_seconds_count"] >= before + 5, "it ticks ten times a second"
        )

    def test_a_disk_that_does_not_answer(self) -> None:
        """S5: health and metrics are answered at once, and the metrics say what is the matter."""
        journal = sqlite3.connect(self.computer.folder / "state" / "journal.db", isolation_level=None)
        self.addCleanup(journal.close)
        journal.execute("BEGIN IMMEDIATE")
        answers: list[int] = []
        url, token = self.computer.base + "/sessions", self.computer.token()
        thread = threading.Thread(target=lambda: answers.append(http(url, "POST", token=token, body={}).status))
        thread.start()
        try:
            self.assertEqual(self.metrics()["computerd_journal_stalled"], 0)
            slowest = 0.0

            def stalled() -> bool:
                nonlocal slowest
                for path in ("/health", "/metrics"):
                    began = time.monotonic()
                    self.assertEqual(self.scrape(path).status, 200)
                    slowest = max(slowest, time.monotonic() - began)
                return self.metrics()["computerd_journal_stalled"] == 1

            eventually(stalled, "the journal counts as stalled")
            self.assertLess(slowest, STALL_SECONDS / 2)
        finally:
            journal.execute("ROLLBACK")
            thread.join()
        self.assertEqual(answers, [503])
        eventually(lambda: self.metrics()["computerd_journal_stalled"] == 0, "it answers again")


class OffTests(ComputerCase):
    """`metrics.serve = "off"`."""

    environ: ClassVar[dict[str, str]] = {"COMPUTERD_METRICS_SERVE": "off"}

    def test_off(self) -> None:
        reply = http(self.computer.base + "/metrics", token=self.computer.token())
        self.assertEqual((reply.status, reply.code), (404, "not_found"))
