"""Passes for particular dialects of graphs."""
