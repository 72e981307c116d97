"""`computerctl doctor` and `computerctl config`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from computerd.ctl.finding import State
from computerd.ctl.machine import PTYS_WANTED, RELEASED, Machine
from tests.ctl.running import NOW, CtlTestCase


class Doctor(CtlTestCase):
    """Of computerd's own things."""

    def findings(self, *words: str) -> dict[str, dict[str, str]]:
        ran = self.ctl("doctor", "--json", *words)
        rows = json.loads("\n".join(ran.out))
        self.assertEqual(ran.status, int(any(row["state"] == "wrong" for row in rows)))
        for row in rows:
            self.assertEqual(set(row), {"check", "state", "found", "advice"})
            self.assertEqual(row["advice"] == "", row["state"] == "good", row)
        return {row["check"]: row for row in rows}

    def test_before_the_first_start(self) -> None:
        found = self.findings()
        for check in ("state", "workspaces", "key", "journal", "daemon"):
            self.assertEqual(found[check]["state"], "note", found[check])
        self.assertEqual(found["pty"]["state"], "good")
        self.assertEqual(list(self.folder.iterdir()), [], "a doctor changes nothing")

    def test_after_it(self) -> None:
        self.good("token", "create", "--member", "ada", "--scope", "terminals")
        found = self.findings()
        for check in ("state", "key", "journal"):
            self.assertEqual(found[check]["state"], "good", found[check])

    def test_state_folder_open_to_others(self) -> None:
        self.good("key", "init")
        self.state.chmod(0o755)
        found = self.findings()["state"]
        self.assertEqual((found["state"], found["advice"]), ("wrong", f"chmod 700 {self.state}"))

    def test_damaged_journal(self) -> None:
        self.good("key", "init")
        (self.state / "journal.db").write_bytes(b"garbage" * 1000)
        self.assertEqual(self.findings()["journal"]["state"], "wrong")

    def test_key_that_others_can_read(self) -> None:
        self.good("key", "init")
        (self.state / "keys" / "host_ed25519").chmod(0o640)
        self.assertEqual(self.findings()["key"]["state"], "wrong")

    def test_broken_configuration_is_a_finding(self) -> None:
        file = self.folder / "config.toml"
        file.write_text("nonsense = 1")
        found = self.findings("--config", str(file))
        self.assertEqual(found["configuration"]["state"], "wrong")
        self.assertEqual(found["pty"]["state"], "good")
        self.assertNotIn("users", found)

    def test_missing_user(self) -> None:
        if os.geteuid() != 0:
            return
        file = self.folder / "config.toml"
        file.write_text('agent.user = "nobody-of-this-name"')
        found = self.findings("--config", str(file))["users"]
        self.assertEqual(found["state"], "wrong")
        self.assertIn("nobody-of-this-name", found["found"])

    def test_open_to_the_network(self) -> None:
        file = self.folder / "config.toml"
        file.write_text('listen = ["tcp:7390"]')
        self.assertEqual(self.findings("--config", str(file))["listen"]["state"], "note")

    def test_for_people(self) -> None:
        lines = self.ctl("doctor").out
        self.assertTrue(any(line.startswith("good   pty: ") for line in lines))
        self.assertTrue(any(line.startswith("       -> ") for line in lines))


class Kernel(CtlTestCase):
    """Of the machine, on one that is made up."""

    def machine(self, files: dict[str, str], now: float = NOW) -> Machine:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Machine(None, lambda: now, self.folder)

    def test_pseudo_terminals(self) -> None:
        for most, used, state in (
            ("4096", "3", State.NOTE),
            (str(PTYS_WANTED), "3", State.GOOD),
            ("4096", "4090", State.WRONG),
        ):
            machine = self.machine({"proc/sys/kernel/pty/max": f"{most}\n", "proc/sys/kernel/pty/nr": f"{used}\n"})
            self.assertEqual(machine.terminals().state, state, (most, used))

    def test_tiocsti(self) -> None:
        self.assertEqual(self.machine({}).typing_in().state, State.NOTE)
        self.assertEqual(self.machine({"proc/sys/dev/tty/legacy_tiocsti": "1\n"}).typing_in().state, State.NOTE)
        self.assertEqual(self.machine({"proc/sys/dev/tty/legacy_tiocsti": "0\n"}).typing_in().state, State.GOOD)

    def test_cgroup(self) -> None:
        self.assertIn("no cpu, memory, pids", self.machine({}).cgroup().found)
        machine = self.machine({"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n"})
        self.assertEqual(machine.cgroup().state, State.NOTE)
        Path(self.folder, "sys/fs/cgroup/computerd.slice/computerd.service").mkdir(parents=True)
        self.assertEqual(machine.cgroup().state, State.GOOD)

    def test_clock(self) -> None:
        self.assertEqual([finding.state for finding in self.machine({}, now=RELEASED - 1).clock()], [State.WRONG])
        self.assertNotIn(State.WRONG, [finding.state for finding in self.machine({}).clock()])


class Configuration(CtlTestCase):
    """`computerctl config`."""

    def test_show(self) -> None:
        lines = self.good("config", "show", environ={"COMPUTERD_AGENT_LANG": "de_DE.UTF-8"})
        self.assertTrue(
            any(
                line.startswith('agent.lang = "de_DE.UTF-8"') and "environment COMPUTERD_AGENT_LANG" in line
                for line in lines
            )
        )
        self.assertTrue(
            any(line.startswith(f'state_dir = "{self.state}"') and "flag --state-dir" in line for line in lines)
        )
        rows = json.loads("\n".join(self.good("config", "show", "--json")))
        self.assertIn({"key": "agent.umask", "value": '"022"', "origin": "built in"}, rows)

    def test_check(self) -> None:
        self.assertEqual(self.ctl("config", "check").status, 0)
        file = self.folder / "config.toml"
        file.write_text("[agent]\numask = 22")
        ran = self.ctl("config", "check", "--config", str(file))
        self.assertEqual((ran.status, ran.out, len(ran.said)), (78, [], 1))
        self.assertIn(f"{file}: agent.umask", ran.said[0])
