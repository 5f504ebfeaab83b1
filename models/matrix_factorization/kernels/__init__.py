"""Loops over ratings and rows."""
