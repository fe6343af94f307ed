"""Rushlight: the PyTorch system, Python-first. Public names only; no logic lives here."""
