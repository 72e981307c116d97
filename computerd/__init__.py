"""computerd: terminals and sessions for AI agents and people, served over WebSocket.

The rooms, from the bottom: `contract`, `wire`, `terminal`, `session`, `workspace` and `agent`, `api` and
`openterminal` are the core; `net`, `host`, `journal` and `opc` are the edges; `tap`, `config` and `ctl` join them.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"
