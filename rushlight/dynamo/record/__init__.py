"""The graph being written: the recorder, what breaks it, sizes and numbers it hides, and what is noted beside it."""
