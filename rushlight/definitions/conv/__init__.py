"""Convolutions of one to three dims, transposed ones, their gradients and public forms."""
