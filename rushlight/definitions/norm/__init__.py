"""Normalisation over rows, channels, groups and segments."""
