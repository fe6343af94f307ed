"""The machine that executes bytecode symbolically, and what puts objects and effects back afterwards."""
