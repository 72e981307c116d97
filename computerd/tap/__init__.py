"""`twistd computerd`: where the edges are joined to the core."""

from __future__ import annotations

from computerd.tap.options import Options
from computerd.tap.service import makeService

__all__ = ["Options", "makeService"]
