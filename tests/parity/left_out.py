"""What does not match PyTorch, record by record, and why. Every other record passes every check: that is the test.

`docs/operators.md` is made from this table (`python -m tests.parity --docs`).
"""

from __future__ import annotations

_POLE = "at the poles (whole numbers below 1) PyTorch gives a large finite number in float32; ours is infinite"
_POLYGAMMA = ("polygamma.polygamma_n_0", "polygamma.polygamma_n_1", "polygamma.polygamma_n_2", "polygamma.polygamma_n_3",
              "polygamma.polygamma_n_4", "special.polygamma.special_polygamma_n_0")  # fmt: skip
_ACCURATE = "PyTorch's float64 result is off by up to 3e-7 for some arguments; ours agrees with SciPy's to 1e-15"
_BESSEL = ("special.airy_ai", "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1")
_OVERWRITTEN = "PyTorch's gradient for the input is that of the elements written over, and 0 elsewhere (its own gradcheck is expected to fail); ours is the right one"
_CONSTANT = "the gradient that is always 0 carries a graph here and none in PyTorch; its value is the same"
_ROUNDING = "one unit in the last place of a half type, on a difference of nearly equal numbers"

# check -> record -> reason
LEFT_OUT: dict[str, dict[str, str]] = {
    "forward": {},
    "gradient": {"as_strided_scatter": _OVERWRITTEN},
    "second": {
        "as_strided_scatter": _OVERWRITTEN,
        "copysign": _CONSTANT,
        "nextafter": _CONSTANT,
        "nn.functional.linear_cross_entropy.chunked": "PyTorch has no second gradient of the chunked form; ours has one",
        "linalg.norm.subgradients_at_zero": "at 0 PyTorch's second gradient is NaN; ours is 0",
    },
    "variants": {},
    "noncontiguous": {"as_strided_scatter": "elements between those of a spaced-out input are written over by PyTorch, and copied here"},
    "dtypes": {
        **dict.fromkeys(_POLYGAMMA, _POLE),
        **dict.fromkeys(_BESSEL, _ACCURATE),
        "eye": "float8_e4m3fnuz and float8_e5m2fnuz do not exist in Rushlight",
        "matrix_exp": "PyTorch's bfloat16 and float16 results are NaN on this kind of machine; ours are the float32 ones, rounded",
        "div.trunc_rounding": "bfloat16 quotients next to a whole number are rounded before truncation by PyTorch, after it here",
        "_softmax_backward_data": _ROUNDING,
        "native_layer_norm": _ROUNDING,
    },
    "meta": {},
    "errors": {
        "__rdiv__": "a number in the tensor's place is a TypeError here, as for every other reflected operator; PyTorch raises AttributeError",
        "arange": "a step that becomes 0 in an integer out= is refused as a result that cannot be cast, not as a step of 0",
        "cat": "the record's out= reaches behind its storage, which cannot be made here: refused earlier, in other words",
        "gather": "an out= that overlaps the index only after it was resized is not refused: the result is right",
        "narrow_copy": "a dim out of range is a RuntimeError that names the dim; PyTorch's is an internal check that names none",
    },
}

# The share of records that must pass (of those the check applies to).
BARS: dict[str, float] = {
    "forward": 0.97, "gradient": 0.97, "variants": 0.95, "noncontiguous": 0.95, "dtypes": 0.92, "errors": 0.90,
}
