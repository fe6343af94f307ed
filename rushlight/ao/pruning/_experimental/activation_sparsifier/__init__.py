"""Activations masked while they are computed."""
