"""Tests of computerctl."""
