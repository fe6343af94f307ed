"""PyTorch's passes of the inductor over graphs, as far as programs add to them: `freezing_patterns`."""
