from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from computerd.opc import address, credentials, settings
from computerd.opc.failure import Failure
from computerd.opc.settings import File, Setting

USER = "/home/me/.config/opc/config.toml"
HOST = "/etc/opc/config.toml"


def resolve(
    flags: dict[str, str | None] | None = None,
    env: dict[str, str] | None = None,
    user: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
) -> settings.Settings:
    files = [File(path, table) for path, table in ((USER, user), (HOST, host)) if table is not None]
    return settings.resolve(flags or {}, env or {}, files, lambda path: f"<{path}>\n".encode())


class SettingsTests(SynchronousTestCase):
    def refused(self, *words: str, **sources: Any) -> None:
        failure = self.assertRaises(Failure, resolve, **sources)
        for word in words:
            self.assertIn(word, failure.message)

    def test_built_in(self) -> None:
        found = resolve()
        self.assertEqual((found.url, found.token, found.host), (None, None, None))
        self.assertEqual(found.escape, Setting("~", "built in"))

    def test_precedence(self) -> None:
        sources: dict[str, Any] = {
            "flags": {"url": "1", "escape": "1", "color": "always"},
            "env": {"OPC_URL": "2", "OPC_ESCAPE": "2", "OPC_COLOR": "never"},
            "user": {"url": "3", "escape": "3", "color": "auto"},
            "host": {"url": "4", "escape": "4", "color": "never"},
        }
        for source, value, origin in (
            ("flags", "1", "--"),
            ("env", "2", "OPC_"),
            ("user", "3", USER),
            ("host", "4", HOST),
        ):
            found = resolve(**sources)
            assert found.url is not None
            self.assertEqual((found.url.value, found.escape.value), (value, value))
            self.assertTrue(found.url.origin.startswith(origin))
            del sources[source]

    def test_two_forms_of_one(self) -> None:
        for name in ("OPC_TOKEN", "OPC_URL", "OPC_ESCAPE"):
            self.refused(name, f"{name}_FILE", env={name: "x", f"{name}_FILE": "y"})
        self.refused("--host", "--url", flags={"url": "x", "host": "y"}, user={"hosts": {"y": {"url": "z"}}})
        self.refused("OPC_HOST", "OPC_URL", env={"OPC_URL": "x", "OPC_HOST": "y"})

    def test_empty_counts_as_set(self) -> None:
        found = resolve(env={"OPC_URL": ""}, user={"url": "wss://x"})
        self.assertEqual(found.url, Setting("", "OPC_URL"))
        self.refused("OPC_TOKEN holds no token", env={"OPC_TOKEN": ""})

    def test_a_token_goes_only_where_it_belongs(self) -> None:
        user = {"url": "wss://home", "token_file": "token"}
        self.assertEqual(
            resolve(user=user).token, Setting("</home/me/.config/opc/token>", "/home/me/.config/opc/token")
        )
        self.assertIsNone(resolve(flags={"url": "wss://evil"}, user=user).token)
        self.assertIsNone(resolve(env={"OPC_URL": "wss://evil"}, user=user).token)
        self.assertIsNone(resolve(user={"url": "wss://evil"}, host={"url": "wss://home", "token_file": "/t"}).token)
        found = resolve(flags={"url": "wss://x", "token_file": "/f"}, env={"OPC_TOKEN": "e"}, user=user)
        self.assertEqual(found.token, Setting("</f>", "--token-file"))
        self.assertEqual(resolve(env={"OPC_TOKEN_FILE": "/e"}).token, Setting("</e>", "OPC_TOKEN_FILE"))

    def test_profiles(self) -> None:
        user = {
            "host": "work",
            "hosts": {"work": {"url": "wss://work", "token_file": "/w"}, "lab": {"url": "wss://lab"}},
        }
        found = resolve(user=user)
        assert found.url is not None and found.token is not None and found.host is not None
        self.assertEqual((found.host.value, found.url.value, found.token.value), ("work", "wss://work", "</w>"))
        found = resolve(flags={"host": "lab"}, env={"OPC_URL": "wss://other"}, user=user)
        assert found.url is not None
        self.assertEqual((found.url.value, found.token), ("wss://lab", None))
        self.refused("nowhere", "lab, work", env={"OPC_HOST": "nowhere"}, user=user)

    def test_unusable_values(self) -> None:
        self.refused("OPC_COLOR", "auto, always, never", env={"OPC_COLOR": "pink"})
        self.refused(USER, "escape", user={"escape": "~~"})
        self.refused("--escape", flags={"escape": "é"})


class FileTests(SynchronousTestCase):
    def file(self, text: str, mode: int = 0o600) -> str:
        path = Path(self.mktemp())
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def test_what_a_configuration_may_not_hold(self) -> None:
        for text, words in (
            ("urll = 'x'", "did you mean url?"),
            ("whatever = 1", "allowed are color, escape, host, hosts"),
            ("url = 1", "url: must be text"),
            ("token = 'x'", "name it in token_file"),
            ("hosts = 1", "must be tables"),
            ("[hosts.a]\nescape = 'x'", "hosts.a.escape: there is no such setting"),
            ("[hosts]\na = 1", "hosts.a: must be a table"),
            ("= broken", "is not TOML"),
        ):
            path = self.file(text)
            failure = self.assertRaises(Failure, settings.read, path)
            self.assertIn(path, failure.message)
            self.assertIn(words, failure.message)
        self.assertIsNone(settings.read("/nonexistent/config.toml"))

    def test_a_secret_that_others_may_read(self) -> None:
        for mode in (0o640, 0o604, 0o620, 0o601):
            failure = self.assertRaises(Failure, credentials.read_private, self.file("x", mode))
            self.assertIn("chmod 600", failure.message)
        self.assertEqual(credentials.read_private(self.file("x", 0o400)), b"x")
        self.assertRaises(Failure, credentials.read_private, "/nonexistent/token")

    def test_what_is_no_token(self) -> None:
        self.assertEqual(credentials.token(b" a.b.c\n", "x"), "a.b.c")
        for text in ("", " \n", "a b", "a\r\nX-Evil: 1", "é", "x" * 9000):
            self.assertRaises(Failure, credentials.token, text, "x")


class AddressTests(SynchronousTestCase):
    def test_addresses(self) -> None:
        for url, plain, header, exposed in (
            ("ws://127.0.0.1:7390", "ws://127.0.0.1:7390", "127.0.0.1:7390", False),
            ("http://localhost/connect", "ws://localhost", "localhost", False),
            ("wss://Host.example/", "wss://host.example", "host.example", False),
            ("https://host.example:8443/box/connect", "wss://host.example:8443/box", "host.example:8443", False),
            ("ws://[::1]:1", "ws://[::1]:1", "[::1]:1", False),
            ("ws://10.0.0.1", "ws://10.0.0.1", "10.0.0.1", True),
            ("ws://127.evil.example", "ws://127.evil.example", "127.evil.example", True),
            ("unix:/run/x.sock", "unix:/run/x.sock", "localhost", False),
            ("unix:///run/x.sock", "unix:/run/x.sock", "localhost", False),
        ):
            found = address.parse(url)
            self.assertEqual((found.url, found.host_header, found.exposed), (plain, header, exposed), url)

    def test_what_is_no_address(self) -> None:
        for url in (
            "",
            "host",
            "ftp://x",
            "ws://",
            "ws://x:99999",
            "ws://x/\r\nEvil: 1",
            "ws://x y",
            "unix:relative",
            "ws://x/?a=b",
            "ws://x/gruß",
        ):
            self.assertRaises(Failure, address.parse, url)
        failure = self.assertRaises(Failure, address.parse, "wss://user:secret@host")
        self.assertNotIn("secret", failure.message)
