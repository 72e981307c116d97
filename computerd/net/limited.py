"""A `rate_limited` of the network edge's own, that knows what there was too much of, so that it can be counted where it is answered."""

from __future__ import annotations

from computerd.contract.errors import ApiError, Code


class Limited(ApiError):
    """A client does too much of something.

    Attributes:
        what: `requests` in a second, requests `in_flight`, `connections`, `transfers`, `bytes` that are held, or forged `credentials`. Not told.
    """

    def __init__(self, what: str, message: str, retry_after_ms: int) -> None:
        super().__init__(Code.RATE_LIMITED, message, retry_after_ms=retry_after_ms)
        self.what = what
