"""Images sampled at other places: sizes, and grids of coordinates."""
