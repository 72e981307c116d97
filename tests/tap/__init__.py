"""Tests of `computerd.tap`."""
