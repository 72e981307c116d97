"""Carries the API over HTTP and WebSocket: credentials, the limits of a connection, back-pressure, pings."""
