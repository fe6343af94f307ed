"""dtypes."""
