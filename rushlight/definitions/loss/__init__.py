"""Losses: of elements, classes, pairs and sequences, with their reductions."""
