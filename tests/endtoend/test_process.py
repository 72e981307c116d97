"""How a terminal's process is set up: as a login over ssh, with nothing of the daemon's (BR-040 to BR-053, D)."""

from __future__ import annotations

import grp
import os
import subprocess
from typing import ClassVar

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import RefusedError, http
from tests.endtoend.computer import Account

CANARY = {
    "OPC_CANARY": "canary-7f3a",
    "SECRET": "canary-7f3a",
    "NOTIFY_SOCKET": "/canary-7f3a",
    "CREDENTIALS_DIRECTORY": "/canary-7f3a",
    "INVOCATION_ID": "canary-7f3a",
    "JOURNAL_STREAM": "canary-7f3a",
    "LD_LIBRARY_PATH": "/canary-7f3a",
    "PERL5LIB": "/canary-7f3a",
    "XDG_RUNTIME_DIR": "/canary-7f3a",
}


class ProcessTests(ComputerCase):
    """In both modes, as whoever runs the tests."""

    environ: ClassVar[dict[str, str]] = CANARY

    def test_the_environment_is_exactly_seven_variables(self) -> None:
        """D7, BR-048."""
        client = self.connect()
        commands = ["/usr/bin/env"]
        if os.geteuid() == 0:  # else the daemon is the same user, and nothing isolates it
            commands.append("tr '\\0' '\\n' < /proc/$PPID/environ; /usr/bin/env")
        for command in commands:
            for tty in (True, False):
                out, _, _ = client.run(self.session, command, tty=tty)
                self.assertNotIn(b"canary", out)
        out, _, _ = client.run(self.session, "/usr/bin/env -u _ -u PWD -u SHLVL -u OLDPWD", tty=False)
        names = sorted(line.partition(b"=")[0].decode() for line in out.splitlines())
        self.assertEqual(names, sorted(["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM"]))

    def test_there_is_no_login_session(self) -> None:
        """BR-052: and the daemon's is not passed for one."""
        client = self.connect()
        for tty in (True, False):
            out, _, _ = client.run(self.session, "echo ${XDG_RUNTIME_DIR-unset}", tty=tty)
            self.assertEqual(out.strip(), b"unset")

    def test_only_three_descriptors(self) -> None:
        """D5, BR-045: while five terminals and some connections are open."""
        client = self.connect()
        others = [client.open(self.session, "cat") for _ in range(5)]
        more = [self.connect() for _ in range(5)]
        for tty in (True, False):
            out, _, _ = client.run(self.session, "ls /proc/self/fd | tr '\\n' ' '", tty=tty)
            self.assertEqual(out.split(), [b"0", b"1", b"2", b"3"])
        for shell in others:
            shell.close()
        self.assertEqual(len(more), 5)

    def test_signals_umask_priority_and_limits(self) -> None:
        """D10, BR-044, BR-053."""
        client = self.connect()
        command = "grep -E 'Sig(Blk|Ign)' /proc/self/status; umask; nice; ulimit -Sn; ulimit -c"
        for tty in (True, False):
            out, _, _ = client.run(self.session, command, tty=tty)
            words = out.split()
            self.assertEqual(int(words[1], 16), 0)
            self.assertEqual(int(words[3], 16), 0)
            self.assertEqual(words[4:], [b"0022", b"0", b"1024", b"0"])

    def test_no_privileges(self) -> None:
        """D11."""
        client = self.connect()
        out, _, _ = client.run(self.session, "grep -E '^(Cap(Eff|Prm|Inh|Amb)|NoNewPrivs)' /proc/self/status")
        values = dict(line.split(b":") for line in out.splitlines())
        self.assertEqual(values[b"NoNewPrivs"].strip(), b"1")
        if os.geteuid() == 0:
            for name in (b"CapEff", b"CapPrm", b"CapInh", b"CapAmb"):
                self.assertEqual(int(values[name], 16), 0, name)

    def test_it_starts_in_the_workspace(self) -> None:
        client = self.connect()
        out, _, _ = client.run(self.session, "pwd; stat -c '%a' .", tty=False)
        folder, mode = out.split()
        self.assertEqual(folder.decode(), str(self.computer.folder / "workspaces" / self.session))
        self.assertEqual(mode, b"700")

    def test_a_workspace_that_was_removed_is_made_anew(self) -> None:
        client = self.connect()
        client.run(self.session, "true")
        os.rmdir(self.computer.folder / "workspaces" / self.session)
        self.assertEqual(client.run(self.session, "pwd; touch x")[1], 0)

    def test_a_login_shell(self) -> None:
        """BR-050, D19."""
        client = self.connect()
        shell = client.open(self.session)
        shell.type(b'echo "=$0 $(shopt -q login_shell && echo LOGIN)="\n')
        self.assertIn(b"LOGIN", shell.expect(b"LOGIN="))
        shell.type(b"exit 9\n")
        self.assertEqual(shell.wait(), (9, None))


class AgentTests(ComputerCase):
    """As root: what belongs to the agent's user, and what does not."""

    root_only = True

    @classmethod
    def arrange(cls, agent: Account) -> None:
        subprocess.run(["usermod", "-a", "-G", "users", agent.name], check=True)

    def test_the_process_is_the_user_and_nobody_else(self) -> None:
        """D1, BR-046, BR-047: all four of each id, and the groups of a login."""
        assert self.agent is not None
        uid = str(self.agent.uid)
        for tty in (True, False):
            client = self.connect()
            out, _, _ = client.run(self.session, "grep -E '^(Uid|Gid|Groups)' /proc/self/status", tty=tty)
            lines = {line.split()[0]: line.split()[1:] for line in out.decode().splitlines()}
            self.assertEqual(lines["Uid:"], [uid] * 4)
            self.assertEqual(lines["Gid:"], [uid] * 4)
            expected = {uid, str(grp.getgrnam("users").gr_gid)}
            self.assertEqual(set(lines["Groups:"]), expected)

    def test_the_terminal_belongs_to_the_user(self) -> None:
        """D12, BR-040."""
        assert self.agent is not None
        client = self.connect()
        out, _, _ = client.run(
            self.session, "stat -c '%U %G %a' $(tty); : <>$(tty) && echo reopened; mesg n; mesg y; echo $?"
        )
        self.assertEqual(out.splitlines()[0].split(), [self.agent.name.encode(), b"tty", b"600"])
        self.assertIn(b"reopened", out)

    def test_the_daemon_cannot_be_inspected(self) -> None:
        """D16, I3."""
        client = self.connect()
        pid = self.computer.pid
        state = self.computer.folder / "state"
        keys = state / "keys" / "host_ed25519"
        for words in (
            f"cat /proc/{pid}/environ",
            f"cat /proc/{pid}/maps",
            f"ls /proc/{pid}/fd/",
            f"ls {state}",
            f"cat {keys}",
            f"cat {state}/journal.db",
        ):
            out, code, _ = client.run(self.session, words)
            self.assertNotEqual(code, 0, words)
            self.assertIn(b"denied", out, words)

    def test_screen_tmux_and_script_work(self) -> None:
        """BR-040: programs that open their terminal again."""
        client = self.connect()
        out, code, _ = client.run(self.session, "script -qc 'echo in''side' /dev/null")
        self.assertEqual((out.strip(), code), (b"inside", 0))
        out, code, _ = client.run(
            self.session, "tmux -L t -f /dev/null new -d 'sleep 5' && tmux -L t kill-server; echo $?"
        )
        self.assertEqual(out.split()[-1:], [b"0"])

    def test_nothing_can_steer_the_launcher(self) -> None:
        """D17: modules and settings that the user leaves about are not loaded as root."""
        client = self.connect()
        plant = (
            "for f in sitecustomize.py json.py os.py posix.py; do\n"
            "echo \"open('/tmp/steered-$USER','a').write(str(__import__('os').getuid()))\" > $f\ndone\n"
            "echo 'BEGIN { open F, q(>>/tmp/steered); print F $< }' > sitecustomize.pl\n"
            "cp *.py *.pl ~; echo planted"
        )
        self.assertIn(b"planted", client.run(self.session, plant)[0])
        for tty in (True, False):
            self.assertEqual(client.run(self.session, "true", tty=tty)[1], 0)
        assert self.agent is not None
        self.assertFalse(os.path.exists(f"/tmp/steered-{self.agent.name}"))
        self.assertFalse(os.path.exists("/tmp/steered"))

    def test_a_second_user_can_reach_nothing(self) -> None:
        """I5, D12."""
        other = Account.make()
        self.addCleanup(other.remove)
        client = self.connect()
        shell = client.open(self.session, "tty; exec sleep 30")
        name = shell.expect(b"\r\n").strip().decode()
        for words in (
            ["cat", name],
            ["ls", str(self.computer.folder / "workspaces" / self.session)],
            ["ls", str(self.computer.folder / "state")],
        ):
            done = subprocess.run(
                ["runuser", "-u", other.name, "--", *words], capture_output=True, check=False, text=True, timeout=20
            )
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn("denied", done.stderr, words)


class MissingAgentTests(ComputerCase):
    """An owner's Unix user that is not there."""

    root_only = True
    environ: ClassVar[dict[str, str]] = {"COMPUTERD_AGENT_USERS": "bob=nobody-like-this"}

    def test_opening_says_that_the_computer_is_not_set_up(self) -> None:
        """D3: nothing stays behind."""
        session = self.computer.session("bob")
        client = self.connect("bob")
        before = self.computer.footprint()
        for _ in range(20):
            with self.assertRaises(RefusedError) as caught:
                client.open(session, "true")
            self.assertEqual(caught.exception.slug, "computer_not_set_up")
        self.assertEqual(self.computer.footprint(), before)
        types = [event["type"] for event in self.computer.events(session, "bob")]
        self.assertNotIn("terminal.opened", types)
        self.assertEqual(http(self.computer.base + "/health").json, {"status": "ok"})
