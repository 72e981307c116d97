"""What the daemon's own text must not hold (C11, D18, T4 of the threat model)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import computerd

_ROOT = Path(computerd.__file__).parent
_SECRET = re.compile(r"token$|secret|nonce|signature|password|digest|private|bearer", re.I)
"""Names of what nobody may guess byte by byte."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the daemon and its clients, parsed."""
    for path in sorted(_ROOT.rglob("*.py")):
        yield str(path.relative_to(_ROOT)), ast.parse(path.read_text())


def _name(node: ast.expr) -> str:
    """The last word of what is compared: `x.token`, `token`, `token()`."""
    while isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def compared(tree: ast.Module) -> list[str]:
    """Names of secrets that are compared with `==` or `!=`, but for constants, which are no secrets."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
            sides = [node.left, *node.comparators]
            if not any(isinstance(side, ast.Constant) for side in sides):
                found += [_name(side) for side in sides if _SECRET.search(_name(side))]
    return found


class Sources(SynchronousTestCase):
    def test_no_secret_is_compared_with_an_operator(self) -> None:
        """C11: `==` ends at the first byte that differs, and that can be measured. `hmac.compare_digest` doesn't."""
        self.assertEqual([f"{name}: {word}" for name, tree in modules() for word in compared(tree)], [])

    def test_such_a_comparison_would_be_found(self) -> None:
        for text in (
            "given.token == self._token",
            "if nonce != data[:32]: pass",
            "x = [s for s in y if s == secret()]",
        ):
            self.assertTrue(compared(ast.parse(text)), text)
        for text in ("token == ''", "len(token) > 5", "tokens.count == 5", "compare_digest(a, token)"):
            self.assertFalse(compared(ast.parse(text)), text)

    def test_chance_comes_from_the_system(self) -> None:
        """T4: ids and nonces are made of `os.urandom`, that is handed in; the generator that can be foretold is nowhere imported."""
        found = []
        for name, tree in modules():
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    found += [f"{name}: {alias.name}" for alias in node.names if alias.name.split(".")[0] == "random"]
                elif isinstance(node, ast.ImportFrom) and node.module == "random":
                    found.append(f"{name}: random")
        self.assertEqual(found, [])

    def test_no_signal_at_the_parents_death(self) -> None:
        """D18: the kernel forgets PR_SET_PDEATHSIG when a process changes its user, so nothing may lean on it."""
        launchers = [path for path in (_ROOT / "host").iterdir() if path.suffix in (".py", ".pl")]
        self.assertTrue(any(path.suffix == ".pl" for path in launchers))
        for path in launchers:
            self.assertNotRegex(path.read_text(), r"(?i)pdeathsig", str(path))
