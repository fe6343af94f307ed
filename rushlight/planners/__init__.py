"""Planners: from the sizes and types of a call to the steps of its plan, where more than one way leads there.

Enters: what a definition knows of a call (sizes, strides, types, device). Leaves: steps for `op.pack`: which kernels,
over which pieces, with which scratch memory. One room for each family whose kernels are chosen: products, convolutions,
Fourier transforms, order (sorting and selecting) and factors of matrices. Refuses to know ops: definitions call
planners.
"""
