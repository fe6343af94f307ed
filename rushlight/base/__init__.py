"""What everything stands on: errors, settings, names and where they live, shapes and dtypes.
Nothing here knows of ops."""
