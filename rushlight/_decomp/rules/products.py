"""Decompositions that no definition has: products with a bias, activations as arithmetic.

Enters: nothing. Leaves: `RULES`, from the names of ops to functions; each is for the op's first overload.
"""

from __future__ import annotations

import math
from typing import Any

from ...op import find_op
from .pointwise import addcdiv, addcmul


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    product = input @ weight.t()
    return product if bias is None else product + bias


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = mat1 @ mat2
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (input if beta == 1 else input * beta)


def gelu(input: Any, approximate: str = "none", *, _root: float = math.sqrt(2 / math.pi)) -> Any:
    if approximate == "tanh":
        return 0.5 * input * (1 + (_root * (input + 0.044715 * input * input * input)).tanh())
    return input * 0.5 * (1 + (input * math.sqrt(0.5)).erf())


def silu(input: Any) -> Any:
    return input * input.sigmoid()


def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    return find_op("where")(input > 0, input, input * negative_slope)


RULES = {rule.__name__: rule for rule in (linear, addmm, gelu, silu, leaky_relu, addcmul, addcdiv)}
