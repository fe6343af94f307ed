"""Rules by family: what the operators of each version are, as functions of tensors.

Enters: tensors (and numbers, where sizes and axes are asked for), an operator's attributes by keyword. Leaves: tensors.
A rule decides by ranks, types and attributes, not by what elements are, so that it can be traced.
"""

from . import (  # noqa: F401
    attention,
    casting,
    convolutions,
    elementwise,
    indexing,
    learned,
    microsoft,
    norms,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    resampling,
    sequences,
    shapes,
    signals,
    text,
    training,
)
