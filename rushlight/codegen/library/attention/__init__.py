"""Library kernels of attention on AMX tiles, forward and backward."""
