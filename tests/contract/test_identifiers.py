"""Ids: their shape, where they come from, and that none is like another."""

from __future__ import annotations

import os
from math import log2

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import identifiers
from computerd.contract.identifiers import Identifier

ALL = [value for value in vars(identifiers).values() if isinstance(value, Identifier)]


class Identifiers(SynchronousTestCase):
    def test_prefixes_and_lengths(self) -> None:
        expected = {"cs_": 16, "ev_": 16, "tn_": 12, "ak_": 12, "sa_": 12, "tm_": 12, "cn_": 12, "rq_": 12, "le_": 12}
        self.assertEqual({sort.prefix: sort.length for sort in ALL}, expected)

    def test_new_ones_have_their_shape(self) -> None:
        for sort in ALL:
            self.assertTrue(sort.matches(sort.new(os.urandom)))

    def test_what_does_not_match(self) -> None:
        good = identifiers.TERMINAL.new(os.urandom)
        for bad in (
            good + "\n",
            good[:-1],
            good + "a",
            " " + good,
            good.upper(),
            "cs_" + good[3:],
            good[:-1] + "é",
            "",
        ):
            self.assertFalse(identifiers.TERMINAL.matches(bad), bad)

    def test_none_twice_and_every_character_alike(self) -> None:
        """T4."""
        made = [identifiers.SESSION.new(os.urandom) for _ in range(20_000)]
        self.assertEqual(len(set(made)), len(made))
        counts = [sum(text.count(c, 3) for text in made) for c in "09azAZ5mM"]
        # 320,000 characters over 62: 5,161 each; the standard deviation is 71
        self.assertTrue(all(4_700 < count < 5_600 for count in counts), counts)

    def test_only_the_given_source_decides(self) -> None:
        """T4."""
        self.assertEqual(identifiers.TERMINAL.new(bytes), "tm_" + "0" * 12)

    @given(st.binary(min_size=1, max_size=64))
    def test_bytes_that_would_favour_some_characters_are_left_out(self, data: bytes) -> None:
        served = iter([data])
        made = identifiers.TERMINAL.new(lambda n: next(served, b"\x00" * n))
        usable = [b for b in data if b < 248][:12]
        self.assertEqual(made[3 : 3 + len(usable)], "".join(identifiers._ALPHABET[b % 62] for b in usable))

    def test_enough_bits_for_a_session(self) -> None:
        self.assertGreater(identifiers.SESSION.length * log2(62), 95)
