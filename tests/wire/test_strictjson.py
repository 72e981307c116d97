"""J1 to J5 of the threat model: JSON with one meaning, at a bounded cost."""

from __future__ import annotations

import contextlib
import json
import time

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.objects import ErrorBody
from computerd.wire.strictjson import NotJson, TooCostly, dumps, loads

MIB = limits.MAX_MESSAGE_BYTES
VALUES: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != 0)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=20,
)


class Depth(SynchronousTestCase):
    def test_j1_64_levels_and_no_more(self) -> None:
        """J1."""
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            loads(opening * 64 + "0" * (opening != "[") + closing * 64)
            for depth in (65, 900, 10_000):
                self.assertRaises(NotJson, loads, opening * depth + "0" + closing * depth)

    def test_j1_nothing_but_opening_brackets(self) -> None:
        """J1."""
        for count in (1000, 1_000_000):
            self.assertRaises(NotJson, loads, "[" * count)

    def test_width_and_text_are_no_depth(self) -> None:
        self.assertEqual(loads("[" + ",".join(["[]"] * 500) + "]"), [[]] * 500)
        self.assertEqual(loads(json.dumps(["[{" * 500, '"[\\'])), ["[{" * 500, '"[\\'])

    def test_brackets_that_close_nothing(self) -> None:
        self.assertRaises(NotJson, loads, "]" * 70 + "[" * 70)


class Cost(SynchronousTestCase):
    def test_j2_structure_is_counted_before_parsing(self) -> None:
        """J2."""
        costly = [
            "[" + "0," * (MIB // 2 - 1) + "0]",
            "{" + ",".join(f'"{n}":1' for n in range(95_000)) + "}",
            "[" + ",".join(["{}"] * 350_000) + "]",
            "[" + '"",' * (MIB // 4) + '""]',
            '"' * MIB + "," * (limits.MAX_JSON_TOKENS + 1),
        ]
        for text in costly:
            self.assertRaises(TooCostly, loads, text)

    def test_the_limit_itself_is_allowed(self) -> None:
        commas = limits.MAX_JSON_TOKENS - 1
        self.assertEqual(loads("[" + "0," * commas + "0]"), [0] * (commas + 1))
        self.assertRaises(TooCostly, loads, "[" + "0," * (commas + 1) + "0]")

    def test_commas_in_text_cost_nothing(self) -> None:
        text = 'a,b\\"[{\n' * 12_500
        self.assertEqual(loads(json.dumps({"input": text})), {"input": text})

    def test_a_mebibyte_of_anything_is_soon_dealt_with(self) -> None:
        hostile = [
            b"[" * MIB,
            b"]" * MIB,
            b'"' * MIB,
            b'["' + b'\\"' * (MIB // 2),
            b"[" * 70 + b'"' + b"\\" * MIB,
            b'["' + b"\\ud83d" * (MIB // 6) + b'"]',
            b"[" + b"1" * MIB + b"]",
            b"[" + b",".join([b"1" * 1024] * 1000) + b"]",
            b"1e" + b"9" * MIB,
            b"0." + b"1" * MIB,
            b" " * MIB,
            b"{" + b'"":' * (MIB // 3),
            b"[" + b'{"a":1},' * 9_000 + b"0]",
        ]
        for text in hostile:
            # CPU time, ten times what was measured, and the best of three: for a machine that is busy or slow
            self.assertLess(min(self.cost(text) for _ in range(3)), 0.25, text[:20])

    def cost(self, text: bytes) -> float:
        start = time.process_time()
        with contextlib.suppress(NotJson, TooCostly):
            loads(text)
        return time.process_time() - start


class Strict(SynchronousTestCase):
    def test_j3_what_has_no_one_meaning(self) -> None:
        """J3."""
        for text in (
            "NaN", "Infinity", "-Infinity", "[NaN]", "1e400", "-1e400", '{"a":1,"a":1}', '{"a":1,"\\u0061":2}', "[1,]", '{"a":1,}',
            "\ufeff1", "", " ", "1 2", "{} x", "01", "+1", ".5", "1.", "1e", "0x1", "'a'", '"\n"', '"\x00"', '"\\x41"', '"\\u12"',
            "{1:2}", "[1 2]", "nul", "True", "//a\n1", "\x0b1", "\xa01", "٣", "[", '"', '"\\"', "\x00",
        ):  # fmt: skip
            self.assertRaises(NotJson, loads, text)
            self.assertRaises(NotJson, loads, text.encode())

    def test_j3_bytes_that_are_not_utf8(self) -> None:
        """J3."""
        for data in (
            b"\xef\xbb\xbf1", "[1]".encode("utf-16"), "[1]".encode("utf-16-le"), "[1]".encode("utf-32"),
            b'"\xc0\xaf"', b'"\xe0\x80\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xff"', b"\x80",
        ):  # fmt: skip
            self.assertRaises(NotJson, loads, data)

    def test_j4_integers_stay_integers_and_others_do_not_become_any(self) -> None:
        """J4."""
        for text in ("0", "-1", "9007199254740993", "18446744073709551616", "-" + "9" * 1000):
            self.assertEqual(loads(text), int(text))
        for text in ("1.0", "1e2", "-0", "-0.0", "1E0"):
            self.assertIs(type(loads(text)), float)
        self.assertIs(loads("true"), True)

    def test_j4_an_integer_without_end_is_out_of_every_range(self) -> None:
        for digits in (1025, 4301, 100_000):
            positive, negative = loads("1" * digits), loads("-" + "1" * digits)
            assert isinstance(positive, int)
            assert isinstance(negative, int)
            self.assertGreater(positive, 2**3000)
            self.assertLess(negative, -(2**3000))

    def test_j5_half_of_a_surrogate_pair(self) -> None:
        """J5."""
        for text in (
            '"\\ud800"',
            '"\\uDFFF"',
            '"\\udc00\\ud800"',
            '{"\\uD800":1}',
            '["a",{"b":"\\ud83dx"}]',
            '"\\\\\\ud800"',
        ):
            self.assertRaises(NotJson, loads, text)
        self.assertRaises(NotJson, loads, '"\ud800"')

    def test_j5_whole_pairs_and_what_only_looks_like_one(self) -> None:
        self.assertEqual(loads('"\\ud83d\\ude00"'), "\U0001f600")
        self.assertEqual(loads('"\\\\ud800"'), "\\ud800")

    @given(VALUES)
    def test_reads_what_another_writer_wrote(self, value: object) -> None:
        for ascii_only in (True, False):
            text = json.dumps(value, ensure_ascii=ascii_only)
            self.assertEqual(loads(text), value)
            self.assertEqual(loads(text.encode()), value)

    @given(VALUES)
    def test_reads_what_it_wrote(self, value: object) -> None:
        self.assertEqual(loads(dumps(value)), value)

    def test_writes_structs_as_they_are_on_the_wire(self) -> None:
        self.assertEqual(
            dumps(ErrorBody("a", "é", retry_after_ms=1)), '{"code":"a","message":"é","retryAfterMs":1}'.encode()
        )
