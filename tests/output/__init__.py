"""Tests of the output station."""
