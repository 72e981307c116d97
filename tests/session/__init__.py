"""Tests of `computerd.session`."""
