"""What a tty needs and pipes refuse; what excludes each other in an attach."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.contract.params import Attach, OpenTerminal
from computerd.contract.rules import check_attach, check_open


class Open(SynchronousTestCase):
    def refused(self, field: str, params: OpenTerminal) -> None:
        error = self.assertRaises(ApiError, check_open, params)
        self.assertIs(error.code, Code.INVALID_REQUEST)
        self.assertEqual(error.field, field)

    def test_a_tty_needs_its_size(self) -> None:
        self.refused("cols", OpenTerminal("cs_1"))
        self.refused("cols", OpenTerminal("cs_1", rows=1))
        self.refused("rows", OpenTerminal("cs_1", cols=1))
        check_open(OpenTerminal("cs_1", cols=1, rows=1, term="xterm", command="ls"))

    def test_pipes_have_neither_size_nor_type(self) -> None:
        self.refused("cols", OpenTerminal("cs_1", tty=False, cols=1, rows=1))
        self.refused("rows", OpenTerminal("cs_1", tty=False, rows=1))
        self.refused("term", OpenTerminal("cs_1", tty=False, term="xterm"))
        check_open(OpenTerminal("cs_1", tty=False, command="ls"))


class AttachRule(SynchronousTestCase):
    def test_resume_and_read_only_exclude_each_other(self) -> None:
        error = self.assertRaises(ApiError, check_attach, Attach("cs_1", resume=True, read_only=True))
        self.assertEqual((error.code, error.field), (Code.INVALID_REQUEST, "resume"))

    def test_each_alone_is_good(self) -> None:
        for resume, read_only in ((True, False), (False, True), (False, False)):
            check_attach(Attach("cs_1", resume=resume, read_only=read_only))
        check_attach(Attach("cs_1", resume=True))
        check_attach(Attach("cs_1", read_only=True))
