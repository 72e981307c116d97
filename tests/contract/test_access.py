"""What is published of who may call what is what the pages of the API say."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import pages, schema
from computerd.contract.access import RULES, Access
from computerd.contract.methods import METHODS
from tests.api.access_table import HTTP_ONLY, LINES, REASONS

DOCUMENT = schema.build()


class Published(SynchronousTestCase):
    """The rows of the methods."""

    def test_scopes_and_reasons(self) -> None:
        for row in DOCUMENT["methods"]:
            name = row["name"]
            lines = [line for line in LINES if line.call == name]
            words = {word for line in lines for word in line.answers.values()}
            expected = {
                "missing_scope": bool(lines[0].scopes),
                "read_only": any(line.read_only for line in lines) and name not in HTTP_ONLY,
                "terminal_owner_only": "terminal_owner_only" in words,
            }
            self.assertEqual((row["scope"],) if row["scope"] else (), lines[0].scopes, name)
            self.assertEqual(row["forbidden"], [reason for reason, asked in expected.items() if asked], name)

    def test_params_that_need_a_scope_more(self) -> None:
        found = {row["name"]: row["paramScopes"] for row in DOCUMENT["methods"] if row["paramScopes"]}
        self.assertEqual(found, {"sessions.attach": {"resume": "sessions:write"}})

    def test_the_reasons_are_explained(self) -> None:
        text = pages.render(DOCUMENT)
        for reason in REASONS:
            self.assertIn(f"| `{reason}` |", text["errors"])
            self.assertIn(f"`{reason}`", text["methods"])


class Table(SynchronousTestCase):
    """The rules."""

    def test_every_access_has_its_rule_and_its_methods(self) -> None:
        self.assertEqual(set(RULES), set(Access))
        self.assertEqual({method.access for method in METHODS}, set(Access))

    def test_whoever_is_told_apart_by_owner_needs_a_scope_first(self) -> None:
        """C5: otherwise anybody could learn whose a session is."""
        for access, rule in RULES.items():
            if rule.owner:
                self.assertIsNotNone(rule.scope, access)
            else:
                self.assertIsNone(rule.stranger, access)
