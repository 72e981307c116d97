"""Tests of `computerd.terminal`."""
