from __future__ import annotations

import signal

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.closing import CloseCode
from computerd.opc import plan
from computerd.opc.finish import DOUBT_SECONDS, LAST_OUTPUT_SECONDS, Finish
from computerd.opc.link import closed

HUNG_UP = plan.exited(None, "SIGHUP")


class FinishTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.finish = Finish(self.clock.seconds)

    def status(self) -> int | None:
        return None if self.finish.ending is None else self.finish.ending.status

    def test_an_exit_code_is_believed_at_once(self) -> None:
        self.assertTrue(self.finish.running)
        self.finish.exited(plan.exited(0, None))
        self.assertEqual((self.status(), self.finish.running, self.finish.left()), (0, False, None))
        self.finish.lost(closed(1012, ""))
        self.assertEqual(self.status(), 0)

    def test_so_is_any_other_signal_and_a_code_that_looks_like_it(self) -> None:
        for told in (plan.exited(None, "SIGKILL"), plan.exited(129, None)):
            finish = Finish(self.clock.seconds)
            finish.exited(told)
            self.assertEqual(finish.ending, told)

    def test_a_hang_up_before_the_daemon_restarts(self) -> None:
        self.finish.exited(HUNG_UP)
        self.assertEqual((self.status(), self.finish.running), (None, False))
        self.clock.advance(DOUBT_SECONDS / 2)
        self.finish.settle()
        self.finish.lost(closed(CloseCode.RESTARTING, ""))
        assert self.finish.ending is not None and self.finish.ending.message is not None
        self.assertEqual(self.status(), 255)
        self.assertIn("1012: the server is restarting", self.finish.ending.message)

    def test_a_hang_up_that_nothing_follows(self) -> None:
        self.finish.exited(HUNG_UP)
        self.clock.advance(DOUBT_SECONDS)
        self.assertEqual(self.finish.left(), 0.0)
        self.finish.settle()
        self.assertEqual(self.finish.ending, HUNG_UP)
        self.assertTrue(self.finish.over(held_up=False))
        self.assertFalse(self.finish.over(held_up=True))

    def test_a_signal_of_the_users_is_not_doubted(self) -> None:
        self.finish.exited(HUNG_UP)
        self.finish.decide(plan.by_signal(signal.SIGTERM))
        self.assertEqual((self.status(), self.finish.left()), (143, 0.0))
        self.assertTrue(self.finish.over(held_up=True))

    def test_last_output_has_its_time(self) -> None:
        self.finish.lost(closed(1012, ""))
        self.assertFalse(self.finish.over(held_up=True))
        self.assertTrue(self.finish.over(held_up=False))
        self.clock.advance(LAST_OUTPUT_SECONDS)
        self.assertTrue(self.finish.over(held_up=True))

    def test_only_what_can_not_wait_comes_in_between(self) -> None:
        self.finish.exited(plan.exited(3, None))
        self.finish.decide(plan.failed("late", 15.0))
        self.assertEqual(self.status(), 3)
        self.finish.decide(plan.by_signal(signal.SIGINT))
        self.assertEqual(self.status(), 130)
