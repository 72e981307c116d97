"""The metrics, as Prometheus wants them. The only module that knows its library; imported when somebody asks for the first time.

Names say their unit, counters end in `_total`. No label has values that a member could choose: no ids, no names of his.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

import computerd
from computerd.journal.tally import Durations
from computerd.net.tally import FORGED, MISSING, NO_LONGER
from computerd.tap.gauges import Gauges

_REASONS: Final = (MISSING, FORGED, NO_LONGER)
_LIMITS: Final = ("requests", "in_flight", "connections", "bytes", "credentials", "transfers")
"""Of `net.limited.Limited`. Whatever can be counted is there from the start, with 0, so that its first time is a rise."""


class Exposition:
    """A registry of our own: the library's global one would have what other code in this process registers.

    Args:
        gauges: Where the numbers come from.
    """

    def __init__(self, gauges: Gauges) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collector(gauges))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """All metrics as they are now, in the text format."""
        return generate_latest(self._registry)


class _Collector(Collector):
    """Reads the rooms' numbers; it keeps none."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """Everything, in the order of the rooms."""
        yield from self._daemon()
        yield from self._net()
        yield from self._refusals()
        yield from self._files()
        yield from self._terminals()
        yield from self._sessions()
        yield from self._journal()

    def _daemon(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(
            "computerd_build_info", "Always 1; the label says which version runs.", labels=["version"]
        )
        build.add_metric([computerd.__version__], 1)
        yield build
        yield GaugeMetricFamily(
            "computerd_start_time_seconds", "When the daemon started, since the epoch.", self._gauges.started
        )
        yield _histogram(
            "computerd_reactor_lag_seconds",
            "How late a tick of the event loop came, ten times a second from the first scrape on.",
            self._gauges.lag.durations,
        )

    def _net(self) -> Iterator[Metric]:
        net = self._gauges.net
        yield GaugeMetricFamily(
            "computerd_connections", "WebSocket connections that are open.", self._gauges.connections()
        )
        yield CounterMetricFamily(
            "computerd_connections_opened_total", "WebSocket connections that were opened.", net.connections
        )
        yield _counters(
            "computerd_connection_closes_total",
            "Ends of WebSocket connections, by who ended it (server, client, network) and close code.",
            ("by", "code"),
            net.closes,
        )
        yield _counters(
            "computerd_http_requests_total",
            "HTTP requests that were answered, by method of the API and status class.",
            ("method", "status"),
            net.requests,
        )
        yield _counters(
            "computerd_rpc_requests_total",
            "JSON-RPC requests that were answered, by method and outcome: ok, protocol, or the group of the error's code.",
            ("method", "outcome"),
            net.calls,
        )

    def _refusals(self) -> Iterator[Metric]:
        gauges, net = self._gauges, self._gauges.net
        limited = {what: net.limited[what] for what in (*_LIMITS, *net.limited)}
        yield _by(
            "what",
            "computerd_rate_limited_total",
            "Requests that were refused with rate_limited, by what there was too much of.",
            {**limited, "input": gauges.traffic.refused, "waits": gauges.sessions.refused},
        )
        yield _by(
            "reason",
            "computerd_authentication_failures_total",
            "Requests that were refused with unauthenticated: the credential was missing, forged, or counts no longer.",
            {reason: net.unauthenticated[reason] for reason in _REASONS},
        )

    def _files(self) -> Iterator[Metric]:
        net = self._gauges.net
        yield GaugeMetricFamily("computerd_transfers", "Files and archives that are on their way.", net.transfers)
        yield _by(
            "direction",
            "computerd_file_bytes_total",
            "Bytes of files and archives that clients were given (sent) and have given (received).",
            {direction: net.moved[direction] for direction in ("received", "sent")},
        )

    def _terminals(self) -> Iterator[Metric]:
        traffic = self._gauges.traffic
        yield GaugeMetricFamily("computerd_terminals", "Terminals that are open.", traffic.open)
        yield CounterMetricFamily("computerd_terminals_opened_total", "Terminals that were opened.", traffic.opened)
        yield _by(
            "direction",
            "computerd_terminal_bytes_total",
            "Bytes that programs were given (input) and have written (output).",
            {"input": traffic.input_bytes, "output": traffic.output_bytes},
        )
        yield CounterMetricFamily(
            "computerd_terminal_input_dropped_bytes_total",
            "Bytes of input that were over a terminal's limit.",
            traffic.dropped_bytes,
        )
        yield CounterMetricFamily(
            "computerd_stray_frames_total", "Frames for channels that were not open.", traffic.stray_frames
        )

    def _sessions(self) -> Iterator[Metric]:
        sessions = self._gauges.sessions
        yield GaugeMetricFamily(
            "computerd_attached_sessions", "Sessions that connections follow, once for each.", sessions.attached
        )
        yield CounterMetricFamily(
            "computerd_events_delivered_total", "Events that connections were given.", sessions.delivered
        )
        yield _by(
            "reason",
            "computerd_sessions_detached_total",
            "Sessions that a connection no longer follows, by reason.",
            sessions.detached,
        )
        yield GaugeMetricFamily(
            "computerd_waiting_polls", "Requests that wait for news of a session.", sessions.waiting
        )

    def _journal(self) -> Iterator[Metric]:
        journal = self._gauges.journal
        yield CounterMetricFamily("computerd_journal_events_total", "Events that were committed.", journal.events)
        yield _histogram(
            "computerd_journal_commit_seconds",
            "How long the journal took to commit what it was asked to, waiting included.",
            journal.commits,
        )
        yield GaugeMetricFamily(
            "computerd_journal_stalled", "1 while the journal's disk does not answer.", float(self._gauges.stalled())
        )
        yield GaugeMetricFamily(
            "computerd_journal_backlog_jobs", "Jobs that the journal has not answered yet.", journal.waiting
        )


def _counters(
    name: str, meaning: str, labels: tuple[str, str], values: Mapping[tuple[str, str], int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _by(label: str, name: str, meaning: str, values: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _histogram(name: str, meaning: str, durations: Durations) -> Metric:
    seen = 0
    buckets = []
    for bound, count in zip((*map(str, durations.bounds), "+Inf"), durations.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return HistogramMetricFamily(name, meaning, buckets=buckets, sum_value=durations.total)
