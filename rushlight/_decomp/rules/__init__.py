"""Decompositions that no definition has, by family."""
