"""Tests of `computerd.net`."""
