"""Loops over nonzeros and rows, in registers."""
