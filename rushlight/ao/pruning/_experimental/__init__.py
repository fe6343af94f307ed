"""What PyTorch keeps experimental: sparsifiers of data and activations, pruners of whole channels."""
