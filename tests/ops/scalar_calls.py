"""Calls with a number in them, and the numbers just inside and just outside of each dtype: what the sweeps share.

Enters: PyTorch or Rushlight as `T`. Leaves: for a call, a dtype and a number, what came of it: the result as text, or
the class of the exception. In a call `x` is [0, 1] of the dtype `D`, `v` the number, `m` a mask and `i` an index.
"""

from __future__ import annotations

import warnings
from typing import Any

CALLS = """
x.fill_(v)
T.zeros(1, dtype=D).fill_(v)
T.full_like(x, v)
T.full((2,), v, dtype=D)
x.new_full((2,), v)
T.scalar_tensor(v, dtype=D)
x.masked_fill(m, v)
x.masked_fill_(m, v)
x.masked_fill(m, T.tensor(v))
x.index_fill(0, i, v)
x.scatter(0, i, v)
x.scatter_(0, i, v, reduce='add')
x.__setitem__(0, v)
x.__setitem__(m, v)
x.__setitem__(i, v)
T.where(m, x, v)
x.clamp(max=v)
x.clamp_min(v)
x + v
v - x
x * v
x == v
x < v
x ** v
x.add_(v)
x.mul_(v)
T.add(x, x, alpha=v)
T.addcmul(x, x, x, value=v)
T.addcdiv(x, x, x + 1, value=v)
T.lerp(x, x, v)
F.threshold(x, 1, v)
F.threshold(x, v, 1)
F.leaky_relu(x, v)
F.hardshrink(x, v)
F.softplus(x, v)
F.pad(x, (1, 1), value=v)
T.constant_pad_nd(x, (1, 1), v)
T.linspace(0, v, 2, dtype=D)
x.view(1, 2).fill_diagonal_(v)
T.addmm(x.view(1, 2), x.view(2, 1)[:1], x.view(1, 2), alpha=v)
T.baddbmm(x.view(1, 1, 2), x.view(2, 1, 1)[:1], x.view(1, 1, 2), beta=v)
T._foreach_add([x], v)[0]
T._foreach_add([x], [x], alpha=v)[0]
T._foreach_clamp_max([x], v)[0]
T._foreach_addcmul([x], [x], [x], v)[0]
""".strip().splitlines()

SHARED = (
    1, -1, 2.7, 300, -300, 300.5, -0.5, float("nan"), float("inf"), 2**63 - 1, -(2**63), 2**64, -(2**63) - 1, 1e30,
    True,
)
VALUES: dict[str, tuple] = {
    "bool": (*SHARED, 2, 1j),
    "uint8": (*SHARED, 255, 256, -255, -256),
    "int8": (*SHARED, 127, 128, -128, -129, 127.5),
    "int32": (*SHARED, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1),
    "int64": (*SHARED, 2.0**62, 1e19),
    "float16": (*SHARED, 65504, 65505.0, 70000, -70000.0),
    "bfloat16": (*SHARED, 3.3895313892515355e38, 3.39e38, 3.4e38),
    "float32": (*SHARED, 3.4028234663852886e38, 3.41e38, -1e39),
    "float64": SHARED,
    "complex64": (*SHARED, 1e39, 2 + 1j),
}


def rounded(numbers: Any) -> Any:
    """Numbers to three digits: the sweep is about which are refused, not about the last bit."""
    if isinstance(numbers, list):
        return [rounded(n) for n in numbers]
    if isinstance(numbers, complex):
        return "nan" if numbers != numbers else (rounded(numbers.real), rounded(numbers.imag))
    return float(f"{numbers:.3g}") + 0.0 if isinstance(numbers, float) else numbers


def outcome(T: Any, call: str, dtype: str, value: Any) -> str:
    """The result of a call as text, or the class of what it raises with `!` before it."""
    D = getattr(T, dtype)
    x = T.tensor([0, 1]).to(D)
    names = {"T": T, "F": T.nn.functional, "D": D, "x": x, "v": value, "m": T.tensor([True, False]), "i": T.tensor([1])}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(call, names)
    except Exception as error:
        return "!" + type(error).__name__
    result = x if result is None else result
    return f"{str(result.dtype).rpartition('.')[2]} {tuple(result.shape)} {rounded(result.tolist())}"
