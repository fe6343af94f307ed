"""Sparsifiers of the weights of a model."""
