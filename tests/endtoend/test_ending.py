"""Closing, and what is left of a terminal afterwards: nothing but what its user wanted to keep (BR-012, BR-056 to BR-067, T10 to T13)."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, RefusedError
from tests.endtoend.computer import alive, eventually, sleeping


def reset(client: Client) -> None:
    """Cuts a connection with RST."""
    raw = client.socket.socket
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


class CloseTests(ComputerCase):
    """`terminals.close`."""

    def test_close_answers_at_once_and_the_exit_follows(self) -> None:
        """BR-058, in both modes."""
        client = self.connect()
        for tty in (True, False):
            shell = client.open(self.session, "sleep 1000", tty=tty)
            shell.close()
            self.assertEqual(shell.wait(2), (None, "SIGHUP"))
            with self.assertRaises(RefusedError) as caught:
                shell.close()
            self.assertEqual(caught.exception.slug, "terminal_not_found")

    def test_a_closing_terminal_is_not_found(self) -> None:
        client = self.connect()
        shell = client.open(self.session, "trap '' HUP; echo go; until [ -e end ]; do sleep 0.05; done; exit 4")
        shell.expect(b"go")
        shell.close()
        for method in ("close", "eof"):
            with self.assertRaises(RefusedError) as caught:
                getattr(shell, method)()
            self.assertEqual(caught.exception.slug, "terminal_not_found")
        (self.computer.folder / "workspaces" / self.session / "end").touch()
        self.assertEqual(shell.wait(), (4, None))

    def test_what_ignores_the_hangup_is_killed_after_five_seconds(self) -> None:
        """BR-057, BR-059: and what `nohup` and `setsid` keep lives on, as after ssh."""
        client = self.connect()
        keeper = client.open(self.session, "bash --norc --noprofile -i")
        keeper.type(b"PS1=; nohup sleep 1117 >/dev/null 2>&1 &\nsetsid sleep 1118 &\n")
        eventually(lambda: sleeping(1117) and sleeping(1118), "the jobs run")
        kept = [sleeping(1117), sleeping(1118)]
        for pid in kept:
            self.addCleanup(os.kill, pid, signal.SIGKILL)
        shells = []
        for tty in (True, False):
            shell = client.open(self.session, "trap '' HUP; sleep 300 & echo c=$!=; while :; do sleep 1; done", tty=tty)
            shell.expect(b"c=")
            shells.append((shell, int(shell.expect(b"=")[:-1])))
        began = time.monotonic()
        for shell in (keeper, *(shell for shell, _ in shells)):
            shell.close()
        for shell, child in shells:
            self.assertEqual(shell.wait(12), (None, "SIGKILL"))
            self.assertTrue(4.5 < time.monotonic() - began < 9.5, time.monotonic() - began)
            eventually(lambda child=child: not alive(child), "its child is gone", 2)
        self.assertEqual([alive(pid) for pid in kept], [True, True])

    def test_a_stopped_process_is_closed_too(self) -> None:
        """I10."""
        client = self.connect()
        shell = client.open(self.session, "echo go; kill -STOP $$; sleep 100")
        shell.expect(b"go")
        shell.close()
        self.assertEqual(shell.wait(7)[1], "SIGHUP")

    def test_eight_terminals_and_no_more(self) -> None:
        """BR-067, T5: across connections; a slot is free again when the process is gone."""
        first, second = self.connect(), self.connect()
        shells = [client.open(self.session, "cat") for client in (first, second) for _ in range(4)]
        for client in (first, second):
            with self.assertRaises(RefusedError) as caught:
                client.open(self.session, "cat")
            self.assertEqual((caught.exception.slug, caught.exception.data["status"]), ("too_many_terminals", 409))
            self.assertTrue(caught.exception.data["retryable"])
        shells[0].close()
        shells[0].wait()
        first.open(self.session, "cat")

    def test_nine_at_once_are_eight(self) -> None:
        """T5, raced."""
        clients = [self.connect() for _ in range(4)]
        sent = [
            (client, client.send("terminals.open", sessionId=self.session, cols=80, rows=24, command="cat"))
            for client in clients
            for _ in range(5)
        ]
        opened = 0
        for client, number in sent:
            try:
                client.answer(number)
                opened += 1
            except RefusedError as error:
                self.assertEqual(error.slug, "too_many_terminals")
        self.assertEqual(opened, 8)


class ConnectionEndTests(ComputerCase):
    """The connection ends, and so do its terminals."""

    def test_every_way_that_a_connection_ends(self) -> None:
        """BR-012, BR-064, T12: a writer that is blocked is not left frozen."""
        for end in ("close", "reset"):
            client = self.computer.client()
            shells = [client.open(self.session, "echo p=$$=; exec sleep 1000", tty=tty) for tty in (True, False)]
            pids = []
            for shell in shells:
                shell.expect(b"p=")
                pids.append(int(shell.expect(b"=")[:-1]))
            flood = client.open(self.session, "echo p=$$=; yes")
            flood.expect(b"p=")
            pids.append(int(flood.expect(b"=")[:-1]))
            self.quiet()
            if end == "close":
                client.socket.close()
            else:
                reset(client)
            eventually(lambda pids=pids: not any(map(alive, pids)), f"all gone after {end}", 6)
        self.settled()

    def test_a_connection_that_ends_before_the_answer(self) -> None:
        """BR-064: wherever in the opening it ends, and whether or not the program has ended by itself meanwhile, its slot is free again."""
        for command in ("sleep 1000", "true"):
            for number in range(40):
                client = self.computer.client()
                client.send("terminals.open", sessionId=self.session, cols=80, rows=24, command=command)
                time.sleep(0.002 * (number % 9))
                reset(client)
        eventually(lambda: self.computer.footprint()[1:] == self.computer.at_rest, "nothing is left", 8)
        client = self.connect()
        for shell in [client.open(self.session, "cat") for _ in range(8)]:
            shell.close()
            shell.wait()
        eventually(self._all_closed, "each terminal that was opened was closed")

    def _all_closed(self) -> bool:
        types = [event["type"] for event in self.computer.events(self.session)]
        return types.count("terminal.opened") == types.count("terminal.closed")

    def test_a_hangup_ignored_by_a_flood_is_killed(self) -> None:
        client = self.computer.client()
        shell = client.open(
            self.session, "trap '' HUP PIPE; echo p=$$=; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxx; done"
        )
        shell.expect(b"p=")
        pid = int(shell.expect(b"=")[:-1])
        reset(client)
        eventually(lambda: not alive(pid), "it is killed", 8)

    def test_failed_opens_keep_nothing(self) -> None:
        """BR-063."""
        client = self.connect()
        before = self.computer.footprint()
        for _ in range(50):
            with self.assertRaises(RefusedError):
                client.open("cs_0000000000000000", "true")
            with self.assertRaises(RefusedError):
                client.open(self.session, "true", cols=0)
        self.assertEqual(self.computer.footprint(), before)


class ForeignTests(ComputerCase):
    """A terminal belongs to the connection that opened it."""

    def test_another_connection_finds_no_such_terminal(self) -> None:
        """T1, T3, BR-082: in the same words as for one that never was; its frames reach nobody."""
        mine, other = self.connect(), self.connect()
        shell = mine.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go\n")
        messages = set()
        for name in (shell.id, "tm_000000000000"):
            for method, more in (("resize", {"cols": 10, "rows": 10}), ("eof", {}), ("close", {})):
                with self.assertRaises(RefusedError) as caught:
                    other.ask(f"terminals.{method}", terminalId=name, **more)
                self.assertEqual((caught.exception.slug, caught.exception.data["status"]), ("terminal_not_found", 404))
                messages.add(caught.exception.data["message"])
        self.assertEqual(len(messages), 1)
        for channel in [*range(20), 2**32 - 1]:
            other.socket.send(channel.to_bytes(4, "big") + b"stray")
        other.ask("ping")
        shell.type(b"mine")
        self.assertEqual(shell.expect(b"mine"), b"mine")

    def test_channels_count_up_and_are_not_used_again(self) -> None:
        """T2, BR-083."""
        client = self.connect()
        first = client.open(self.session, "true")
        first.wait()
        second = client.open(self.session, "wc -c", tty=False)
        third = client.open(self.session, "cat")
        self.assertEqual((first.channel, second.channel, second.error_channel, third.channel), (1, 2, 3, 4))
        first.type(b"late")
        client.socket.send((3).to_bytes(4, "big") + b"not an input channel")
        second.eof()
        second.wait()
        self.assertEqual(bytes(second.out), b"0\n")


class JournalTests(ComputerCase):
    """`terminal.opened` and `terminal.closed`."""

    def test_one_of_each(self) -> None:
        """T13."""
        client = self.connect()
        client.run(self.session, "exit 3")
        killed = client.open(self.session)
        killed.close()
        killed.wait()
        eventually(lambda: len(self.terminal_events()) == 4, "all four are there")
        opened, closed, login, hung_up = self.terminal_events()
        self.assertEqual((opened[0], opened[1]["command"]), ("terminal.opened", "exit 3"))
        self.assertEqual((closed[0], closed[1]["exitCode"]), ("terminal.closed", 3))
        self.assertEqual((login[0], login[1]["command"]), ("terminal.opened", None))
        self.assertEqual((hung_up[0], hung_up[1]["exitCode"]), ("terminal.closed", None))
        self.assertEqual(opened[1]["terminalId"], closed[1]["terminalId"])

    def terminal_events(self) -> list[tuple[str, dict[str, object]]]:
        """Type and data, in order."""
        events = self.computer.events(self.session, query="&types=terminal.opened&types=terminal.closed")
        return [(str(event["type"]), dict(event["data"])) for event in events]  # type: ignore[call-overload]
