from __future__ import annotations

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.net.throttle import MAX_SOURCES, Throttle, source


class SourceTests(SynchronousTestCase):
    def test_neighbourhoods(self) -> None:
        def six(host: str) -> str | None:
            return source(IPv6Address("TCP", host, 1))

        self.assertEqual(source(IPv4Address("TCP", "192.0.2.1", 1)), "192.0.2.1")
        self.assertEqual(six("2001:db8::1"), six("2001:db8::ffff:1"))
        self.assertNotEqual(six("2001:db8::1"), six("2001:db8:0:1::1"))
        self.assertEqual(six("::ffff:192.0.2.1"), "192.0.2.1")
        self.assertEqual(six("fe80::1%eth0"), six("fe80::2%eth0"))

    def test_this_machine(self) -> None:
        for address in (
            IPv4Address("TCP", "127.0.0.1", 1),
            IPv4Address("TCP", "127.9.9.9", 1),
            IPv6Address("TCP", "::1", 1),
            IPv6Address("TCP", "::ffff:127.0.0.1", 1),
            UNIXAddress(b"/x"),
        ):
            self.assertIsNone(source(address))


class ThrottleTests(SynchronousTestCase):
    """C10."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.throttle = Throttle(self.clock.seconds)

    def refused(self, origin: str | None) -> int | None:
        try:
            self.throttle.check(origin)
        except ApiError as error:
            self.assertEqual(error.code, Code.RATE_LIMITED)
            return error.retry_after_ms
        return None

    def test_numbers_of_sshd(self) -> None:
        for _ in range(3):
            self.assertIsNone(self.refused("a"))
            self.throttle.failed("a")
        self.assertIsNone(self.refused("a"))
        self.throttle.failed("a")
        self.assertEqual(self.refused("a"), 5000)
        self.assertIsNone(self.refused("b"))
        self.clock.advance(5.1)
        self.assertIsNone(self.refused("a"))

    def test_at_most_ten_minutes(self) -> None:
        for _ in range(1000):
            self.throttle.failed("a")
        self.assertEqual(self.refused("a"), (600 - 15) * 1000)
        self.clock.advance(600)
        self.assertIsNone(self.refused("a"))

    def test_the_table_is_bounded(self) -> None:
        for number in range(MAX_SOURCES + 10):
            self.throttle.failed(str(number))
        self.assertLessEqual(len(self.throttle), MAX_SOURCES)

    def test_nobody_on_this_machine_locks_the_others_out(self) -> None:
        for _ in range(1000):
            self.throttle.failed(None)
        self.assertIsNone(self.refused(None))
        self.assertEqual(len(self.throttle), 0)
