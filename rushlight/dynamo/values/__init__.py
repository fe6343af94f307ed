"""Objects and where they come from: sources, guards, and what a program sees of values it did not make."""
