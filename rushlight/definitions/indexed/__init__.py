"""The indexed definitions, by family."""
