"""The metrics: what is rendered of what the rooms have counted, and that nobody pays for them who does not ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import ClassVar

from attrs import define, field
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

import computerd
from computerd.contract.errors import ApiError, Code
from computerd.journal.tally import BOUNDS, Durations
from computerd.journal.tally import Tally as JournalTally
from computerd.net.limited import Limited
from computerd.net.tally import Tally as NetTally
from computerd.session.tally import Tally as SessionTally
from computerd.tap.gauges import Gauges, Scrapes
from computerd.tap.lag import TICK_SECONDS, Lag
from computerd.terminal.traffic import Traffic


def parsed(text: bytes) -> dict[str, float]:
    """Every sample, by its name and labels as they are written."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = sample.name + (f"{{{labels}}}" if labels else "")
            assert key not in found, key
            found[key] = sample.value
    return found


@define
class LateClock(Clock):
    """A clock whose calls come late.

    Attributes:
        late: By how many seconds.
    """

    late: float = field(default=0.0)

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def tick(self) -> None:
        """Lets one tick pass."""
        self.advance(TICK_SECONDS + self.late)


class DurationsTests(SynchronousTestCase):
    """`Durations`."""

    def test_buckets(self) -> None:
        durations = Durations((0.1, 1.0))
        for seconds in (0.0, 0.1, 0.10001, 1.0, 1.5, 1e9):
            durations.observe(seconds)
        self.assertEqual(durations.counts, [2, 2, 2])
        self.assertAlmostEqual(durations.total, 1e9 + 2.70001)

    def test_bounds_rise(self) -> None:
        self.assertEqual(list(BOUNDS), sorted(set(BOUNDS)))
        self.assertEqual((BOUNDS[0], BOUNDS[-1]), (0.001, 5.0))


class LagTests(SynchronousTestCase):
    """`Lag`."""

    def setUp(self) -> None:
        self.clock = LateClock()
        self.lag = Lag(self.clock)

    def test_nothing_before_it_is_started(self) -> None:
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_how_late_ticks_come(self) -> None:
        self.lag.start()
        self.lag.start()
        for late in (0.0, 0.004, 2.0, 60.0):
            self.clock.late = late
            self.clock.tick()
        counts = self.lag.durations.counts
        self.assertEqual((sum(counts), counts[0], counts[BOUNDS.index(0.005)], counts[-1]), (4, 1, 1, 1))
        self.assertAlmostEqual(self.lag.durations.total, 62.004)

    def test_stop(self) -> None:
        self.lag.start()
        self.clock.tick()
        self.lag.stop()
        self.lag.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class RenderTests(SynchronousTestCase):
    """`Scrapes`."""

    def setUp(self) -> None:
        self.clock = LateClock()
        self.net, self.traffic = NetTally(), Traffic()
        self.sessions, self.journal = SessionTally(), JournalTally()
        self.stalled = False
        gauges = Gauges(
            started=1_800_000_000.5,
            net=self.net,
            connections=lambda: 3,
            traffic=self.traffic,
            sessions=self.sessions,
            journal=self.journal,
            stalled=lambda: self.stalled,
            lag=Lag(self.clock),
        )
        self.scrapes = Scrapes(gauges)
        self.addCleanup(self.scrapes.stop)

    def said(self, **values: float) -> None:
        """These are there, under `computerd_…`."""
        found = parsed(self.scrapes())
        for name, value in values.items():
            self.assertEqual(found[f"computerd_{name}"], value, name)

    def test_of_the_daemon(self) -> None:
        self.said(
            **{
                f"build_info{{version={computerd.__version__}}}": 1,
                "start_time_seconds": 1_800_000_000.5,
                "connections": 3,
                "reactor_lag_seconds_count": 0,
                "journal_stalled": 0,
            }
        )
        self.stalled = True
        self.said(journal_stalled=1)

    def test_what_can_be_counted_is_there_from_the_start(self) -> None:
        found = parsed(self.scrapes())
        for what in ("requests", "in_flight", "connections", "bytes", "credentials", "transfers", "input", "waits"):
            self.assertEqual(found[f"computerd_rate_limited_total{{what={what}}}"], 0)
        for reason in ("missing", "forged", "no_longer"):
            self.assertEqual(found[f"computerd_authentication_failures_total{{reason={reason}}}"], 0)
        for direction in ("input", "output"):
            self.assertEqual(found[f"computerd_terminal_bytes_total{{direction={direction}}}"], 0)

    def test_of_the_network(self) -> None:
        self.net.connections = 7
        self.net.closed(4008)
        self.net.left(1000)
        self.net.lost()
        self.net.answered("sessions.get", 404)
        self.net.called("ping", None)
        self.net.called("sessions.get", ApiError(Code.SESSION_NOT_FOUND, ""))
        self.net.refused(Limited("bytes", "", 1))
        self.net.refused(ApiError(Code.RATE_LIMITED, ""))
        self.net.unauthenticated["forged"] += 2
        self.sessions.refused = 5
        self.traffic.refused = 6
        self.said(
            **{
                "connections_opened_total": 7,
                "connection_closes_total{by=server,code=4008}": 1,
                "connection_closes_total{by=client,code=1000}": 1,
                "connection_closes_total{by=network,code=1006}": 1,
                "http_requests_total{method=sessions.get,status=4xx}": 1,
                "rpc_requests_total{method=ping,outcome=ok}": 1,
                "rpc_requests_total{method=sessions.get,outcome=not_found}": 1,
                "rate_limited_total{what=bytes}": 1,
                "rate_limited_total{what=waits}": 5,
                "rate_limited_total{what=input}": 6,
                "authentication_failures_total{reason=forged}": 2,
            }
        )

    def test_of_files(self) -> None:
        self.said(**{"transfers": 0, "file_bytes_total{direction=sent}": 0, "file_bytes_total{direction=received}": 0})
        self.net.transfers = 3
        self.net.moved["sent"] += 1 << 40
        self.net.moved["received"] += 5
        self.said(
            **{"transfers": 3, "file_bytes_total{direction=sent}": 1 << 40, "file_bytes_total{direction=received}": 5}
        )

    def test_of_terminals(self) -> None:
        traffic = self.traffic
        traffic.opened, traffic.open, traffic.input_bytes, traffic.output_bytes = 5, 2, 100, 1 << 40
        traffic.dropped_bytes, traffic.stray_frames = 9, 4
        self.said(
            **{
                "terminals": 2,
                "terminals_opened_total": 5,
                "terminal_bytes_total{direction=input}": 100,
                "terminal_bytes_total{direction=output}": 1 << 40,
                "terminal_input_dropped_bytes_total": 9,
                "stray_frames_total": 4,
            }
        )

    def test_of_sessions_and_the_journal(self) -> None:
        self.sessions.attached, self.sessions.detached["too_far_behind"] = 2, 1
        self.sessions.delivered, self.sessions.waiting = 1000, 8
        self.journal.events, self.journal.waiting = 12, 1
        for seconds in (0.002, 0.002, 7.0):
            self.journal.observe(seconds)
        self.said(
            **{
                "attached_sessions": 2,
                "sessions_detached_total{reason=too_far_behind}": 1,
                "events_delivered_total": 1000,
                "waiting_polls": 8,
                "journal_events_total": 12,
                "journal_backlog_jobs": 1,
                "journal_commit_seconds_bucket{le=0.001}": 0,
                "journal_commit_seconds_bucket{le=0.0025}": 2,
                "journal_commit_seconds_bucket{le=5.0}": 2,
                "journal_commit_seconds_bucket{le=+Inf}": 3,
                "journal_commit_seconds_count": 3,
            }
        )

    def test_of_the_process(self) -> None:
        found = parsed(self.scrapes())
        with open("/proc/self/limits") as limits:
            soft = next(line.split()[3] for line in limits if line.startswith("Max open files"))
        self.assertEqual(found["process_max_fds"], float(soft))
        first = found["process_open_fds"]
        self.assertGreater(first, 2)
        more = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
        try:
            self.assertGreaterEqual(parsed(self.scrapes())["process_open_fds"], first + 20)
        finally:
            for number in more:
                os.close(number)

    def test_the_reactor_is_measured_from_the_first_scrape_on(self) -> None:
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.scrapes()
        self.clock.late = 0.2
        self.clock.tick()
        self.said(
            **{
                "reactor_lag_seconds_bucket{le=0.1}": 0,
                "reactor_lag_seconds_bucket{le=0.25}": 1,
                "reactor_lag_seconds_count": 1,
            }
        )
        self.scrapes.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_names(self) -> None:
        """Units are in the names, counters end in _total, and each name has a text that says what it is."""
        self.net.called("ping", None)
        self.sessions.detached["asked"] = 1
        text = self.scrapes().decode()
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        texts = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.M))
        self.assertEqual(set(types), set(texts))
        for name, kind in types.items():
            self.assertRegex(name, r"^(computerd|process)_[a-z_]+$")
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            self.assertEqual(kind == "histogram", name in HISTOGRAMS, name)


HISTOGRAMS = {"computerd_reactor_lag_seconds", "computerd_journal_commit_seconds"}

START = """
import sys
from computerd.tap import Options, makeService
options = Options()
options.parseOptions(["--listen", "tcp:0:interface=127.0.0.1"])
makeService(options)
import computerd.tap.parts
print("prometheus_client" in sys.modules)
"""


class ImportTests(SynchronousTestCase):
    """A host that nobody scrapes."""

    environ: ClassVar[dict[str, str]] = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath}

    def test_it_does_not_load_the_library(self) -> None:
        file = self.mktemp()
        with open(file, "w"):
            os.chmod(file, 0o600)
        done = subprocess.run(
            [sys.executable, "-c", START],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env={**self.environ, "COMPUTERD_CONFIG": os.path.abspath(file)},
        )
        self.assertEqual(done.stdout.strip(), "False")
