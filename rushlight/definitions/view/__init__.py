"""Views: other geometries over the same elements."""
