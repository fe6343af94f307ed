"""Modules that exist because PyTorch has the names in them."""
