"""`ts.utils`: see util.py."""
