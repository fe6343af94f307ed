"""Changes of graphs that keep what they compute."""
