"""The real process keeps the promises of the port, on a pseudo-terminal and on pipes."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import define

from computerd.terminal.port import Process
from tests.host.interface import Play, ProcessInterface
from tests.host.real import SESSION_ID, RealCase
from tests.host.waiting import until

# Obeys a file that it reads anew after each order: `say TEXT` or `exit CODE`. Its input goes to another file.
_PUPPET = """
exec 3<&0
stty raw -echo 2>/dev/null; cat >heard <&3 &
trap 'kill $!; exit 129' TERM
n=0
while :; do
  while [ ! -e order$n ]; do sleep 0.01; done
  read -r what more <order$n
  n=$((n+1))
  case $what in say) printf %s "$more";; exit) exit $more;; esac
  : >done$n
done
"""


@define
class _RealPlay:
    process: Process
    folder: Path
    orders: int = 0

    async def _order(self, order: str) -> None:
        new = self.folder / "new"
        new.write_text(order + "\n")
        os.chmod(new, 0o644)
        new.rename(self.folder / f"order{self.orders}")
        self.orders += 1

    async def say(self, data: bytes) -> None:
        await self._order(f"say {data.decode()}")
        await until(lambda: (self.folder / f"done{self.orders}").exists(), "the puppet has spoken")

    async def exit(self, code: int) -> None:
        await self._order(f"exit {code}")

    async def heard(self, data: bytes) -> None:
        file = self.folder / "heard"
        await until(lambda: file.exists() and file.read_bytes() == data, f"the puppet has heard {data!r}")


class PipeProcessTests(ProcessInterface, RealCase):
    as_root = None
    size: tuple[int, int] | None = None

    async def play(self) -> Play:
        process = await self.spawner.spawn(self.begin(_PUPPET, self.size))
        return _RealPlay(process, self.root / SESSION_ID)

    async def stuck(self) -> Play:
        process = await self.spawner.spawn(self.begin("stty raw -echo 2>/dev/null; exec sleep 60", self.size))
        return _RealPlay(process, self.root / SESSION_ID)


class TtyProcessTests(PipeProcessTests):
    size = (80, 24)
    end_of_input = b"\x04"
