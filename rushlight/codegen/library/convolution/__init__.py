"""Library kernels of convolutions: windows packed and multiplied, Winograd tiles, depthwise rows, single pixels."""
