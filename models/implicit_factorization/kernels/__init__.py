"""Loops over the events of a row."""
