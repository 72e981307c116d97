"""Tests of `computerd.opc`."""
