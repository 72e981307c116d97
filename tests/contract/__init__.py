"""Tests of `computerd.contract`."""
