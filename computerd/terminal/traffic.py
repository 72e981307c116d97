"""What has gone through terminals since the start, all of them together: plain numbers, because they are counted for each key and each frame."""

from __future__ import annotations

from attrs import define


@define(eq=False)
class Traffic:
    """Counts. Whoever reads them, now and then, makes metrics of them.

    Attributes:
        opened: Terminals that were opened, and whose opener was told so.
        open: Of these, those whose process is not gone.
        input_bytes: That programs were given.
        output_bytes: That programs have written, and that were given to an outbox.
        dropped_bytes: Of input that was over a terminal's limit.
        stray_frames: Input for channels that were not, or no longer, there.
        refused: Requests that were answered with `rate_limited` because input before them was dropped.
    """

    opened: int = 0
    open: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    dropped_bytes: int = 0
    stray_frames: int = 0
    refused: int = 0
