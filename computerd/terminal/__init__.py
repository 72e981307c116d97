"""A terminal's life: opened, output, exited, drained, closing, gone; and which channel belongs to whom."""
