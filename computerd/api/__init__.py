"""The front door: one short function for each method: may this caller, then the work, then the result."""
