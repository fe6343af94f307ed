"""Sequences: recurrent networks, and tables of vectors."""
