"""Fourier transforms: a length into factors, their passes, and tables of roots of unity."""
