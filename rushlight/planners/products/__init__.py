"""Matrix products: by size, type and layout the kernels that multiply, and how operands are packed for them."""
