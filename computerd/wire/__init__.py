"""Turns JSON-RPC text and binary frames into requests and channel data, and back. Holds no I/O."""
