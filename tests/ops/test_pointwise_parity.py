"""Every pointwise definition against PyTorch, beyond what PyTorch's op records show in tests/parity: edge values,
refused dtypes, Python numbers, promotion, complex gradients, and whatever an op has no record for (`passing`).

Generic over the registry: operands come from the schema, and the few ops that need particular numbers say so in
`NUMBERS` and `CALLS`. Edge values (NaN, infinities, both zeros) meet each other in an outer product, which also
exercises broadcasting.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import cache

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import rushlight as rl
from rushlight.op import Pointwise, definitions as registered, published
from rushlight.op.pointwise import Promote
from tests.parity.checks import forms
from tests.parity.left_out import applies, reasons
from tests.parity.records import RECORDS, title

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DTYPES = ("float32", "float64", "int64", "uint8", "bool", "bfloat16", "complex64")
INTEGERS = ("int64", "uint8", "bool")
# Every kernel costs compile time, so dtypes that share their code with one above are left to a few ops of each family.
MORE_DTYPES = ("int32", "float16")
MORE = ("add", "mul", "div", "remainder", "pow", "maximum", "exp", "bitwise_and", "bitwise_left_shift", "where",
        "nan_to_num", "nextafter", "frexp", "gcd", "isnan", "lt", "round", "sigmoid", "gelu", "lerp", "complex",
        "polar", "ldexp")
HEAVY = ("zeta",)  # kernels that take a second to compile: fewer samples
FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.3, 2.0, -2.0, 3.0, -3.0, 0.9999, 1e-4, 6.0,
          21.5, -7.25, 4.0, -4.5, 100.0]
INTS = [0, 1, -1, 2, -2, 3, 5, 7, -7, 8, 31, 40, 64, 100, 12, -120]
# Relative tolerance per dtype. Half types: one unit in the last place.
TOLERANCE = {
    "float32": 2e-6,
    "float64": 1e-13,
    "bfloat16": 2**-7,
    "float16": 2**-10,
    "complex64": 4e-6,
    "complex128": 1e-12,
}


def longest(op: type) -> str:
    """The schema with the most parameters."""
    return op.schema if isinstance(op.schema, str) else op.schema[-1]


def definitions() -> dict[str, type]:
    """Name to class of every pointwise op defined in the families."""
    found = {}
    for classes in registered.values():
        for item in classes:
            if issubclass(item, Pointwise) and item.__module__.startswith("rushlight.definitions.pointwise."):
                found[longest(item).split("(")[0]] = item
    return found


OPS = {name: item for name, item in definitions().items() if not name.startswith("_")}


def parameters(op: type) -> list[tuple[str, str, str | None, bool]]:
    """(type, name, default text, keyword only) of each parameter of the schema."""
    inside, keyword_only, result = longest(op).split("(", 1)[1].split(") ->")[0], False, []
    for piece in inside.split(", "):
        if piece == "*":
            keyword_only = True
            continue
        kind, _, rest = piece.partition(" ")
        name, _, default = rest.partition("=")
        result.append((kind, name, default or None, keyword_only))
    return result


def place(module, name: str, op: type) -> Callable:
    """The published function of `module` (torch or rushlight)."""
    if module is rl:
        return published(getattr(op, "namespace", None) or "")[name]
    for step in (getattr(op, "namespace", None) or "").split("."):
        module = getattr(module, step) if step else module
    return getattr(module, name)


def edge(dtype: str, second: bool = False):
    """A 1-D torch tensor of edge values; the second operand's are in another order."""
    kind = getattr(torch, dtype)
    if kind.is_complex:
        # Without 0: log2(0), 0 ** 0 and the like are corners on which C libraries differ.
        plain = [0.5, -1.0, 2.0, 0.0, -0.3, 1.5, 3.0]
        values = [complex(a, b) for a in plain[:4] for b in plain[1:] if a or b]
    elif kind.is_floating_point:
        values = FLOATS
    elif kind is torch.bool:
        values = [True, False]
    else:
        values = [v for v in INTS if v >= 0 or kind is not torch.uint8]
    values = values[::-1] if second else values
    return torch.tensor(values, dtype=torch.float64 if kind.is_floating_point else None).to(kind)


def smooth(dtype, seed: int, low: float, high: float):
    """Ordinary numbers in (low, high), shape (3, 4)."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_complex:
        re, im = (torch.rand(3, 4, generator=generator, dtype=torch.float64) * (high - low) + low for _ in range(2))
        return torch.complex(re, im).to(dtype)
    return (torch.rand(3, 4, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)


# Python numbers met by tensors: every kind of number with a float, an integer and a boolean tensor, and odd meetings.
NUMBER_PAIRS = [(dtype, number) for dtype in ("float32", "int32", "bool") for number in (2, 2.5, True, 1 + 2j)]
NUMBER_PAIRS += [
    ("float32", -1),
    ("int32", -1),
    ("uint8", -1),
    ("bfloat16", 2.5),
    ("bfloat16", 1 + 2j),
    ("complex64", 2.5),
]

# Static or required numbers that a schema's defaults do not give.
NUMBERS = {
    ("polygamma", "n"): 2, ("mvlgamma", "p"): 2, ("threshold", "threshold"): 0.5, ("threshold", "value"): 3.0,
    ("clamp", "min"): 0, ("clamp", "max"): 2,
}
# Further calls worth a sample: keyword arguments by op.
CALLS = {
    "add": [{"alpha": 2}, {"alpha": 0.5}, {"alpha": True}],
    "sub": [{"alpha": 2}, {"alpha": 0.5}],
    "rsub": [{"alpha": 2}],
    "div": [{"rounding_mode": "floor"}, {"rounding_mode": "trunc"}],
    "gelu": [{"approximate": "tanh"}],
    "round": [{"decimals": 2}, {"decimals": -1}],
    "logit": [{"eps": 0.2}],
    "nan_to_num": [{"nan": 1.5, "posinf": 2.0}, {"neginf": -3.0}],
    "isclose": [{"equal_nan": True}, {"rtol": 0.5, "atol": 1.0}],
    "addcmul": [{"value": 2}, {"value": 0.5}],
    "addcdiv": [{"value": 2}],
    "leaky_relu": [{"negative_slope": 0.3}],
    "elu": [{"alpha": 0.7}],
    "celu": [{"alpha": 0.7}],
    "hardtanh": [{"min_val": 0.0, "max_val": 2.0}],
    "softplus": [{"beta": 2.0, "threshold": 3.0}],
    "softshrink": [{"lambd": 1.0}],
    "hardshrink": [{"lambd": 1.0}],
}
# Reasoned differences from PyTorch, by (op, label of the call).
DIFFERENT = {
    ("complex", "float16"): "there is no complex32",
    ("isclose", "float16"): "computed in float32, not in float16",
    ("isclose", "bfloat16"): "computed in float32, not in bfloat16",
    ("ldexp", "float16"): "2 ** other does not overflow on its way",
    ("div", "bfloat16"): "the quotient is rounded to bfloat16 once, after trunc and floor",
    ("div", "float16"): "the quotient is rounded to float16 once, after trunc and floor",
}
# PyTorch's own approximations, which are less accurate than their dtype; ours are checked against known values below.
COARSE = {"airy_ai": 1e-7, "bessel_j0": 1e-6, "bessel_j1": 1e-6, "bessel_y0": 1e-6, "bessel_y1": 1e-6}


def operands(name: str, op: type, dtype: str, make: Callable) -> list:
    """Positional operands: a tensor where the schema takes one, else the required number."""
    result = []
    for kind, parameter, default, keyword_only in parameters(op):
        if keyword_only or (default is not None and (name, parameter) not in NUMBERS):
            continue
        if (name, parameter) in NUMBERS:
            result.append(NUMBERS[name, parameter])
        else:
            assert kind.startswith("Tensor"), f"{name}: {parameter} needs an entry in NUMBERS"
            result.append(make(parameter, len(result)))
    return result


def broadcasting(name: str, op: type, dtype: str) -> list:
    """Edge operands against each other: the first runs along rows, the others along columns."""

    def make(parameter: str, index: int):
        if parameter in ("condition", "mask"):
            return torch.tensor([True, False, True]).reshape(3, 1, 1)
        x = edge(dtype, second=index > 0)
        return x.reshape(-1, 1) if index % 2 == 0 else x

    return operands(name, op, dtype, make)


def mirror(x):
    """The rushlight twin of a torch tensor; anything else as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    kind = getattr(rl, str(x.dtype).removeprefix("torch."))
    if x.dtype == torch.bfloat16:
        return rl.from_numpy(x.detach().view(torch.int16).numpy().copy()).view(kind)
    return rl.from_numpy(x.detach().numpy().copy())


def back(x):
    """The torch twin of a rushlight tensor."""
    if x.dtype is rl.bfloat16:
        return torch.from_numpy(x.detach().view(rl.int16).numpy().copy()).view(torch.bfloat16)
    return torch.from_numpy(x.detach().numpy().copy())


def outcome(function: Callable, *args, **kwargs):
    """The result, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return error


def same(ours, theirs, label: str) -> None:
    """Results agree in class of exception, or in shape, dtype and values."""
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple), f"{label}: {ours!r}"
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, label)
        return
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"{label}: expected {type(theirs).__name__}: {theirs}\n got {ours!r}"
        return
    if isinstance(ours, Exception):
        raise AssertionError(f"{label}: PyTorch returns {theirs.dtype}, got {type(ours).__name__}: {ours}") from ours
    assert tuple(ours.shape) == tuple(theirs.shape), label
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1], label
    close(back(ours), theirs, label)


def close(ours, theirs, label: str) -> None:
    rtol = max(TOLERANCE.get(str(theirs.dtype).removeprefix("torch."), 0), COARSE.get(label.partition("(")[0], 0))
    if label.startswith("airy_ai"):  # PyTorch has NaN at infinity
        theirs = theirs.where(~theirs.isnan(), ours)
    if label.startswith(("polygamma", "zeta")):  # limits at infinity, which PyTorch computes as inf - inf
        theirs = theirs.where(theirs.isfinite(), ours.to(theirs.dtype))
    try:
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=rtol * 0.25, equal_nan=True)
    except AssertionError as error:
        bad = ~torch.isclose(ours, theirs, rtol=rtol, atol=rtol * 0.25, equal_nan=True)
        where = bad.nonzero()[:6].tolist()
        detail = [(at, ours[tuple(at)].item(), theirs[tuple(at)].item()) for at in where]
        raise AssertionError(f"{label}: at, ours, PyTorch's: {detail}\n{error}") from None


def compare(name: str, label: str, *args, **kwargs) -> object:
    """Both frameworks on the same arguments; returns PyTorch's outcome."""
    op = OPS[name]
    theirs = outcome(place(torch, name, op), *args, **kwargs)
    ours = outcome(place(rl, name, op), *[mirror(a) for a in args], **kwargs)
    if (name, label) not in DIFFERENT:
        same(ours, theirs, f"{name}({label}{kwargs or ''})")
    return theirs


def supported(name: str) -> bool:
    """Whether PyTorch publishes the op at all."""
    try:
        place(torch, name, OPS[name])
    except AttributeError:
        return False
    return True


NAMES = sorted(name for name in OPS if supported(name))


@cache
def records(name: str) -> list:
    """PyTorch's records of an op."""
    path = ".".join(filter(None, [getattr(OPS[name], "namespace", None), name]))
    return [record for record in RECORDS.values() if record.name.removeprefix("torch.") == path]


def passing(name: str, check: str, dtype: str) -> list:
    """The records of an op that list a dtype and pass a check of tests/parity without exception."""
    found = [record for record in records(name) if getattr(torch, dtype) in record.dtypes]
    return [record for record in found if applies(check, record) and not reasons(check, title(record))]


def has_gradients_in_records(name: str) -> bool:
    return bool(passing(name, "gradient", "float64") and passing(name, "second", "float64"))


def has_forms_in_records(name: str) -> bool:
    """Whether records show the in-place form, if there is one, and out=."""
    has_in_place = hasattr(torch.Tensor, name + "_")
    return any(record.supports_out and ("in-place" in forms(record) or not has_in_place)
               for record in passing(name, "variants", "float32"))


def computes_in_floats(name: str, dtype: str) -> bool:
    """Whether a dtype of whole numbers only means a conversion before the kernel that float32 has."""
    return dtype in INTEGERS and OPS[name].promote is Promote.TO_FLOAT


def dtypes_with_edges(name: str) -> tuple[str, ...]:
    """The dtypes in which edge values meet: all of some ops. Of others not those whose kernels are float32's behind a
    conversion, where a record shows that; refused dtypes are in no record."""
    if name in MORE:
        return DTYPES + MORE_DTYPES
    if name in HEAVY:
        return DTYPES[:2]
    return tuple(
        dtype for dtype in DTYPES
        if not ((dtype == "bfloat16" or computes_in_floats(name, dtype)) and passing(name, "dtypes", dtype))
    )


@pytest.fixture(autouse=True)
def _own_kernels():
    """PyTorch's own kernels: on x86-64 a vendor library computes `gelu`, with 5e-7 of error and NaN at infinity."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")    # setting the flags warns about graphics hardware
        before = torch.backends.mkldnn.set_flags(False)
        yield
        torch.backends.mkldnn.set_flags(*before)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_refusals_for_every_dtype(name):
    for dtype in dtypes_with_edges(name):
        for kwargs in [{}] + CALLS.get(name, []):
            compare(name, dtype, *broadcasting(name, OPS[name], dtype), **kwargs)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", NAMES)
def test_python_numbers_on_either_side(name):
    op = OPS[name]
    for at, (kind, parameter, default, keyword_only) in enumerate(parameters(op)):
        if not kind.startswith("Tensor|Scalar") or keyword_only or (name, parameter) in NUMBERS:
            continue
        for dtype, number in NUMBER_PAIRS[:2] if name in HEAVY else NUMBER_PAIRS:
            if name == "float_power" and isinstance(number, complex):
                continue  # pow covers it, and complex128 powers are the largest kernels there are
            args = broadcasting(name, op, dtype)
            if isinstance(number, complex) and dtype in ("float32", "bfloat16"):
                # Infinities and signed zeros in complex arithmetic: C libraries differ.
                args = [a.where(a.isfinite() & (a != 0), 1.5) if isinstance(a, torch.Tensor) else a for a in args]
            args[at] = number
            compare(name, f"{dtype}, {parameter}={number}", *args)


@pytest.mark.parametrize("name", NAMES)
def test_promotion_between_tensors_and_zero_dim_tensors(name):
    op = OPS[name]
    count = sum(1 for kind, *_ in parameters(op) if kind.startswith("Tensor"))
    if count < 2 or name in HEAVY:
        return
    pairs = (("float32", "float64"), ("int32", "float32"), ("bool", "uint8"))
    for first, second in pairs:
        for zero_dim in (None, 0, 1):

            def make(parameter: str, index: int, first=first, second=second, zero_dim=zero_dim):
                if parameter in ("condition", "mask"):
                    return torch.tensor([True, False])
                x = torch.tensor([1, 2]).to(getattr(torch, (second, first)[index % 2]))
                return x[1] if index % 2 == zero_dim else x

            compare(name, f"{first} and {second}, {zero_dim}", *operands(name, op, first, make))


@pytest.mark.parametrize("name", NAMES)
def test_empty_scalar_and_strided_layouts(name):
    op = OPS[name]
    dtype = next((d for d in ("float32", "int32") if not isinstance(
        outcome(place(torch, name, op), *broadcasting(name, op, d)), Exception)), None)
    if dtype is None:
        return

    def layouts() -> Iterator[Callable]:
        base = torch.arange(1, 25).reshape(4, 6).to(getattr(torch, dtype)) / (1 if dtype == "int32" else 25)
        base = base.to(getattr(torch, dtype))
        yield lambda: base[:0]
        yield lambda: base[1, 2]
        yield lambda: base.t()
        yield lambda: base[::2, 1::3]
        yield lambda: base[:, 2:3].expand(4, 5)
        yield lambda: base.flip(0)[1:].unsqueeze(1)

    for number, layout in enumerate(layouts()):

        def make(parameter: str, index: int, layout=layout):
            x = layout()
            return x > 0 if parameter in ("condition", "mask") else x

        args = operands(name, op, dtype, make)
        theirs = place(torch, name, op)(*args)
        # Strided twins: the same view taken of a rushlight tensor would test views too; a transposed copy is enough.
        twins = [
            mirror(a.t().contiguous()).t() if isinstance(a, torch.Tensor) and a.ndim == 2 else mirror(a) for a in args
        ]
        same(outcome(place(rl, name, op), *twins), theirs, f"{name} layout {number}")


@pytest.mark.share(2)
@pytest.mark.parametrize("name", NAMES)
def test_in_place_and_out_forms(name):
    """float32 where no record has these forms; and dtypes that no record has them in."""
    op = OPS[name]
    for dtype in ("float32", "int64", "bool", "complex64")[has_forms_in_records(name) :]:
        args = broadcasting(name, op, dtype)
        expected = outcome(place(torch, name, op), *args)
        if isinstance(expected, Exception) or isinstance(expected, tuple):
            continue
        function = place(torch, name, op)
        shown = name not in MORE and computes_in_floats(name, dtype) and passing(name, "dtypes", dtype)
        if not shown and not isinstance(outcome(function, *args, out=torch.empty_like(expected)), Exception):
            ours = rl.empty(tuple(expected.shape), dtype=getattr(rl, str(expected.dtype).removeprefix("torch.")))
            result = place(rl, name, op)(*[mirror(a) for a in args], out=ours)
            assert result is ours
            same(ours, expected, f"{name}({dtype}, out=)")
            wrong = rl.empty(tuple(expected.shape), dtype=rl.bool)
            theirs = outcome(function, *args, out=torch.empty_like(expected, dtype=torch.bool))
            same(
                outcome(place(rl, name, op), *[mirror(a) for a in args], out=wrong),
                theirs,
                f"{name}({dtype}, out=bool)",
            )
        if not hasattr(torch.Tensor, name + "_") or name in ("polygamma",):
            continue
        full = args[0].expand(expected.shape).clone() if isinstance(args[0], torch.Tensor) else None
        theirs = outcome(lambda: getattr(full.clone(), name + "_")(*args[1:]))
        target = mirror(full)
        result = outcome(lambda: getattr(target, name + "_")(*[mirror(a) for a in args[1:]]))
        same(result, theirs, f"{name}_({dtype})")
        if not isinstance(theirs, Exception):
            assert result is target


# Where gradients are compared: an interval on which the op is defined and smooth.
DOMAIN = {"acosh": (1.2, 4.0), "atanh": (-0.9, 0.9), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "erfinv": (-0.9, 0.9),
          "logit": (0.1, 0.9), "ndtri": (0.05, 0.95), "mvlgamma": (2.0, 5.0), "zeta": (1.5, 4.0), "xlog1py": (0.2, 3.0),
          "log_ndtr": (-3.0, 3.0), "lgamma": (0.2, 4.0), "digamma": (0.2, 4.0)}
WIDE = (
    "relu relu6 hardtanh leaky_relu threshold elu celu selu gelu silu mish softplus softshrink hardshrink hardsigmoid "
    "hardswish tanhshrink logsigmoid softsign sigmoid tanh abs sin cos exp sgn sign where maximum minimum clamp"
).split()


def derivatives(module, name: str, args: list, kwargs: dict, second: bool):
    """First gradients, and gradients of their weighted sum; None where an input takes no part."""
    leaves = [a for a in args if isinstance(a, module.Tensor) and (a.dtype.is_floating_point or a.dtype.is_complex)]
    for leaf in leaves:
        leaf.requires_grad_(True)
    result = place(module, name, OPS[name])(*args, **kwargs)
    result = result[0] if isinstance(result, tuple) else result
    if not result.requires_grad:
        return None
    weight = (
        mirror(WEIGHT[str(result.dtype).split(".")[1]]) if module is rl else WEIGHT[str(result.dtype).split(".")[1]]
    )
    total = (result * weight).sum()
    total = total.abs() if result.dtype.is_complex else total
    first = module.autograd.grad(total, leaves, create_graph=second, allow_unused=True)
    if not second:
        return first
    again = sum((f * f.conj()).sum() for f in first if f is not None and f.requires_grad)
    if not isinstance(again, module.Tensor):
        return first, None
    again = again.abs() if again.dtype.is_complex else again
    return first, module.autograd.grad(again, leaves, allow_unused=True)


WEIGHT = {
    "float64": torch.linspace(0.5, 2, 12, dtype=torch.float64).reshape(3, 4),
    "complex128": (torch.linspace(0.5, 2, 12, dtype=torch.float64) * (1 + 0.3j)).reshape(3, 4),
}


def agree(ours, theirs, label: str) -> None:
    if isinstance(theirs, tuple) or isinstance(ours, tuple):
        known = theirs if ours is None else ours
        pairs = zip(ours or [None] * len(known), theirs or [None] * len(known), strict=True)
        for index, (a, b) in enumerate(pairs):
            agree(a, b, f"{label}[{index}]")
    elif theirs is None or ours is None:
        # One side may know that a gradient is 0 where the other computes zeros.
        known = theirs if ours is None else (None if ours is None else back(ours))
        assert known is None or bool((known == 0).all()), label
    else:
        # PyTorch keeps the constants of these two in float32.
        rtol = 1e-7 if label.startswith(("celu", "hardsigmoid")) else 1e-9
        torch.testing.assert_close(
            back(ours), theirs, rtol=rtol, atol=1e-11, equal_nan=True, msg=lambda m: f"{label}: {m}"
        )


def has_derivatives_here(name: str) -> bool:
    """Whether there are some that no record shows: complex ones, with further arguments, or all of them."""
    complex_too = not records(name) or any(torch.complex128 in record.dtypes for record in records(name))
    return complex_too or name in CALLS or not has_gradients_in_records(name)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", list(filter(has_derivatives_here, NAMES)))
def test_first_and_second_derivatives(name):
    op = OPS[name]
    for dtype in (torch.float64, torch.complex128):
        low, high = DOMAIN.get(name, (-3.0, 3.0) if name in WIDE else (0.2, 2.5))

        def make(parameter: str, index: int, dtype=dtype, low=low, high=high):
            if parameter in ("condition", "mask"):
                return smooth(torch.float64, 9, -1, 1) > 0
            return smooth(dtype, index, low, high)

        shown = dtype is torch.float64 and has_gradients_in_records(name)
        for kwargs in [{}, *CALLS.get(name, [])][shown:]:
            args = operands(name, op, str(dtype), make)
            twins = [mirror(a) for a in args]
            theirs = outcome(derivatives, torch, name, args, kwargs, True)
            if isinstance(theirs, Exception):
                theirs = outcome(derivatives, torch, name,
                                 [a.detach() if isinstance(a, torch.Tensor) else a for a in args],
                                 kwargs, False)
                if theirs is None or isinstance(theirs, Exception):
                    continue
                agree(derivatives(rl, name, twins, kwargs, False), theirs, f"{name} {dtype} {kwargs}")
            elif theirs is not None:
                agree(derivatives(rl, name, twins, kwargs, True), theirs, f"{name} {dtype} {kwargs}")


# From tables computed in 40 digits.
KNOWN = {
    "airy_ai": ((0.0, 0.3550280538878172), (1.0, 0.1352924163128814), (-2.0, 0.2274074282016856),
                (5.0, 1.0834442813607442e-4), (-10.0, 0.0402412384864432)),
    "bessel_j0": ((0.5, 0.9384698072408130), (6.0, 0.1506452572509969), (10.0, -0.2459357644513483)),
    "bessel_j1": ((0.5, 0.2422684576748739), (6.0, -0.2766838581275656), (10.0, 0.0434727461688614)),
    "bessel_y0": ((0.5, -0.4445187335067066), (6.0, -0.2881946839815792), (10.0, 0.0556711672835994)),
    "bessel_y1": ((0.5, -1.4714723926702430), (6.0, -0.1750103443003982), (10.0, 0.2490154242069538)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_bessel_and_airy_against_known_values(name):
    points, values = zip(*KNOWN[name])
    ours = back(place(rl, name, OPS[name])(rl.tensor(points, dtype=rl.float64)))
    torch.testing.assert_close(ours, torch.tensor(values, dtype=torch.float64), rtol=2e-14, atol=2e-15)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_short_multiples_that_do_not_fit(dtype):
    """Products of short integers are ints in C, and lose their upper bits last."""
    a = torch.arange(-128, 128).to(getattr(torch, dtype)) * (1 if dtype.endswith("8") else 250)
    want = torch.lcm(a[:, None], a[::7])
    assert torch.equal(back(rl.lcm(mirror(a)[:, None], mirror(a)[::7])), want)


POWERS = [(1, 3 - 1j), (2, 8 - 6j), (3, 18 - 26j), (-1, 0.3 + 0.1j), (-2, 0.08 + 0.06j)]


@pytest.mark.parametrize("exponent, want", POWERS)
def test_whole_powers_of_complex_numbers_are_products(exponent: int, want: complex) -> None:
    x = rl.tensor([3 - 1j])
    found = (x**exponent).item()
    assert found == want if exponent > 0 else abs(found - want) < 1e-7
    y = x.clone().requires_grad_()
    (y**exponent).real.sum().backward()
    assert abs(y.grad.item() - (exponent * x ** (exponent - 1)).conj().item()) < 1e-4
