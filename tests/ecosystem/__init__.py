"""Third-party libraries, unmodified, on Rushlight and on PyTorch: the same programs must give the same numbers."""
