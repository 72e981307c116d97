"""`computerd.config`: precedence, what is refused, and that the page says what the table says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.config import OPTIONS, Config, ConfigError, load, page, sources
from computerd.config.loading import SYSTEM_FILE

ADA, ADA_HOME = 1000, "/home/ada"
OWN_FILE = f"{ADA_HOME}/.config/computerd/config.toml"
KEY = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"


def loaded(
    flags: Mapping[str, str | list[str]] | None = None,
    environ: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    uid: int = 0,
) -> Config:
    """The configuration on a machine with nothing but these files."""

    def read(path: Path, uid: int) -> str:
        try:
            return (files or {})[str(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    return load(
        flags or {},
        environ or {},
        uid,
        read,
        lambda uid: ("root", "/root") if uid == 0 else ("ada", ADA_HOME),
        pid=4711,
    )


class BuiltIn(SynchronousTestCase):
    """What holds when nothing is said."""

    def test_root(self) -> None:
        config = loaded()
        self.assertEqual(config.listen, ("tcp:7390:interface=127.0.0.1",))
        self.assertEqual(config.state_dir, Path("/var/lib/computerd"))
        self.assertEqual(config.workspace_root, Path("/srv/computerd"))
        self.assertEqual(config.local_socket, Path("/run/computerd/local.sock"))
        self.assertEqual(config.agent.user, "agent")
        self.assertEqual(config.notices, ())
        self.assertTrue(config.agent.no_new_privileges)
        self.assertTrue(config.auth.own_key)
        self.assertIsNone(config.file)
        self.assertEqual(config.sessions.idle_suspend, 0)
        self.assertEqual((config.journal.keep_events, config.journal.keep_days), (100_000, 0))
        self.assertEqual(config.audit.keep_days, 365)
        self.assertEqual(config.metrics.serve, "loopback")

    def test_user(self) -> None:
        config = loaded(uid=ADA)
        self.assertEqual(config.listen, ("tcp:7390:interface=127.0.0.1",))
        self.assertEqual(config.state_dir, Path(ADA_HOME, ".local/state/computerd"))
        self.assertEqual(config.workspace_root, Path(ADA_HOME, ".local/share/computerd"))
        self.assertEqual(config.agent.user, "ada")
        self.assertEqual(len(config.notices), 1)
        self.assertIn("nothing isolates", config.notices[0])

    def test_xdg(self) -> None:
        config = loaded(
            environ={"XDG_STATE_HOME": "/s", "XDG_DATA_HOME": "relative", "XDG_RUNTIME_DIR": "/run/user/1000"}, uid=ADA
        )
        self.assertEqual(config.state_dir, Path("/s/computerd"))
        self.assertEqual(config.workspace_root, Path(ADA_HOME, ".local/share/computerd"))
        self.assertEqual(config.local_socket, Path("/run/user/1000/computerd/local.sock"))

    def test_sockets_of_systemd(self) -> None:
        passed = {"LISTEN_FDS": "2", "LISTEN_PID": "4711"}
        self.assertEqual(loaded(environ=passed).listen, ("systemd:domain=INET:index=0", "systemd:domain=INET:index=1"))
        for meant_for_another in ({"LISTEN_FDS": "2", "LISTEN_PID": "1"}, {"LISTEN_FDS": "x", "LISTEN_PID": "4711"}):
            self.assertEqual(loaded(environ=meant_for_another).listen, ("tcp:7390:interface=127.0.0.1",))

    def test_every_built_in_value_can_be_written(self) -> None:
        """What `config show` prints can be put into the file and means the same."""
        for uid in (0, ADA):
            plain = loaded(uid=uid)
            text = "\n".join(f"{s.key} = {s.value}" for s in plain.describe_origins() if s.value != "none")
            again = loaded(files={str(SYSTEM_FILE): text}, uid=uid)
            for one in (
                "listen",
                "state_dir",
                "workspace_root",
                "local_socket",
                "agent",
                "auth",
                "sessions",
                "journal",
                "audit",
                "metrics",
                "log",
                "allowed_hosts",
            ):
                self.assertEqual(getattr(again, one), getattr(plain, one))


class Precedence(SynchronousTestCase):
    """The first that says something wins."""

    def test_flag_then_environment_then_files(self) -> None:
        files = {OWN_FILE: 'state_dir = "/own"', str(SYSTEM_FILE): 'state_dir = "/system"\nworkspace_root = "/w"'}
        environ = {"COMPUTERD_STATE_DIR": "/environment"}
        self.assertEqual(loaded({"state-dir": "/flag"}, environ, files, ADA).state_dir, Path("/flag"))
        self.assertEqual(loaded({}, environ, files, ADA).state_dir, Path("/environment"))
        self.assertEqual(loaded({}, {}, files, ADA).state_dir, Path("/own"))
        self.assertEqual(loaded({}, {}, files, ADA).workspace_root, Path("/w"))
        self.assertEqual(loaded({}, {}, files, ADA).file, Path(OWN_FILE))

    def test_root_reads_the_system_file_only(self) -> None:
        files = {"/root/.config/computerd/config.toml": 'state_dir = "/own"', str(SYSTEM_FILE): 'state_dir = "/system"'}
        self.assertEqual(loaded(files=files).state_dir, Path("/system"))

    def test_named_file_replaces_both(self) -> None:
        files = {"/f": 'state_dir = "/named"', str(SYSTEM_FILE): 'workspace_root = "/w"'}
        for flags, environ in (
            ({"config": "/f"}, {}),
            ({}, {"COMPUTERD_CONFIG": "/f"}),
            ({"config": "/f"}, {"COMPUTERD_CONFIG": "/none"}),
        ):
            config = loaded(flags, environ, files)
            self.assertEqual((config.state_dir, config.workspace_root), (Path("/named"), Path("/srv/computerd")))
            self.assertEqual(config.file, Path("/f"))

    def test_value_from_a_file(self) -> None:
        config = loaded(environ={"COMPUTERD_AGENT_USER_FILE": "/secret"}, files={"/secret": "bob\n"})
        self.assertEqual(config.agent.user, "bob")

    def test_credential_of_systemd(self) -> None:
        files = {"/c/computerd.auth.public_key": KEY, str(SYSTEM_FILE): '[auth]\npublic_key = "/k"'}
        self.assertEqual(
            loaded(environ={"CREDENTIALS_DIRECTORY": "/c"}, files=files).auth.public_key, KEY.removesuffix("\n")
        )
        self.assertEqual(loaded(environ={"CREDENTIALS_DIRECTORY": "/d"}, files=files).auth.public_key_file, Path("/k"))

    def test_repeated_flag(self) -> None:
        self.assertEqual(loaded({"listen": ["tcp:1", "unix:/a b", "tcp:1"]}).listen, ("tcp:1", "unix:/a b"))
        self.assertEqual(loaded({"listen": []}, {"COMPUTERD_LISTEN": "tcp:2 tcp:3"}).listen, ("tcp:2", "tcp:3"))

    def test_origins(self) -> None:
        config = loaded(
            {"state-dir": "/x"}, {"COMPUTERD_LOG_FORMAT": "json"}, {str(SYSTEM_FILE): "[agent]\ncpu_weight = 7"}
        )
        origins = {setting.key: (setting.value, setting.origin) for setting in config.describe_origins()}
        self.assertEqual(origins["state_dir"], ('"/x"', "flag --state-dir"))
        self.assertEqual(origins["log.format"], ('"json"', "environment COMPUTERD_LOG_FORMAT"))
        self.assertEqual(origins["agent.cpu_weight"], ("7", str(SYSTEM_FILE)))
        self.assertEqual(origins["agent.lang"], ('"C.UTF-8"', "built in"))
        self.assertEqual(list(origins), [option.key for option in OPTIONS])

    def test_empty_but_set_counts(self) -> None:
        files = {str(SYSTEM_FILE): 'allowed_hosts = ["a"]'}
        self.assertEqual(loaded(environ={"COMPUTERD_ALLOWED_HOSTS": ""}, files=files).allowed_hosts, ())
        with self.assertRaises(ConfigError):
            loaded(environ={"COMPUTERD_STATE_DIR": ""})


class Refused(SynchronousTestCase):
    """One line, that names the place, the key and what is allowed."""

    def refused(self, *parts: str, **given_: object) -> str:
        error = self.assertRaises(ConfigError, loaded, **given_)
        text = str(error)
        self.assertNotIn("\n", text)
        for part in parts:
            self.assertIn(part, text)
        return text

    def in_file(self, text: str, *parts: str) -> None:
        self.refused(str(SYSTEM_FILE), *parts, files={str(SYSTEM_FILE): text})

    def test_unknown_key(self) -> None:
        self.in_file("[agent]\numaks = 1", "agent.umaks", "did you mean agent.umask?")
        self.in_file("stat_dir = 1", "stat_dir", "did you mean state_dir?")
        self.in_file("[agent.users.alice]\nuser = 1", "agent.users")
        self.in_file("[agnet]\nuser = 'x'", "agnet.user")

    def test_wrong_types(self) -> None:
        for line, allowed in (
            ("listen = 'tcp:1'", "array"),
            ("listen = []", "endpoints"),
            ("listen = [1]", "endpoints"),
            ("state_dir = 7", "absolute path"),
            ("state_dir = 'relative'", "absolute path"),
            ("agent.umask = 18", "octal"),
            ("agent.umask = '089'", "octal"),
            ("agent.shared = 'true'", "true or false"),
            ("agent.shared = 1", "true or false"),
            ("agent.nofile_soft = true", "integer from 64"),
            ("agent.nofile_soft = 1.5", "integer from 64"),
            ("agent.nofile_soft = 63", "integer from 64"),
            ("agent.processes = 'many'", "unlimited"),
            ("agent.memory = '2X'", "bytes"),
            ("agent.memory = '1K'", "bytes"),
            ("agent.memory = true", "bytes"),
            ("agent.user = '--help'", "Unix user"),
            ("agent.user = 'a b'", "Unix user"),
            ("agent.users = ['a']", "table"),
            ("agent.users = {a = 1}", "table"),
            ("agent.users = {a = '0'}", "table"),
            ("agent.path = 'bin:/bin'", "absolute folders"),
            ('agent.lang = "C\\nLD_PRELOAD=x"', "locale"),
            ("allowed_origins = ['*']", "origins"),
            ("allowed_origins = ['null']", "origins"),
            ("allowed_origins = ['https://a/']", "origins"),
            ("log.format = 'xml'", '"text" or "json"'),
            ("sessions.idle_suspend = -1", "integer from 0"),
            ("sessions.idle_suspend = '1h'", "integer from 0"),
            ("journal.keep_events = 999", "integer from 1000"),
            ("journal.keep_events = 0", "integer from 1000"),
            ("journal.keep_days = -1", "integer from 0"),
            ("audit.keep_days = 1.5", "integer from 0"),
            ("metrics.serve = 'public'", '"loopback" or "everywhere" or "off"'),
            ("metrics.serve = true", '"loopback"'),
            ("auth.public_key = 'relative.pem'", "PEM"),
        ):
            self.in_file(line, line.split(" ")[0], "must be", allowed)

    def test_variable_and_flag(self) -> None:
        self.refused("COMPUTERD_AGENT_UMASK", "octal", "'9'", environ={"COMPUTERD_AGENT_UMASK": "9"})
        self.refused("--listen", "endpoints", flags={"listen": ["nonsense"]})
        self.refused("COMPUTERD_AGENT_USERS", environ={"COMPUTERD_AGENT_USERS": "alice"})
        self.refused("COMPUTERD_AGENT_USERS", environ={"COMPUTERD_AGENT_USERS": "alice=a,alice=b"})

    def test_both_forms(self) -> None:
        environ = {"COMPUTERD_STATE_DIR": "/a", "COMPUTERD_STATE_DIR_FILE": "/b"}
        self.refused("COMPUTERD_STATE_DIR and COMPUTERD_STATE_DIR_FILE", environ=environ)

    def test_value_file_missing(self) -> None:
        self.refused("COMPUTERD_AGENT_USER_FILE", "/none", environ={"COMPUTERD_AGENT_USER_FILE": "/none"})
        self.refused("COMPUTERD_AGENT_USER_FILE", environ={"COMPUTERD_AGENT_USER_FILE": ""})

    def test_named_file_missing(self) -> None:
        self.refused("/none", "is not there", flags={"config": "/none"})
        self.refused("COMPUTERD_CONFIG", environ={"COMPUTERD_CONFIG": ""})

    def test_no_toml(self) -> None:
        self.in_file("state_dir =\n", "is not TOML", "line 1")
        self.in_file("a = " + "[" * 100_000, "is not TOML")

    def test_limits_out_of_order(self) -> None:
        self.in_file("[agent]\nnofile_soft = 20000", "nofile_soft", "nofile_hard", "16384")

    def test_control_characters_do_not_reach_the_terminal(self) -> None:
        text = self.refused(environ={"COMPUTERD_LOG_FORMAT": "\x1b]0;x\x07\n\u2028"})
        self.assertTrue(text.isprintable())


class Users(SynchronousTestCase):
    """As whom terminals may run."""

    def test_two_owners_on_one_user(self) -> None:
        for users in ('{a = "x", b = "x"}', '{a = "agent"}'):
            files = {str(SYSTEM_FILE): f"[agent]\nusers = {users}"}
            self.assertIn("agent.shared = true", str(self.assertRaises(ConfigError, loaded, files=files)))
            config = loaded(files={str(SYSTEM_FILE): f"[agent]\nshared = true\nusers = {users}"})
            self.assertEqual(len(config.notices), 1)
            self.assertIn("share the Unix user", config.notices[0])

    def test_an_owner_each(self) -> None:
        config = loaded(environ={"COMPUTERD_AGENT_USERS": "alice=agent-alice, bob=agent-bob"})
        self.assertEqual(config.agent.users, {"alice": "agent-alice", "bob": "agent-bob"})
        self.assertEqual(config.notices, ())

    def test_not_root_is_always_the_caller(self) -> None:
        self.assertEqual(loaded({"agent-user": "ada"}, uid=ADA).agent.user, "ada")
        for given_ in (
            {"flags": {"agent-user": "bob"}},
            {"environ": {"COMPUTERD_AGENT_USER": "bob"}},
            {"files": {OWN_FILE: '[agent]\nuser = "bob"'}},
            {"files": {OWN_FILE: '[agent.users]\nalice = "bob"'}},
        ):
            self.assertIn("only root", str(self.assertRaises(ConfigError, loaded, uid=ADA, **given_)))

    def test_the_host_s_own_file_is_not_meant_for_the_caller(self) -> None:
        config = loaded(files={str(SYSTEM_FILE): '[agent]\nuser = "agent"\nusers = {a = "x"}'}, uid=ADA)
        self.assertEqual((config.agent.user, config.agent.users), ("ada", {}))


class Values(SynchronousTestCase):
    """What the rest of the daemon gets."""

    def test_public_key(self) -> None:
        self.assertEqual(loaded(environ={"COMPUTERD_AUTH_PUBLIC_KEY": KEY}).auth.public_key, KEY)
        for environ in ({"COMPUTERD_AUTH_PUBLIC_KEY": "/k.pub"}, {"COMPUTERD_AUTH_PUBLIC_KEY_FILE": "/k.pub"}):
            auth = loaded(environ=environ).auth  # it need not be there yet
            self.assertEqual((auth.public_key, auth.public_key_file, auth.own_key), (None, Path("/k.pub"), False))

    def test_sizes(self) -> None:
        for text, value in (('"2G"', 2 << 30), ("33554432", 1 << 25), ('"unlimited"', None)):
            self.assertEqual(loaded(files={str(SYSTEM_FILE): f"agent.memory = {text}"}).agent.memory, value)

    def test_what_is_kept_and_for_how_long(self) -> None:
        text = """
            sessions.idle_suspend = 3600
            metrics.serve = "off"
            audit.keep_days = 0
            [journal]
            keep_events = 1000
            keep_days = 30
        """
        by_file = loaded(files={str(SYSTEM_FILE): text})
        by_variable = loaded(
            environ={
                "COMPUTERD_SESSIONS_IDLE_SUSPEND": "3600",
                "COMPUTERD_JOURNAL_KEEP_EVENTS": "1000",
                "COMPUTERD_JOURNAL_KEEP_DAYS": "30",
                "COMPUTERD_AUDIT_KEEP_DAYS": "0",
                "COMPUTERD_METRICS_SERVE": "off",
            }
        )
        for config in (by_file, by_variable):
            self.assertEqual(config.sessions.idle_suspend, 3600)
            self.assertEqual((config.journal.keep_events, config.journal.keep_days), (1000, 30))
            self.assertEqual((config.audit.keep_days, config.metrics.serve), (0, "off"))

    def test_relative_path_in_a_flag(self) -> None:
        self.assertEqual(loaded({"state-dir": "here"}).state_dir, Path("here").absolute())

    def test_unknown_variable_is_noted(self) -> None:
        config = loaded(environ={"COMPUTERD_STATEDIR": "/x"})
        self.assertEqual(len(config.notices), 1)
        self.assertIn("COMPUTERD_STATE_DIR?", config.notices[0])

    @given(st.dictionaries(st.sampled_from([option.variable for option in OPTIONS]), st.text(max_size=40)))
    def test_any_environment(self, environ: dict[str, str]) -> None:
        """It is taken, or refused in one printable line."""
        try:
            loaded(environ=environ)
        except ConfigError as error:
            self.assertTrue(str(error).isprintable())

    @given(st.text(max_size=200))
    def test_any_file(self, text: str) -> None:
        try:
            loaded(files={str(SYSTEM_FILE): text})
        except ConfigError as error:
            self.assertTrue(str(error).isprintable())


class Reading(SynchronousTestCase):
    """`sources.read`: what root takes orders from."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.folder.chmod, 0o700)
        self.file = self.folder / "config.toml"
        self.file.write_text("a = 1")
        self.file.chmod(0o644)

    def refused(self, part: str, uid: int) -> None:
        self.assertIn(part, str(self.assertRaises(ConfigError, sources.read, self.file, uid)))

    def test_good(self) -> None:
        self.assertEqual(sources.read(self.file, os.getuid()), "a = 1")

    def test_missing(self) -> None:
        self.assertRaises(FileNotFoundError, sources.read, self.folder / "none", 0)

    def test_what_is_no_file(self) -> None:
        self.file.unlink()
        os.mkfifo(self.file)
        self.refused("regular file", os.getuid())

    def test_not_text(self) -> None:
        self.file.write_bytes(b"\xff")
        self.refused("UTF-8", os.getuid())

    def test_too_large(self) -> None:
        self.file.write_bytes(b"#" * (sources.MAX_BYTES + 1))
        self.refused("bytes at most", os.getuid())

    def test_writable_by_others(self) -> None:
        self._as_root()
        for mode in (0o666, 0o664):
            self.file.chmod(mode)
            self.refused(f"chmod go-w {self.file}", 0)

    def test_folder_writable_by_others(self) -> None:
        self._as_root()
        self.folder.chmod(0o777)
        self.refused(f"{self.folder}: must not be writable", 0)

    def test_somebody_else_s(self) -> None:
        self._as_root()
        os.chown(self.file, 12345, -1)
        self.refused("must belong to root, not to uid 12345", 0)

    def test_link_into_somebody_else_s_folder(self) -> None:
        self._as_root()
        other = Path(tempfile.mkdtemp())
        self.addCleanup(other.rmdir)
        os.chown(other, 12345, -1)
        os.rename(self.file, other / "c")
        self.addCleanup((other / "c").unlink)
        self.file.symlink_to(other / "c")
        self.refused(f"{other}: must belong to root", 0)

    def _as_root(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("only root can make files of others, or files that root trusts")


class Page(SynchronousTestCase):
    """docs/configuration.md."""

    def test_is_as_it_would_be_written_now(self) -> None:
        self.assertEqual(page.PAGE.read_text(encoding="utf-8"), page.page(), "run: python -m computerd.config.page")

    def test_names_every_option(self) -> None:
        text = page.page()
        for option in OPTIONS:
            self.assertIn(f"### `{option.key}`\n", text)
            self.assertIn(f"`{option.variable}`", text)
