"""Named functions as expansions in primitives: polynomials, tables and series, so that they vectorise on every
target."""
