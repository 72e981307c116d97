"""The daemon's configuration: from flags, environment, files and built-in values to one frozen `Config`.

`settings` is the result, `options` the table that everything else derives from, `kinds` turns text and TOML into values,
`sources` reads files safely, `loading` joins them by precedence.
"""

from __future__ import annotations

from computerd.config.errors import ConfigError
from computerd.config.loading import load
from computerd.config.options import OPTIONS, Option
from computerd.config.settings import Agent, Audit, Auth, Config, Journal, Log, Metrics, Sessions, Setting

__all__ = [
    "OPTIONS",
    "Agent",
    "Audit",
    "Auth",
    "Config",
    "ConfigError",
    "Journal",
    "Log",
    "Metrics",
    "Option",
    "Sessions",
    "Setting",
    "load",
]
