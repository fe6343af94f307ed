"""PyTorch's inner names of export that programs and backends use: `verifier`."""
