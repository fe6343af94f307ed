"""Fourier transforms, whole and short-time, and window functions."""
