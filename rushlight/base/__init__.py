"""What everything stands on: errors, settings, names and where they live, shapes and dtypes.
Nothing here knows of ops.

Enters: nothing of ours but the native core and symbols. Leaves: what all other rooms import.
"""
