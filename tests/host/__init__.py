"""Tests of the room `host`."""
