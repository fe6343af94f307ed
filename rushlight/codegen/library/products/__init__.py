"""Library kernels of matrix products: few rows, moderate sizes, grouped products, and AMX tiles."""
