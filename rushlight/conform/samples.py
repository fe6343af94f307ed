"""What ops are called with: numbers made by the host, pointwise ops from the registry, the others from `calls.txt`.

Enters: nothing; the registry knows the ops. Leaves: `Sample`s, which are text, so that the script a vendor is given is
the very thing that ran. Numbers do not come from a generator: a device's generator is under test elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.op import Pointwise, definitions
from rushlight.op.registry import schemas_of
from rushlight.op.schema import parse

MIX = 2654435761            # an odd number near 2**32 over the golden ratio: neighbours come out far apart
LETTERS = "abcdefgh"
PLACES = (("rl", rl), ("rl.special", rl.special), ("F", rl.nn.functional))
INTEGERS = ("gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
            "bitwise_right_shift")
# Every bit is the host's, the sign of a zero too; and those whose numbers are, while the sign of a zero is left open.
EXACT = frozenset(
    "clone add sub rsub mul neg abs copysign floor ceil trunc round nextafter square".split()
)
EQUAL = frozenset(
    "relu relu6 hardtanh threshold sign sgn maximum minimum fmax fmin clamp_min clamp_max heaviside frac nan_to_num"
    " hardshrink softshrink frexp fmod".split()
)
# Kernels that take long to compile, of functions few programs call.
LONG = frozenset(
    "zeta polygamma airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1"
    " modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 i0"
    " i0e i1 i1e erfcx log_ndtr ndtr ndtri digamma lgamma lcm gcd polar sinc entr float_power logit true_divide"
    " xlog1py logaddexp2 isreal isposinf isneginf deg2rad rad2deg acosh asinh atanh celu rsub sgn heaviside mish selu"
    " hardsigmoid hardswish tanhshrink softsign softshrink hardshrink relu6".split()
)
# Required arguments that are no tensors, and numbers outside which an op is not defined.
NUMBERS = {("threshold", "threshold"): "0.5", ("threshold", "value"): "3.0", ("polygamma", "n"): "2"}
RANGES = {"zeta": "low=1.5, high=3.0", "digamma": "low=0.1", "lgamma": "low=0.1", "polygamma": "low=0.1",
          "bitwise_left_shift": "low=0, high=9", "bitwise_right_shift": "low=0, high=9"}


def values(
    *shape: int, dtype: rl.dtype = rl.float32, seed: int = 0, low: float = -2.0, high: float = 2.0
) -> rl.Tensor:
    """Numbers of the host in [low, high), all over it; whole ones for whole types, and both for bool."""
    count = 1
    for size in shape:
        count *= size
    mixed = ((rl.arange(1, count + 1) + 7919 * seed) * MIX) % (1 << 32)
    part = mixed.to(rl.float64) / (1 << 32)
    if dtype is rl.bool:
        return (part < 0.5).reshape(shape)
    if dtype.is_complex:
        one, other = (values(*shape, dtype=rl.float64, seed=s, low=low, high=high) for s in (seed, seed + 1))
        return rl.complex(one, other).to(dtype)
    if dtype is rl.uint8:
        low = max(low, 0.0)
    numbers = part * (high - low) + low
    return (numbers if dtype.is_floating_point else numbers.floor()).reshape(shape).to(dtype)


def whole(*shape: int, low: int = 0, high: int = 10, seed: int = 0, dtype: rl.dtype = rl.int64) -> rl.Tensor:
    """Whole numbers of the host, `high` not among them; with a type of fractions their sums are exact in any order."""
    return values(*shape, dtype=rl.int64, seed=seed, low=low, high=high).to(dtype)


def edges(dtype: rl.dtype = rl.float32) -> rl.Tensor:
    """The numbers at which kernels go wrong: NaN, infinities, zeros of both signs, halves; limits of whole types."""
    if dtype is rl.bool:
        return rl.tensor([True, False])
    if dtype.is_complex:
        return rl.tensor([complex(a, b) for a in (0.0, 1.0, -2.5) for b in (0.5, -0.0, 3.0)]).to(dtype)
    if not dtype.is_floating_point:
        about = rl.iinfo(dtype)
        low = [about.min, about.min + 1, -7, -1] if about.min else []
        return rl.tensor([*low, 0, 1, 2, 7, 100, about.max - 1, about.max], dtype=rl.int64).to(dtype)
    nan, inf = float("nan"), float("inf")
    return rl.tensor(
        [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.3, 6.0, -7.25, 21.5, 1e-3], dtype=rl.float64
    ).to(dtype)


def extremes(dtype: rl.dtype = rl.float32) -> rl.Tensor:
    """The ends of a floating type: its largest numbers, its smallest normal ones and those below, by both signs."""
    about = rl.finfo(dtype)
    least = about.smallest_normal * about.eps          # the smallest subnormal
    normal = about.smallest_normal
    ends = [about.max, normal, normal / 2, 3 * least, least, 1.0, about.eps, 1 + about.eps]
    return rl.tensor([sign * end for end in ends for sign in (1, -1)], dtype=rl.float64).to(dtype)


@dataclass(frozen=True)
class Sample:
    """One call: text, in terms of inputs a, b, c, …, which are text too."""

    name: str
    call: str
    inputs: tuple[str, ...]
    options: dict[str, float] = field(default_factory=dict)   # exact, rtol, atol for `same`
    quick: bool = True
    gradient: bool = True
    pointwise: bool = False

    @property
    def letters(self) -> str:
        return ", ".join(LETTERS[: len(self.inputs)])


@cache
def listed() -> tuple[Sample, ...]:
    """The calls of `calls.txt`."""
    lines = (Path(__file__).parent / "calls.txt").read_text(encoding="utf-8").splitlines()
    return tuple(read(line) for line in lines if line and not line.startswith("#"))


def read(line: str) -> Sample:
    """One line of `calls.txt`."""
    name, call, inputs, *rest = (part.strip() for part in line.split(" | "))
    words = rest[0].split() if rest else []
    options: dict[str, float] = {}
    for word in words:
        key, _, number = word.partition("=")
        if number:
            options[key] = float(number)
        elif key == "exact":
            options[key] = True
        elif key not in ("full", "nograd"):
            raise ValueError(f"calls.txt: {name}: unknown option {word!r}")
    return Sample(name, call, tuple(arguments(inputs)), options, "full" not in words, "nograd" not in words)


def arguments(text: str) -> Iterator[str]:
    """Expressions between commas that stand in no brackets."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            yield text[begin:at].strip()
            begin = at + 1
    yield text[begin:].strip()


@cache
def pointwise() -> tuple[Sample, ...]:
    """A call of each pointwise op that has a public name, from its schema: a tensor where it takes one."""
    found = (made(name) for name, classes in sorted(definitions.items())
             if all(issubclass(one, Pointwise) for one in classes) and name[0] != "_" and "::" not in name)
    return tuple(sample for sample in found if sample is not None)


def made(name: str) -> Sample | None:
    """The call of one pointwise op; None for what is no function of its own, or needs more than numbers."""
    place = next((text for text, module in PLACES if hasattr(module, name)), None)
    if place is None or name.endswith("_backward"):
        return None
    given: list[str] = []
    inputs: list[str] = []
    for param in parse(schemas_of(definitions[name][0])[0]).params:
        if not param.required:
            continue
        number = NUMBERS.get((name, param.name))
        if number is None and not param.type.startswith("Tensor"):
            return None
        if number is None:
            made_of = "whole" if name in INTEGERS else "values"
            terms = ["7", "13", *([f"seed={len(inputs)}"] if inputs else []), *filter(None, [RANGES.get(name)])]
            number = LETTERS[len(inputs)]
            inputs.append(f"{made_of}({', '.join(terms)})")
        given.append(number)
    if name in ("clamp", "fill", "masked_fill") or not inputs:
        return None                                       # calls.txt has them
    options: dict[str, float] = {"exact": True} if name in EXACT else {"rtol": 0, "atol": 0} if name in EQUAL else {}
    return Sample(f"{name}", f"{place}.{name}({', '.join(given)})", tuple(inputs), options, name not in LONG,
                  name not in INTEGERS and has_gradient(name), True)


def has_gradient(name: str) -> bool:
    """Whether an op is differentiated, by the rule of its kind, which reads nothing but attributes of the class."""
    kind: Any = definitions[name][0]
    return bool(kind.records(kind))


def vocabulary() -> dict[str, Any]:
    """The names that samples are written in."""
    return {"rl": rl, "F": rl.nn.functional, "values": values, "whole": whole, "edges": edges, "extremes": extremes}
