"""Random fills (uniform_, normal_, random_, ...) and the factories made of them (rand, randn, randint, randperm).

Enters: tensors to overwrite, or sizes. Leaves: numbers drawn by the core's samplers, equal to PyTorch's CPU numbers for
the same seed on every device (others are filled on the host and copied). Refuses: parameters outside a distribution's
domain and dtypes PyTorch has no sampler for, with its exception types.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ... import _C
from ...base.bits import BITS
from ...base.dtype import finfo, iinfo
from ...base.tracebacks import users_level
from ...op import Composite, OpDefinition, Spec, find_op
from ...op.extern import own_function, own_or_reported
from ...op.factory import Factory, check_options, check_sizes, device_or_default
from ...planners.draws import Drawn
from ...rules import levels
from ...rules.out import resize_output
from ...rules.random_level import draw_into

FLOATS = (_C.float16, _C.bfloat16, _C.float32, _C.float64)
# Up to this power of two a type counts every integer.
DIGITS = {_C.float16: 11, _C.bfloat16: 8, _C.float32: 24, _C.float64: 53}
COUNTABLE = frozenset((_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, *FLOATS))


def draw(name: str, generator: Any, out: Any, *parameters: Any, reads: tuple = ()) -> Any:
    """Fill `out` by the core's sampler `name`; tensors in `reads` give per-element parameters."""
    if levels.state.stack or out._wrapped is not None:
        return draw_into(name, out, lambda t: _draw(name, generator, t, parameters, reads))
    if out._keys & BITS:
        return drawn_through_bits(out, lambda t: _draw(name, generator, t, parameters, reads))
    return _draw(name, generator, out, parameters, reads)


def drawn_through_bits(out: Any, fill: Callable[[Any], Any]) -> Any:
    """`out`, whose memory holds the conjugates or negatives of its elements, with the elements that `fill` draws."""
    return out.copy_(fill(out.clone()))


def _draw(name: str, generator: Any, out: Any, parameters: tuple, reads: tuple) -> Any:
    reads = tuple([r.resolve_neg() for r in reads])
    if not _C.sample(generator, name, (out, *reads), *parameters) and not out.is_meta:
        own = own_or_reported(f"random_{name}", out.device)
        if own is not None:
            own(out, generator, *reads, *parameters)
            return out
        host = _C.empty(out.shape, out.stride() if out._is_dense() else None, out.dtype, "cpu")
        _C.sample(host_generator(generator, out.device), name, (host, *(r.to("cpu") for r in reads)), *parameters)
        out.copy_(host)
    return out


def host_generator(generator: Any, device: Any) -> Any:
    """What the host draws from for a device: its own generator, or one that follows from the device's."""
    if generator is None and own_function("random_uniform", device) is not None:
        generator = _C.device_generator(device)
    if generator is None or generator.device.type == "cpu":
        return generator
    offset = generator.get_offset()
    generator.set_offset(offset + 4)
    return _C.Generator().manual_seed((generator.initial_seed() + 0x9E3779B97F4A7C15 * (offset // 4 + 1)) % (1 << 64))


def as_real(t: Any) -> Any:
    """A complex tensor's memory seen as pairs of reals."""
    strides = (*(2 * s for s in t.stride()), 1)
    return _C.alias(t, (*t.shape, 2), strides, 2 * t.storage_offset(), t.dtype.to_real())


def refuse_dtype(name: str, dtype: Any) -> None:
    """Raise for a dtype the sampler does not exist for."""
    raise NotImplementedError(f'"{name}" not implemented for {dtype.name} tensors')


def refuse(name: str, expectation: str, got: Any) -> None:
    """Raise for a parameter outside the distribution's domain."""
    raise RuntimeError(f"{name}: expected {expectation}, got {got}.")


def to_single(value: float) -> float:
    """`value` rounded to float32."""
    return struct.unpack("f", struct.pack("f", value))[0]


# --- laws: parameters checked once per dtype, as what the core's sampler is called with -------------------------------


@lru_cache(maxsize=1024)
def uniform_law(dtype: Any, low: float, high: float) -> tuple:
    """Uniform numbers in [low, high)."""
    real = dtype.to_real() if dtype.is_complex else dtype
    if real not in FLOATS:
        refuse_dtype("uniform_", dtype)
    largest = finfo(real).max
    for label, bound in (("from", low), ("to", high)):
        if not -largest <= bound <= largest:
            raise RuntimeError(f"uniform_: {label} is out of bounds for {dtype.name}, got {bound}.")
    if low > high:
        raise RuntimeError(f"uniform_: expected a [from, to) range, got from={low} > to={high}.")
    if high - low > largest:
        raise RuntimeError(f"uniform_: expected to - from <= {largest}, got from={low} and to={high}.")
    return "uniform", low, high


@lru_cache(maxsize=1024)
def normal_law(dtype: Any, mean: float, std: float) -> tuple:
    """Normal numbers; the parts of complex ones share the variance."""
    if not std >= 0:
        refuse("normal", "std >= 0.0", std)
    if dtype.is_complex:
        return "normal", mean, std / math.sqrt(2)
    if dtype not in FLOATS:
        refuse_dtype("normal", dtype)
    return "normal", mean, std


@lru_cache(maxsize=1024)
def bernoulli_law(dtype: Any, p: float) -> tuple:
    """One with probability p, else zero."""
    if not 0 <= p <= 1:
        refuse("bernoulli_", "p to be in [0, 1]", p)
    if dtype not in COUNTABLE:
        refuse_dtype("bernoulli_", dtype)
    return "bernoulli", p, 1.0


def draw_law(law: tuple, out: Any, generator: Any) -> Any:
    """Fill `out`, of any dtype, by a law made for it."""
    if _C.is_unseen(out) and not out.dtype.is_complex:
        _C.sample(generator, law[0], (out,), *law[1:])
        return out
    if levels.state.stack or out._wrapped is not None:
        return draw_into(law[0], out, lambda t: _draw_law(law, t, generator))
    if out._keys & BITS:
        return drawn_through_bits(out, lambda t: _draw_law(law, t, generator))
    return _draw_law(law, out, generator)


def _draw_law(law: tuple, out: Any, generator: Any) -> Any:
    target = as_real(out) if out.dtype.is_complex else out
    if not _C.sample(generator, law[0], (target,), *law[1:]):
        draw(law[0], generator, target, *law[1:])
    return out


def fill_normal(out: Any, mean: float, std: float, generator: Any) -> Any:
    """Normal numbers."""
    return draw_law(normal_law(out.dtype, mean, std), out, generator)


def fill_bernoulli(out: Any, p: float, generator: Any, one: float = 1.0) -> Any:
    """`one` with probability p, else zero."""
    name, p, _ = bernoulli_law(out.dtype, p)
    return draw_law((name, p, one), out, generator)


def fill_bernoulli_tensor(out: Any, p: Any, generator: Any) -> Any:
    """One with the probability the tensor `p` gives each element, else zero."""
    if out.dtype not in COUNTABLE:
        refuse_dtype("bernoulli_", out.dtype)
    if p.dtype not in FLOATS:
        refuse_dtype("bernoulli_: p", p.dtype)
    if _C.is_unseen(out, p) and p.shape == out.shape:
        _C.sample(generator, "bernoulli_tensor", (out, p))
        return out
    return draw("bernoulli_tensor", generator, out, reads=(p.detach().expand(out.shape),))


def fill_exponential(out: Any, rate: float, generator: Any) -> Any:
    """Exponential numbers of the given rate."""
    if out.dtype not in FLOATS:
        refuse("exponential_", "a floating point dtype, the distribution being continuous", out.dtype.name)
    if not rate > 0:
        refuse("exponential_", "lambd > 0.0", rate)
    return draw("exponential", generator, out, rate)


# --- integers ---------------------------------------------------------------------------------------------------------


def _range_of(dtype: Any) -> tuple[int, int]:
    """The smallest and the largest integer `dtype` can hold at all."""
    if dtype is _C.bool:
        return 0, 1
    if dtype in FLOATS:
        largest = int(finfo(dtype).max)
        return -largest, largest
    if dtype.is_complex or dtype.is_floating_point:
        raise RuntimeError(f"random_: expected an integral, floating point or boolean tensor, got {dtype.name}.")
    limits = iinfo(dtype)
    return limits.min, limits.max


def _round_integer(value: int, digits: int) -> int:
    """`value` rounded to `digits` significant bits, ties to even: what a float of that many keeps of it."""
    extra = abs(value).bit_length() - digits
    if extra <= 0:
        return value
    unit = 1 << extra
    low, rest = divmod(abs(value), unit)
    low += rest * 2 > unit or (rest * 2 == unit and low & 1)
    return (low * unit) * (1 if value > 0 else -1)


def _representable_from(low: int, digits: int) -> int:
    """The first integer from `low` on that survives rounding."""
    rounded = _round_integer(low + 1, digits)
    if rounded >= low:
        return low
    return rounded + (1 << max(abs(low + 1).bit_length() - 1 - digits + 1, 0))


def _representable_to(high: int, digits: int) -> int:
    """The end of a range whose last integer survives rounding."""
    rounded = _round_integer(high - 1, digits)
    if rounded < high:
        return high
    return rounded - (1 << max(abs(high - 1).bit_length() - 1 - digits + 1, 0))


@lru_cache(maxsize=1024)
def integer_law(dtype: Any, low: int, high: int | None) -> tuple[tuple, str | None]:
    """Integers in [low, high), or without `high` up to the last one the dtype counts to; and a warning, or None."""
    for value in (low, high):
        if value is not None and not -(2**63) <= value < 2**63:
            raise ValueError(f"random_: overflow, expected bounds that fit 64 bits, got {value}.")
    if high is None and low == -(2**63):
        return _whole_range_law(dtype), None
    digits = DIGITS.get(dtype)
    if high is not None:
        end = high
    else:
        end = _range_of(dtype)[1] + 1 if digits is None else (1 << digits) + 1
    if low >= end:
        raise RuntimeError(f"random_: expected 'from' to be less than 'to', got from={low} >= to={end}.")
    if digits is not None:
        low = _representable_from(low, digits)
        end = _representable_to(end, digits) if high is not None else end
        if low >= end:
            raise RuntimeError(f"random_: from={low} >= to={end} once rounded to what {dtype.name} can hold.")
    smallest, largest = _range_of(dtype)
    warning = None
    for label, value in (("from", low), ("to - 1", end - 1)):
        if not smallest <= value <= min(largest, 2**63 - 1):
            raise RuntimeError(f"random_: {label} is out of bounds for {dtype.name}, got {value}.")
        limit = 1 << (digits or 64)
        if not -limit <= value <= limit:
            warning = (
                f"random_: {label} is outside [-{limit}, {limit}], where {dtype.name} counts every integer; got {value}"
            )
    return ("range", end - low, low), warning


def _whole_range_law(dtype: Any) -> tuple:
    if dtype in (_C.int64, _C.float64, _C.float32, _C.bfloat16):
        return ("bits64",)
    if dtype in (_C.bool, _C.float16) or dtype.is_complex:
        refuse_dtype("random_", dtype)
    raise RuntimeError(f"random_: the whole 64-bit range needs int64, float64, float32 or bfloat16, got {dtype.name}.")


def checked_integer_law(dtype: Any, low: int, high: int | None) -> tuple:
    """The law alone, its warning issued."""
    law, warning = integer_law(dtype, low, high)
    if warning is not None:
        warnings.warn(warning, UserWarning, stacklevel=users_level())
    return law


def fill_integers(out: Any, low: int, high: int | None, generator: Any) -> Any:
    """Integers in [low, high); without `high`, up to the last one the dtype counts to."""
    return draw_law(checked_integer_law(out.dtype, low, high), out, generator)


# --- fills, as ops ----------------------------------------------------------------------------------------------------


class Fill(OpDefinition):
    """An op that only exists in place and forgets what its tensor held, so that gradients end at it."""

    function = False
    out = False
    batch = "random"

    def __init__(self, schema: Any, is_inplace: bool = False) -> None:
        super().__init__(schema)
        self.is_inplace = True

    def vjp(self, g):
        return {"input": g.new_zeros(g.shape)}


class UniformFill(Fill, Drawn):
    """Overwrite with uniform numbers in [from, to)."""

    schema = "uniform_(Tensor(a!) input, float from=0, float to=1, *, Generator? generator=None) -> Tensor(a!)"

    def law(self, dtype, low, high):
        return uniform_law(dtype, low, high)

    def run(self, input, low, high, generator):
        return draw_law(uniform_law(input.dtype, low, high), input, generator)


class NormalFill(Fill, Drawn):
    """Overwrite with normal numbers."""

    schema = "normal_(Tensor(a!) input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)"

    def law(self, dtype, mean, std):
        return normal_law(dtype, mean, std)

    def run(self, input, mean, std, generator):
        return draw_law(normal_law(input.dtype, mean, std), input, generator)


class LogNormalFill(Fill):
    """Overwrite with exponentials of normal numbers; mean and std are those of the normal ones."""

    schema = "log_normal_(Tensor(a!) input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, mean, std, generator):
        if not std > 0:
            refuse(self.name, "std > 0.0", std)
        if input.dtype not in FLOATS:
            refuse_dtype(self.name, input.dtype)
        return draw("log_normal", generator, input, mean, std)


class CauchyFill(Fill):
    """Overwrite with numbers from the Cauchy distribution."""

    schema = "cauchy_(Tensor(a!) input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, median, sigma, generator):
        if not sigma > 0:
            refuse(self.name, "sigma > 0.0", sigma)
        if input.dtype not in FLOATS:
            refuse(self.name, "a floating point dtype, the distribution being continuous", input.dtype.name)
        return draw("cauchy", generator, input, median, sigma)


class ExponentialFill(Fill):
    """Overwrite with exponential numbers of rate `lambd`."""

    schema = "exponential_(Tensor(a!) input, float lambd=1, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, lambd, generator):
        return fill_exponential(input, lambd, generator)


class GeometricFill(Fill):
    """Overwrite with the number of trials up to the first success of probability p."""

    schema = "geometric_(Tensor(a!) input, float p, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, p, generator):
        if not 0 < p < 1:
            refuse(self.name, "p to be in (0, 1)", p)
        if input.dtype not in COUNTABLE or input.dtype is _C.bool:
            refuse_dtype(self.name, input.dtype)
        return draw("geometric", generator, input, p)


class BernoulliFill(Fill, Drawn):
    """Overwrite with ones of probability p, and zeros."""

    schema = "bernoulli_(Tensor(a!) input, float p=0.5, *, Generator? generator=None) -> Tensor(a!)"

    def law(self, dtype, p):
        return bernoulli_law(dtype, p)

    def run(self, input, p, generator):
        return fill_bernoulli(input, p, generator)


class BernoulliTensorFill(Fill):
    """Overwrite with ones, of the probability that `p` (broadcast) gives each element, and zeros."""

    schema = "bernoulli_.Tensor(Tensor(a!) input, Tensor p, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, p, generator):
        return fill_bernoulli_tensor(input, p, generator)

    def vjp(self, g, p: Any):
        return {"input": g.new_zeros(g.shape), "p": g.new_zeros(p.shape)}


class RandomFill(Fill):
    """Overwrite with integers in [from, to)."""

    schema = "random_.from(Tensor(a!) input, int from, int? to, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, low, high, generator):
        return fill_integers(input, low, high, generator)


class RandomToFill(Fill):
    """Overwrite with integers in [0, to)."""

    schema = "random_.to(Tensor(a!) input, int to, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, high, generator):
        return fill_integers(input, 0, high, generator)


class RandomFullFill(Fill):
    """Overwrite with integers from zero to the last one the dtype counts to."""

    schema = "random_(Tensor(a!) input, *, Generator? generator=None) -> Tensor(a!)"

    def run(self, input, generator):
        if input.dtype not in COUNTABLE:
            refuse_dtype("random_", input.dtype)
        return draw("full", generator, input)


# --- the same as new tensors, which is what functional programs hold instead of fills ---------------------------------


class Filled(Composite):
    """A tensor like `input`, which gives shape, dtype and device alone, filled by the op that is called so with `_`."""

    function = method = out = False
    differentiable = False
    batch = "random"
    is_composite = False     # drawing is no op of the body: recorders must see this one

    def compute(self, input: Any, *args: Any) -> Any:
        *own, generator = args
        target = find_op("empty_like")(input.detach())
        return find_op(self.spec.name.removesuffix("_functional") + "_")(target, *own, generator=generator)


class Uniform(Filled):
    """Uniform numbers in [from, to), shaped like `input`."""

    schema = "uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor"


class NormalFunctional(Filled):
    """Normal numbers, shaped like `input`."""

    schema = "normal_functional(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"


class LogNormal(Filled):
    """Exponentials of normal numbers, shaped like `input`."""

    schema = "log_normal(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"


class Cauchy(Filled):
    """Numbers from the Cauchy distribution, shaped like `input`."""

    schema = "cauchy(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"


class Exponential(Filled):
    """Exponential numbers of rate `lambd`, shaped like `input`."""

    schema = "exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor"


class Geometric(Filled):
    """Numbers of trials up to the first success of probability p, shaped like `input`."""

    schema = "geometric(Tensor input, float p, *, Generator? generator=None) -> Tensor"


class Random(Filled):
    """Integers, shaped like `input`: in [from, to), in [0, to), or up to the last one the dtype counts to."""

    schema = (
        "random.from(Tensor input, int from, int? to, *, Generator? generator=None) -> Tensor",
        "random.to(Tensor input, int to, *, Generator? generator=None) -> Tensor",
        "random(Tensor input, *, Generator? generator=None) -> Tensor",
    )


class BernoulliFunctional(Filled):
    """Ones, of probability p, or of that which `p` (broadcast) gives each element, and zeros, laid out like `input`."""

    schema = (
        "bernoulli_functional(Tensor input, float p=0.5, *, Generator? generator=None) -> Tensor",
        "bernoulli_functional.Tensor(Tensor input, Tensor p, *, Generator? generator=None) -> Tensor",
    )


# --- factories --------------------------------------------------------------------------------------------------------

OPTIONS = (
    "*, Generator? generator=None, Tensor? out=None, dtype? dtype=None, layout? layout=None, device? device=None, "
    "bool? pin_memory=False, bool requires_grad=False"
)
LIKE_OPTIONS = (
    "*, Generator? generator=None, dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False,"
    " bool requires_grad=False, memory_format? memory_format=None"
)


UNASKED = (None, None, None, False, False, None)      # the options behind `generator`, where a call gives none


class RandomFactory(Factory):
    """A new tensor (or `out`) filled by a law. Own parameters come first, `size` being the last of them.

    A plain call becomes a plan: the core allocates and comes back for the draws alone.
    """

    out = False
    batch = "random"

    def law(self, dtype: Any, *own: Any) -> tuple:
        """The sampler and its parameters; receives the own parameters without the size."""
        raise NotImplementedError

    def is_planned(self, args: tuple) -> bool:
        *_, generator, out, _, _, _, _, requires_grad = args
        return generator is None and out is None and not requires_grad

    def split(self, args: tuple) -> tuple[tuple, Any, Any, bool]:
        own, dtype, device, requires_grad = super().split(args)
        return own[:-2], dtype, device, requires_grad      # without generator and out

    def spec_and_content(self, own: tuple, dtype: Any, device: Any) -> tuple[Spec, Any]:
        left = list(own)
        size = self.size(left)
        check_sizes(self.name, size)
        law = self.law(dtype, *left)
        if device.type != "cpu" or dtype.is_complex:
            return Spec(size, dtype), lambda target: draw_law(law, target, None)
        name, *parameters = law
        return Spec(size, dtype), lambda target: _C.sample(None, name, (target,), *parameters)

    def run(self, *args: Any) -> Any:
        *own, generator, out, dtype, layout, device, pin_memory, requires_grad = args
        check_options(self.name, layout, pin_memory)
        size = self.size(own)
        check_sizes(self.name, size)
        target = empty_target(self.name, size, out, dtype, device, self.dtype())
        draw_law(self.law(target.dtype, *own), target, generator)
        if out is not None:
            _C.bump_version(out)
        target = target.pin_memory() if pin_memory else target
        return target.requires_grad_() if requires_grad else target

    def size(self, own: list[Any]) -> tuple[int, ...]:
        """Takes the sizes off the own parameters."""
        size = own.pop()
        if not isinstance(size, (tuple, list)):
            raise TypeError(f"{self.name}(): argument 'size' must be tuple of ints, not {type(size).__name__}")
        return tuple(size)


def empty_target(name: str, size: tuple[int, ...], out: Any, dtype: Any, device: Any, default: Any) -> Any:
    """`out`, checked and given its size, or a new tensor."""
    if out is None:
        return _C.empty(size, None, dtype or default, device_or_default(device))
    if dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"{name}: dtype {dtype.name} does not match dtype of out parameter ({out.dtype.name}).")
    if device is not None and _C.device(device) != out.device:
        raise RuntimeError(f"{name}: device {device} does not match device of out parameter ({out.device}).")
    if out.requires_grad and _C.is_grad_enabled():
        raise RuntimeError(f"{name}: out= does not support automatic differentiation, "
                           "and an argument requires grad.")
    if tuple(out.shape) != size:
        resize_output(out, size)
    return out


class Rand(RandomFactory):
    """Uniform numbers in [0, 1)."""

    schema = f"rand(int[] size, {OPTIONS}) -> Tensor"

    def law(self, dtype):
        return uniform_law(dtype, 0.0, 1.0)


class Randn(RandomFactory):
    """Normal numbers of mean 0 and deviation 1; complex ones have variance 1 over both parts."""

    schema = f"randn(int[] size, {OPTIONS}) -> Tensor"

    def law(self, dtype):
        return normal_law(dtype, 0.0, 1.0)


class Randint(RandomFactory):
    """Integers in [low, high), low being 0 if not given."""

    schema = (
        f"randint(int high, any size, {OPTIONS}) -> Tensor",
        f"randint.low(int low, int high, any size, {OPTIONS}) -> Tensor",
    )

    def dtype(self, *own):
        return _C.int64

    def law(self, dtype, *bounds):
        return checked_integer_law(dtype, bounds[0] if len(bounds) == 2 else 0, bounds[-1])


class Randperm(RandomFactory):
    """A permutation of 0 .. n - 1."""

    schema = f"randperm(int n, {OPTIONS}) -> Tensor"

    def dtype(self, *own):
        return _C.int64

    def size(self, own):
        return (own[0],)

    def law(self, d, n):
        if d not in COUNTABLE or d is _C.bool:
            refuse_dtype("randperm", d)
        limit = iinfo(d).max if not d.is_floating_point else 2**63 if d is _C.bfloat16 else 1 << DIGITS[d]
        if n - 1 > limit:
            raise RuntimeError(f"randperm: n={n} is too large for {d.name}, overflow beyond {limit}.")
        return ("permutation",)


class RandomLike(Composite):
    """As RandomFactory, with the shape (and unless given, dtype, device and strides) of a tensor."""

    method = False
    out = False
    differentiable = False
    batch = "random"
    is_composite = False     # drawing is no op of the body: recorders must see this one

    def compute(self, input: Any, *rest: Any) -> Any:
        if rest[-6:] == UNASKED and _C.is_unseen(input):
            return draw_law(self.law(input.dtype, *rest[:-7]), find_op("empty_like")(input), rest[-7])
        *own, generator, dtype, layout, device, pin_memory, requires_grad, memory_format = rest
        check_options(self.name, layout, pin_memory)
        target = find_op("empty_like")(
            input.detach(), dtype=dtype, device=device, pin_memory=pin_memory, memory_format=memory_format
        )
        if levels.state.stack:      # the body is what levels below see: they must see the draw as well
            self.fill(target, *own, generator=generator)
        else:
            draw_law(self.law(target.dtype, *own), target, generator)
        return target.requires_grad_() if requires_grad else target

    def fill(self, target: Any, *own: Any, generator: Any) -> Any:
        """The same draw as an op on its target."""
        raise NotImplementedError


class RandLike(Drawn, RandomLike):
    """Uniform numbers in [0, 1), shaped like `input`."""

    schema = f"rand_like(Tensor input, {LIKE_OPTIONS}) -> Tensor"
    keeps_strides = True
    law = Rand.law

    def fill(self, target, *, generator):
        return target.uniform_(generator=generator)


class RandnLike(Drawn, RandomLike):
    """Normal numbers, shaped like `input`."""

    schema = f"randn_like(Tensor input, {LIKE_OPTIONS}) -> Tensor"
    keeps_strides = True
    law = Randn.law

    def fill(self, target, *, generator):
        return target.normal_(generator=generator)


class RandintLike(Drawn, RandomLike):
    """Integers in [low, high), shaped like `input`."""

    schema = (
        f"randint_like(Tensor input, int high, {LIKE_OPTIONS}) -> Tensor",
        f"randint_like.low(Tensor input, int low, int high, {LIKE_OPTIONS}) -> Tensor",
    )
    keeps_strides = True
    law = Randint.law

    def is_planned(self, args):
        bounds = args[1:-7]
        warning = integer_law(args[0].dtype, bounds[0] if len(bounds) == 2 else 0, bounds[-1])[1]
        return warning is None      # what warns does so each time

    def fill(self, target, *bounds, generator):
        return target.random_(bounds[0] if len(bounds) == 2 else 0, bounds[-1], generator=generator)


class NormalFactory(RandomFactory):
    """Normal numbers of one mean and deviation."""

    schema = f"normal.float(float mean, float std, any size, {OPTIONS}) -> Tensor"

    def law(self, dtype, mean, std):
        return normal_law(dtype, mean, std)
