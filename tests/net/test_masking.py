"""What unmasking costs (W19 of the threat model)."""

from __future__ import annotations

import time

from autobahn.websocket import xormasker
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits


class MaskingTests(SynchronousTestCase):
    """W19: in pure Python a mebibyte takes 214 ms of reactor, natively 2 ms."""

    def test_the_native_masker_is_there(self) -> None:
        """W19: Autobahn takes the slow one without a word when the native module is missing."""
        masker = xormasker.create_xor_masker(b"\1\2\3\4", limits.MAX_MESSAGE_BYTES)  # type: ignore[attr-defined]
        self.assertIn("nvx", f"{type(masker).__module__}.{type(masker).__qualname__}".lower())

    def test_a_mebibyte_takes_no_time(self) -> None:
        """W19: a tenth of what pure Python takes is allowed, on processor time."""
        data = bytes(limits.MAX_MESSAGE_BYTES)
        best = 1.0
        for _ in range(3):
            began = time.thread_time()
            masked = xormasker.create_xor_masker(b"\1\2\3\4", len(data)).process(data)  # type: ignore[attr-defined]
            best = min(best, time.thread_time() - began)
        self.assertEqual(masked, b"\1\2\3\4" * (len(data) // 4))
        self.assertLess(best, 0.02)
