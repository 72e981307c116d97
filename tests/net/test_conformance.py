"""W14 of the threat model: the cases of Autobahn's test suite against the daemon's own parser and sender."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

RUN: Final = """
import asyncio, json, sys
import kosoku

async def main():
    try:
        results = await kosoku.run_fuzzingclient(sys.argv[1], None, ["9.*", "12.*", "13.*"])
    except kosoku.FailureError as error:
        results = error.results
    print(json.dumps([[one.case_id, one.passed, one.result, one.result_close] for one in results]))

asyncio.run(main())
"""
"""All but messages of up to 16 MiB (9), which are over the daemon's limit, and compression (12, 13), which it does not offer."""
LEAST: Final = 240
"""Cases that are left: 247 in version 0.1.0."""


class ConformanceTests(SynchronousTestCase):
    """W14: RFC 6455, with `kosoku`, that runs those cases without Python 2."""

    timeout = 120

    def test_autobahns_cases(self) -> None:
        """W14."""
        if find_spec("kosoku") is None:
            self.skipTest("needs kosoku: pip install 'computerd[conformance]'")
        with subprocess.Popen([sys.executable, "-m", "tests.net.echo"], stdout=subprocess.PIPE, cwd=_TOP) as server:
            try:
                assert server.stdout is not None
                url = f"ws://127.0.0.1:{int(server.stdout.readline())}"
                done = subprocess.run(
                    [sys.executable, "-c", RUN, url], check=True, capture_output=True, text=True, timeout=100
                )
            finally:
                server.terminate()
        results = json.loads(done.stdout)
        self.assertEqual([one for one in results if not one[1]], [])
        self.assertGreaterEqual(len(results), LEAST)


_TOP: Final = __file__.rpartition("/tests/")[0]
