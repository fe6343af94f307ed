"""Speed of Rushlight against PyTorch, from one source per case. `python -m benchmarks --help`."""
