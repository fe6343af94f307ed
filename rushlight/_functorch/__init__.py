"""`torch._functorch`: where PyTorch keeps AOTAutograd's names. What they do is in `rushlight.aot`."""
