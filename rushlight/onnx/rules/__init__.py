"""What ONNX nodes each op becomes: `RULES`, from the names of definitions to functions.

A rule gets the builder and the op's arguments by their names in its schema: tensors as `Value`s, sizes as numbers or
`Size`s, everything else as it is. It returns a value, or a tuple where the op has several results. Types and shapes of
results are settled afterwards from what tracing saw (`g.result`). Pointwise ops have no rules: see `elements.py`.
"""

from __future__ import annotations

from . import (
    activations,
    complexes,
    convolutions,
    creation,
    indexing,
    norms,
    operators,
    ordering,
    products,
    quantization,
    randomness,
    recurrent,
    reductions,
    resampling,
    selection,
    shapes,
    windows,
)
from .complexes import COMPLEX, complex_call
from .table import RULES

# Ops that draw random numbers (dropout: where it is on).
RANDOM = frozenset(
    "rand rand_like randn randn_like native_dropout dropout bernoulli randint randint_like randperm uniform normal "
    "log_normal cauchy exponential geometric multinomial _rrelu_with_noise feature_dropout alpha_dropout "
    "feature_alpha_dropout".split()
)

__all__ = ["COMPLEX", "RANDOM", "RULES", "complex_call"]
