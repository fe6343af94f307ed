"""Passes over graphs: shapes, splitting, partitioning, drawing, matching, common subexpressions."""
