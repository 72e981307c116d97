from __future__ import annotations

import shlex
import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.opc.words import Words, command_line, sort, takes_next

VALUED = {"-e", "--escape", "--size", "--term", "--url"}


class WordsTests(SynchronousTestCase):
    def test_sorting(self) -> None:
        for line, flags, session, command in (
            ("", "", None, ""),
            ("cs_1 -t -- vim notes", "-t", "cs_1", "vim notes"),
            ("-t cs_1 vim -t", "-t", "cs_1", "vim -t"),
            ("-e none cs_1", "-e none", "cs_1", ""),
            ("-te % cs_1", "-te %", "cs_1", ""),
            ("-e% --size=80x24 --term dumb ls --size", "-e% --size=80x24 --term dumb", None, "ls --size"),
            ("-- cs_1", "", None, "cs_1"),
            ("cs_1 cs_2", "", "cs_1", "cs_2"),
            ("ls -- x", "", None, "ls -- x"),
            ("-- -- x", "", None, "-- x"),
            ("-", "", None, "-"),
            ("--size", "--size", None, ""),
        ):
            self.assertEqual(sort(line.split(), VALUED), Words(flags.split(), session, command.split()), line)

    def test_values(self) -> None:
        for word, takes in (
            ("-e", True),
            ("-ne", True),
            ("-e~", False),
            ("-en", False),
            ("--size", True),
            ("--size=1", False),
            ("-t", False),
        ):
            self.assertEqual(takes_next(word, VALUED), takes, word)

    @settings(deadline=None)
    @given(st.lists(st.text()))
    def test_nothing_after_the_separator_is_looked_at(self, words: list[str]) -> None:
        self.assertEqual(sort(["-t", "--", *words], VALUED), Words(["-t"], None, words))

    def test_one_word_is_the_shells(self) -> None:
        self.assertIsNone(command_line([]))
        self.assertEqual(command_line(["a | b"]), "a | b")

    @settings(deadline=None)
    @given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=2))
    def test_several_words_are_words(self, words: list[str]) -> None:
        self.assertEqual(shlex.split(command_line(words) or ""), words)

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), min_size=1)
    )
    def test_a_real_shell_agrees(self, words: list[str]) -> None:
        line = command_line(["printf", r"%s\0", *words]) or ""
        output = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(output.decode().split("\0")[:-1], words)
