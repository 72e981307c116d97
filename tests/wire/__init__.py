"""Tests of `computerd.wire`."""
