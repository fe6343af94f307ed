"""Factors of matrices: reflections, panels, triangles and small matrices by generated kernels, the rest by LAPACK."""
