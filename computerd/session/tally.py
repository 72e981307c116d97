"""What has happened to those who follow sessions since the start: plain numbers, for whoever makes metrics of them."""

from __future__ import annotations

from attrs import define, field


@define(eq=False)
class Tally:
    """Counts over all connections and members.

    Attributes:
        attached: Attached sessions now, once for each connection.
        delivered: Events that were given to attached connections.
        detached: Attachments that have ended, by reason: few words that the server chooses.
        waiting: Requests that wait for news now.
        refused: Waits that were refused because their member had too many.
    """

    attached: int = 0
    delivered: int = 0
    detached: dict[str, int] = field(factory=dict)
    waiting: int = 0
    refused: int = 0
