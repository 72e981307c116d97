"""`twistd computerd`: where the edges are joined to the core."""

from __future__ import annotations

from computerd.tap.making import makeService
from computerd.tap.options import Options

__all__ = ["Options", "makeService"]
