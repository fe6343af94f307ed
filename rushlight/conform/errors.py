"""errors."""
