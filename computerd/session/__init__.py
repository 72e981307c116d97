"""Sessions, derived from their events; and the port to the journal that keeps those events."""
