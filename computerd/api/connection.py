"""What the API knows of one WebSocket connection: who calls on it, and which terminals it owns."""

from __future__ import annotations

from attrs import define, field

from computerd.api.caller import Caller
from computerd.terminal.channels import Channels
from computerd.terminal.outbox import Outbox


@define(eq=False)
class Connection:
    """One connection. `net` makes it when the upgrade is done and calls `gone` once when it ends.

    Attributes:
        id: `cn_…`.
        caller: Whose credential it presented.
        outbox: What it sends.
        channels: The terminals that were opened on it, and only those. `channels.input(channel, data)` is the hot path.
    """

    id: str
    caller: Caller
    outbox: Outbox
    channels: Channels = field(factory=Channels)

    def gone(self) -> None:
        """The connection has ended: so do its terminals."""
        self.channels.close_all()
