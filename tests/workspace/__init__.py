"""Tests of `computerd.workspace`."""
