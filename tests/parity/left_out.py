"""What does not match PyTorch, record by record, and why; and which records a check has nothing to say about.

Every other record passes every check: that is the test. An entry of `LEFT_OUT` must fail, on the machines and for the
dtypes it names, so that one that has been mended does not stay.
`docs/operators.md` is made from this table (`python -m tests.parity --docs`).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

import torch

from tests.parity.checks import forms
from tests.parity.compare import kind_of
from tests.parity.records import title


@dataclass(frozen=True)
class Left:
    """Why a record differs."""

    reason: str
    dtypes: str = ""     # of the check `dtypes`: those that differ, separated by spaces
    # the kind of processor this may be so on (`machines`), where PyTorch's own results depend on it; everywhere, and
    # always, if empty
    machine: str = ""


_HALVES = "bfloat16 float16"
_POLE = "at the poles (whole numbers below 1) PyTorch gives a large finite number in float32; ours is infinite"
_POLYGAMMA = ("polygamma.polygamma_n_0", "polygamma.polygamma_n_1", "polygamma.polygamma_n_2",
              "polygamma.polygamma_n_3", "polygamma.polygamma_n_4",
              "special.polygamma.special_polygamma_n_0")
_ACCURATE = "PyTorch's float64 result is off by up to 3e-7 for some arguments; ours agrees with SciPy's to 1e-15"
_BESSEL = ("special.airy_ai", "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1")
_OVERWRITTEN = Left(
    "PyTorch's gradient for the input is that of the elements written over, and 0 elsewhere (its own gradcheck is"
    " expected to fail); ours is the right one"
)
_ROUNDING = "units in the last place of a half type, on a difference of nearly equal numbers"
_GAPS = Left("PyTorch copies the gaps between the elements of a spaced-out input along; the result is dense here")
_TURNED = Left(
    "PyTorch returns a view of a tensor in another order of dimensions, an accident of how it computes; the result is"
    " dense here"
)
_TAIL = Left("PyTorch's float32 loses the lower tail to cancellation: 0 where the value, and ours, is 1e-17")
_ERF = Left(
    "PyTorch's float32 erf is off by up to 4e-7 on this processor, which near 0 is more than the value; ours agrees"
    " with the C library's to 6e-8",
    machine="aarch64",
)
_OVERFLOW = Left(
    "PyTorch's products in float8 that are too large are NaN where tile registers multiply; ours are the largest"
    " number, as casts have it",
    machine="amx",
)
_SLICE = Left("a slice of a larger tensor here, dense in PyTorch")

# check -> record -> why
LEFT_OUT: dict[str, dict[str, Left]] = {
    "forward": {"special.ndtr": _TAIL, "erf": _ERF, "_scaled_mm": _OVERFLOW},
    "gradient": {
        "as_strided_scatter": _OVERWRITTEN,
        "nn.functional.hardsigmoid": Left("PyTorch's slope is a sixth rounded to float32, in float64 too"),
    },
    "second": {
        "as_strided_scatter": _OVERWRITTEN,
        "nn.functional.linear_cross_entropy.chunked": Left(
            "PyTorch has no second gradient of the chunked form; ours has one"
        ),
    },
    "variants": {
        "erf": _ERF,
        "_scaled_mm": _OVERFLOW,
        "special.ndtr": _TAIL,
        "nn.functional.linear": Left("PyTorch's out= of a vector, given with gaps, is written as if it had none"),
    },
    "noncontiguous": {
        "as_strided_scatter": Left(
            "elements between those of a spaced-out input are written over by PyTorch, and copied here"
        ),
        "_scaled_mm": _OVERFLOW,
        "erf": _ERF,
        "special.ndtr": _TAIL,
    },
    "dtypes": {
        **dict.fromkeys(_POLYGAMMA, Left(_POLE, "int16 int8")),
        **dict.fromkeys(_BESSEL, Left(_ACCURATE, "float64", "aarch64")),
        "matrix_exp": Left(
            "PyTorch's bfloat16 and float16 results are infinite, NaN or far off from two rows on; ours are the float32"
            " ones, rounded",
            _HALVES,
        ),
        "div.trunc_rounding": Left(
            "bfloat16 quotients next to a whole number are rounded before truncation by PyTorch, after it here",
            "bfloat16",
        ),
        "native_layer_norm": Left(_ROUNDING, _HALVES),
        "native_batch_norm": Left(_ROUNDING, "float16"),
        "_native_batch_norm_legit": Left(_ROUNDING, "float16"),
    },
    "strides": {
        "as_strided_scatter": _GAPS,
        "diagonal_scatter": _GAPS,
        "select_scatter": _GAPS,
        "slice_scatter": _GAPS,
        "unravel_index": _GAPS,
        "_segment_reduce.lengths": _SLICE,
        "_segment_reduce.offsets": _SLICE,
        "argwhere": _TURNED,
        "nonzero": _TURNED,
        "unique": _TURNED,
        "unique_consecutive": _TURNED,
        "quantile": _TURNED,
        "nanquantile": _TURNED,
        "triangular_solve": _TURNED,
    },
    "meta": {},
    "errors": {
        "__rdiv__": Left(
            "a number in the tensor's place is a TypeError here, as for every other reflected operator; PyTorch raises"
            " AttributeError"
        ),
        "cat": Left(
            "the record's out= reaches behind its storage, which cannot be made here: refused earlier, in other words"
        ),
    },
}

# What a record declares does not say that these have nothing to check: no sample of theirs gets that far.
_COMPILED = dict.fromkeys("""jiterator_binary jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref
    jiterator_unary jiterator_2inputs_2outputs""".split(), "runs on CUDA only")
_NO_TENSORS = """arange broadcast_shapes linspace logspace zeros empty_strided scalar_tensor full empty triu_indices
    tril_indices randint eye randn ones
    empty_permuted signal.windows.hann signal.windows.exponential signal.windows.general_hamming signal.windows.bartlett
    signal.windows.gaussian signal.windows.nuttall signal.windows.blackman signal.windows.kaiser signal.windows.hamming
    signal.windows.cosine signal.windows.general_cosine""".split()
_BY_ELEMENTS = "allclose item masked_select nonzero unique bincount to_sparse argwhere unique_consecutive".split()
_LINEAR = """div.trunc_rounding div.floor_rounding floor ceil round sgn round.decimals_0 trunc bernoulli
    round.decimals_3 angle zero_ round.decimals_neg_3 sign normal normal.number_mean fill nn.functional.ctc_loss
    max_pool2d_with_indices_backward
    sparse.sampled_addmm""".split()
NOTHING_TO_CHECK: dict[str, dict[str, str]] = {
    "forward": _COMPILED,
    "second": dict.fromkeys(_LINEAR, "the first gradient has none of its own"),
    "variants": {
        "sparse.sampled_addmm": "sparse out=",
        "histogramdd": "nested out=",
        "_batch_norm_with_update": "PyTorch refuses out=",
    },
    "noncontiguous": {
        **_COMPILED,
        "view_as_complex": "needs pairs without gaps",
        "sparse.sampled_addmm": "sparse",
        "sparse.mm.reduce": "sparse",
    },
    "dtypes": _COMPILED,
    "strides": _COMPILED,
    "meta": {
        **_COMPILED,
        **dict.fromkeys(_NO_TENSORS, "no tensor arguments"),
        **dict.fromkeys(_BY_ELEMENTS, "the elements decide the result"),
    },
    "errors": {name: _COMPILED[name] for name in ("jiterator_binary", "jiterator_binary_return_by_ref")},
}

# How many records each check speaks of: fewer means that PyTorch's side is broken.
APPLICABLE: dict[str, int] = {
    "forward": 694,
    "gradient": 540,
    "second": 511,
    "variants": 501,
    "noncontiguous": 691,
    "dtypes": 692,
    "strides": 613,
    "meta": 658,
    "errors": 224,
}

# The share of records that must pass (of those the check applies to).
BARS: dict[str, float] = {
    "forward": 0.97,
    "gradient": 0.97,
    "variants": 0.95,
    "noncontiguous": 0.95,
    "dtypes": 0.92,
    "strides": 0.95,
    "errors": 0.90,
}


def declares(check: str, record: Any) -> bool:
    """Whether a record says that it has what a check looks at."""
    if check in ("gradient", "second") and not (record.supports_autograd and torch.float64 in record.dtypes):
        return False
    if check == "second" and not record.supports_gradgrad:
        return False
    if check == "variants" and not (record.supports_out or forms(record)):
        return False
    if check == "dtypes" and len(record.dtypes) < 2:
        return False
    if check == "strides" and kind_of(record) == "decomposed":
        return False
    if check == "errors" and record.error_inputs_func is None:
        return False
    return bool(record.dtypes)


def applies(check: str, record: Any) -> bool:
    return declares(check, record) and title(record) not in NOTHING_TO_CHECK.get(check, {})


def is_certain(check: str, name: str) -> bool:
    """Whether what is left out must fail: PyTorch gives the same on every machine."""
    return not LEFT_OUT[check][name].machine


def machines() -> tuple[str, ...]:
    """What this machine is called in `Left`: its kind of processor, and `amx` where that has tile registers."""
    return ("", platform.machine(), *["amx"] * torch.cpu._is_amx_tile_supported())


def reasons(check: str, name: str) -> dict[str, str]:
    """Why a record is left out of a check on this machine: dtype -> reason,
    with an empty dtype for checks that have but one."""
    left = LEFT_OUT[check].get(name)
    if left is None or left.machine not in machines():
        return {}
    return dict.fromkeys(left.dtypes.split() or [""], left.reason)
