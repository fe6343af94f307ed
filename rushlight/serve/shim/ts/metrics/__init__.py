"""What handlers count: dimensions, kinds of metrics, and the store that a context has."""
