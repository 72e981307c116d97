"""What runs out: descriptors of the daemon, pseudo-terminals of the machine (R4, R5 of the threat model, BR-067)."""

from __future__ import annotations

import subprocess
import sys

from attrs import define

from tests.endtoend.client import Client, RefusedError, http
from tests.endtoend.computer import Computer, agents_python, eventually
from tests.endtoend.test_flow import Raw
from tests.endtoend.test_life import LifeCase

DESCRIPTORS = 200


@define(eq=False)
class Narrow(Computer):
    """A daemon that may have 200 descriptors."""

    def command(self) -> list[str]:
        """See `Computer`."""
        script = (
            f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS})); "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        return [sys.executable, "-c", script, *Computer.command(self)]


class DescriptorTests(LifeCase):
    """R4: 200 descriptors, and more connections than that."""

    def test_a_flood_of_connections_harms_those_who_are_in_not_at_all(self) -> None:
        """R4, BR-067: a connection that is there works on, what can't be started is refused, and afterwards all is as before."""
        computer = Narrow(agent=self.agent)
        self.addCleanup(computer.remove)
        computer.start()
        session = computer.session()
        client = computer.client()
        self.addCleanup(client.socket.close)
        echo = client.open(session, "stty raw -echo; echo go; cat")
        echo.expect(b"go")
        before = computer.footprint()
        flood = self.flood(computer)
        refused = self.fill(client, session)
        echo.type(b"still here")
        echo.expect(b"still here", 5)
        self.assertIn("timing", client.ask("ping"))
        self.assertEqual((refused.slug, refused.data["status"]), ("computer_unavailable", 503))
        self.assertTrue(refused.data["retryable"])
        self.assertIn("too many files are open", refused.data["message"])
        self.assertLessEqual(computer.footprint()[0], DESCRIPTORS)
        for one in flood:
            one.close()
        eventually(lambda: computer.footprint() == before, "all is as before", on_failure=computer.footprint)
        self.assertEqual(client.run(session, "exit 6")[1], 6)
        self.assertEqual(http(computer.base + "/health").status, 200)
        self.assertNotIn("Traceback", computer.log)

    def flood(self, computer: Computer) -> list[Raw]:
        """WebSockets of several members, until the daemon takes no more."""
        flood: list[Raw] = []
        for number in range(DESCRIPTORS + 60):
            try:
                flood.append(Raw(computer.port, computer.token(f"member{number // 45}")))
            except (OSError, AssertionError):
                break
            self.addCleanup(flood[-1].close)
        self.assertLess(len(flood), DESCRIPTORS)
        return flood

    def fill(self, client: Client, session: str) -> RefusedError:
        """Opens terminals until one is refused, while others press in: which way it was refused. All are closed again."""
        opened = []
        try:
            for _ in range(7):
                opened.append(client.open(session, "sleep 100", tty=False))
        except RefusedError as error:
            return error
        finally:
            for shell in opened:
                shell.close()
                shell.wait()
        raise AssertionError(f"{len(opened)} terminals were opened with {DESCRIPTORS} descriptors")


HOLD = """
import os, sys
held = []
try:
    while True:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as error:
    print("full:", error.strerror)
print("held", len(held), flush=True)
sys.stdin.read()
"""


@define(eq=False)
class FewPtys(Computer):
    """A daemon that sees a machine with 30 pseudo-terminals, in a mount namespace of its own."""

    def command(self) -> list[str]:
        """See `Computer`."""
        return ["unshare", "--mount", "sh", "-c", f'{FEW_PTYS} && exec "$0" "$@"', *Computer.command(self)]


FEW_PTYS = "mount -t devpts -o newinstance,ptmxmode=0666,mode=0600,max=30 devpts /dev/pts"


class PtyTests(LifeCase):
    """R5: an agent that holds every pseudo-terminal that there is."""

    def test_an_owner_still_gets_in(self) -> None:
        """R5: by the daemon's reserve. Without that a terminal is refused, and later one can be had again."""
        if subprocess.run(["unshare", "--mount", "sh", "-c", FEW_PTYS], check=False, capture_output=True).returncode:
            self.skipTest("needs root and a mount namespace: it mounts a small /dev/pts")
        computer = FewPtys(agent=self.agent)
        self.addCleanup(computer.remove)
        computer.start()
        program = computer.folder / "hold.py"
        program.write_text(HOLD)
        program.chmod(0o644)
        hog = computer.client("bob")
        self.addCleanup(hog.socket.close)
        holding = hog.open(computer.session("bob"), f"exec {agents_python()} {program}", tty=False)
        holding.expect(b"full: No space left on device\nheld ")
        client = computer.client()
        self.addCleanup(client.socket.close)
        session = computer.session()
        shells = [client.open(session, "tty; cat") for _ in range(8)]
        for shell in shells:
            shell.expect(b"/dev/pts/")
        other = computer.session()
        self.assertEqual(client.run(other, "echo pipes work", tty=False)[0], b"pipes work\n")
        for _ in range(20):
            with self.assertRaises(RefusedError) as caught:
                client.open(other, "tty")
            self.assertEqual(caught.exception.slug, "computer_unavailable")
            self.assertIn("no pseudo-terminal is left", caught.exception.data["message"])
        holding.close()
        holding.wait()
        for shell in shells:
            shell.close()
            shell.wait()
        eventually(lambda: computer.footprint()[1:] == computer.at_rest, "the reserve is full again")
        self.assertEqual(client.run(other, "exit 3")[1], 3)
        self.assertNotIn("Traceback", computer.log)
