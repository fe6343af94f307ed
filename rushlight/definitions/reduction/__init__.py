"""The reduction definitions, by family."""
