"""From Python's syntax to the typed intermediate form."""
