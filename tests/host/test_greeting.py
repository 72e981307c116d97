"""What a launcher says."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.greeting import Failed, Greeting, Ready

_NONCE = b"0123456789abcdef"


def _feed(pieces: list[bytes]) -> tuple[Ready | Failed | None, bytes]:
    """The word, and what was not fed any more."""
    greeting = Greeting(_NONCE)
    for at, piece in enumerate(pieces):
        word = greeting.feed(piece)
        if word is not None:
            return word, b"".join(pieces[at + 1 :])
    return None, b""


def _cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(number % (len(data) + 1) for number in at), len(data)]
    return [data[one:other] for one, other in pairwise(edges)]


class GreetingTests(SynchronousTestCase):
    @given(noise=st.binary(max_size=200), rest=st.binary(max_size=200), at=st.lists(st.integers(0, 1000), max_size=5))
    def test_ready_however_it_is_cut(self, noise: bytes, rest: bytes, at: list[int]) -> None:
        word, more = _feed(_cut(noise + b"\0" + _NONCE + b"." + rest, at))
        assert isinstance(word, Ready)
        self.assertEqual(rest, word.rest + more)

    @given(noise=st.binary(max_size=200), number=st.integers(0, 200), at=st.lists(st.integers(0, 1000), max_size=5))
    def test_failed_however_it_is_cut(self, noise: bytes, number: int, at: list[int]) -> None:
        for end in (b"\n", b"\r\n"):  # a terminal makes one of the other
            word, _ = _feed(_cut(noise + b"\0" + _NONCE + b"!uid %d" % number + end, at))
            self.assertEqual(Failed("uid", number), word)

    @given(data=st.binary(max_size=300))
    def test_nothing_else_is_a_word(self, data: bytes) -> None:
        self.assertEqual((None, b""), _feed([data]))

    def test_another_nonce(self) -> None:
        self.assertEqual((None, b""), _feed([b"\0" + b"f" * 16 + b"."]))

    def test_a_failure_without_end(self) -> None:
        word, _ = _feed([b"\0" + _NONCE + b"!" + b"x" * 100])
        self.assertIsInstance(word, Failed)

    def test_noise_is_not_kept_for_ever(self) -> None:
        greeting = Greeting(_NONCE)
        for _ in range(100):
            self.assertIsNone(greeting.feed(b"y" * 65532))
        self.assertLess(len(greeting._seen), 200_000)
        self.assertEqual(Ready(b"x"), greeting.feed(b"\0" + _NONCE + b".x"))
