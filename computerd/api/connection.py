"""What the API knows of one WebSocket connection: who calls on it, which terminals it owns, which sessions it follows."""

from __future__ import annotations

from attrs import define, field
from twisted.logger import Logger

from computerd.api.attachments import Attachments
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
        attachments: The sessions that it follows.
        channels: The terminals that were opened on it, and only those. `channels.input(channel, data)` is the hot path.
    """

    id: str
    caller: Caller
    outbox: Outbox
    channels: Channels = field(factory=Channels)
    attachments: Attachments = field(factory=Attachments)
    _log = Logger()

    def gone(self) -> None:
        """The connection has ended: so do its terminals, and nothing is followed on it any more.

        What it sent in vain is said once, for whoever looks for lost input.
        """
        self.attachments.close()
        self.channels.close_all()
        if self.channels.strays or self.channels.dropped:
            self._log.info(
                "{connection} has ended; not delivered: {frames} frames for channels that were not open, {bytes} bytes of input over the limit",
                connection=self.id,
                frames=self.channels.strays,
                bytes=self.channels.dropped,
            )
