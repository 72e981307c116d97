"""Tests of `computerd.api`."""
