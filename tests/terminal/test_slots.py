"""How many terminals a session holds."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.terminal.slots import Slots


class SlotsTests(SynchronousTestCase):
    """`Slots`."""

    def setUp(self) -> None:
        self.slots = Slots(2)
        self.emptied: list[str] = []

    def refused(self, session: str = "s") -> Code:
        """Why there is no slot."""
        error: ApiError = self.assertRaises(ApiError, self.slots.take, session)
        return error.code

    def test_each_session_has_its_own(self) -> None:
        for session in ("s", "s", "t"):
            self.slots.take(session)
        self.assertEqual(self.refused(), Code.TOO_MANY_TERMINALS)
        self.assertEqual([self.slots.taken(session) for session in "stu"], [2, 1, 0])
        self.slots.give_back("s")
        self.slots.take("s")
        self.assertEqual(self.refused(), Code.TOO_MANY_TERMINALS)

    def test_eight(self) -> None:
        self.assertEqual(Slots().limit, 8)

    def test_closed_as_often_as_it_was_closed(self) -> None:
        self.slots.close("s")
        self.slots.close("s")
        self.slots.reopen("s")
        self.assertEqual(self.refused(), Code.SESSION_BUSY)
        self.slots.take("t")
        self.slots.reopen("s")
        self.slots.take("s")

    def test_closed_goes_before_full(self) -> None:
        """Time alone cures it."""
        self.slots.take("s")
        self.slots.take("s")
        self.slots.close("s")
        self.assertEqual(self.refused(), Code.SESSION_BUSY)

    def test_when_empty(self) -> None:
        self.slots.when_empty("s", lambda: self.emptied.append("at once"))
        self.slots.take("s")
        self.slots.take("s")
        for name in ("a", "b"):
            self.slots.when_empty("s", lambda name=name: self.emptied.append(name))  # type: ignore[misc]  # a lambda's default
        self.slots.give_back("s")
        self.assertEqual(self.emptied, ["at once"])
        self.slots.give_back("s")
        self.assertEqual(self.emptied, ["at once", "a", "b"])
        self.slots.take("s")
        self.slots.give_back("s")
        self.assertEqual(len(self.emptied), 3)

    def test_who_does_not_wait_for_it_any_longer(self) -> None:
        self.slots.take("s")
        ends = {name: self.slots.when_empty("s", lambda name=name: self.emptied.append(name)) for name in "abcd"}  # type: ignore[misc]  # as above
        self.slots.when_empty("s", ends["d"])
        ends["b"]()
        ends["b"]()
        self.assertEqual(len(self.slots._emptied["s"]), 4)
        self.slots.when_empty("t", lambda: self.emptied.append("t"))()
        self.slots.give_back("s")
        self.assertEqual(self.emptied, ["t", "a", "c", "d"])
        ends["a"]()

    def test_one_who_is_called_ends_the_wait_of_another(self) -> None:
        self.slots.take("s")
        ends: list[Callable[[], None]] = []
        self.slots.when_empty("s", lambda: ends[0]())
        ends.append(self.slots.when_empty("s", lambda: self.emptied.append("never")))
        self.slots.when_empty("s", lambda: self.emptied.append("last"))
        self.slots.give_back("s")
        self.assertEqual(self.emptied, ["last"])

    def test_who_takes_one_when_it_is_empty(self) -> None:
        self.slots.take("s")
        self.slots.when_empty("s", lambda: self.slots.take("s"))
        self.slots.give_back("s")
        self.assertEqual(self.slots.taken("s"), 1)

    @given(st.lists(st.tuples(st.sampled_from(("take", "give_back", "close", "reopen")), st.sampled_from("st"))))
    def test_nothing_is_kept_of_what_is_over(self, calls: list[tuple[str, str]]) -> None:
        slots = Slots(3)
        taken, closed = {"s": 0, "t": 0}, {"s": 0, "t": 0}
        for call, session in calls:
            if call == "take":
                may = not closed[session] and taken[session] < 3
                if may:
                    slots.take(session)
                    taken[session] += 1
                else:
                    self.assertRaises(ApiError, slots.take, session)
            elif call == "give_back" and taken[session]:
                slots.give_back(session)
                taken[session] -= 1
            elif call == "close":
                slots.close(session)
                closed[session] += 1
            elif call == "reopen" and closed[session]:
                slots.reopen(session)
                closed[session] -= 1
            self.assertEqual(slots.taken(session), taken[session])
        self.assertEqual(dict(slots._taken), {name: count for name, count in taken.items() if count})
        self.assertEqual(dict(slots._closed), {name: count for name, count in closed.items() if count})
