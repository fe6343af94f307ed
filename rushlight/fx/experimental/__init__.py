"""fx names of PyTorch that may change there: tracing through the dispatcher, symbolic shapes."""
