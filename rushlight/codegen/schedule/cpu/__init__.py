"""Schedules for CPUs: nests whose iterations threads share, in vectors, and tiles of products and of attention."""
