"""Tests of `computerd.journal`."""
