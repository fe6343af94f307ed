"""PyTorch's inner names of `library` that programs use: `infer_schema`, `effects`."""
