"""Errors and close codes as data."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import closing, errors
from computerd.contract.errors import ApiError, Code, Reason


class Codes(SynchronousTestCase):
    def test_every_code_is_in_one_group(self) -> None:
        grouped = [code for codes in errors.GROUPS.values() for code in codes]
        self.assertEqual(sorted(grouped), sorted(Code))


class Body(SynchronousTestCase):
    def test_has_what_is_known_and_nothing_else(self) -> None:
        self.assertEqual(
            ApiError(Code.SESSION_NOT_FOUND, "No.").body(),
            {"code": "session_not_found", "message": "No.", "status": 404, "retryable": False},
        )
        full = ApiError(Code.FORBIDDEN, "No.", field="f", reason=Reason.READ_ONLY, retry_after_ms=0).body("rq_1")
        self.assertEqual(full["requestId"], "rq_1")
        self.assertEqual((full["field"], full["reason"], full["retryAfterMs"]), ("f", "read_only", 0))


class Closing(SynchronousTestCase):
    def test_every_code_has_a_reason_that_fits_a_close_frame(self) -> None:
        self.assertEqual(set(closing.REASONS), set(closing.CloseCode))
        for reason in closing.REASONS.values():
            self.assertLessEqual(len(reason.encode()), 123)

    def test_the_missing_key_says_when_to_come_back(self) -> None:
        self.assertEqual(closing.REASONS[closing.CloseCode.NO_KEY], '{"retryAfterMs":2000}')
