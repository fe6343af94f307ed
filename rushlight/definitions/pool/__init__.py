"""Pools over images, by family."""
