"""Windows as columns and back: nn.functional.unfold (im2col) and fold (col2im), each the other's gradient.

Enters: images [(batch,) channels, height, width], or columns [(batch,) channels * window, positions]. Leaves: the other.
Both are one generated kernel over planes in parallel. Refuses: sizes that hold no window, and column counts that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rushlight import _C
from rushlight.loops.expr import cast, const, ge, idiv, le, load, lt, max_, min_, select, var
from rushlight.loops.lowered import At, Lowered, Memory, Number
from rushlight.loops.nest import For, Local, Nest, Statement, Store, operands, rows
from rushlight.op import Loops, find_op
from rushlight.op.batching import folded, leading
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.pointwise import compile_for, compute_code
from rushlight.op.reduction import GRAIN, as_step, product

from .pool.sizes import per_dim
from .window.layout import ONE, ZERO

NUMBERS = ("kernel", "dilation", "padding", "stride")
SIZES = tuple(f"{name}{d}" for name in ("size", "out", *NUMBERS) for d in range(2))


class Columns(OpDefinition):
    """What both directions share: arguments per dim, and how many windows there are."""

    method = out = False
    kind = KIND_PLANNED
    unbatched: int      # dims of an argument without a batch

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def numbers(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> list[tuple[int, ...]]:
        found = [per_dim(self.name, label, value, 2) for label, value in zip(("kernel_size", *NUMBERS[1:]), (kernel_size, dilation, padding, stride), strict=True)]
        for label, values in zip(("kernel_size", *NUMBERS[1:]), found, strict=True):
            if min(values) < (0 if label == "padding" else 1):
                raise RuntimeError(f"{self.name}: {label} should be {'non-negative' if label == 'padding' else 'greater than zero'}, but got {list(values)}")
        return found

    def windows(self, size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]) -> list[int]:
        return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)]

    def kernel_for(self, t: Any, build: Any) -> Any:
        key = (t.dtype.code, t.device.type)
        found = self.kernels.get(key)
        if found is None:
            found = self.kernels[key] = as_step(compile_for(t.device, build(t.dtype.code)))
        return found

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Examples are one batch of images, or join the batch dim they have."""
        return (leading if args[0].ndim == self.unbatched else folded)(level, overload, args)

    def run(self, input: Any, *args: Any) -> Any:
        """Inputs in another memory order are copied first."""
        input = input.contiguous()
        return self.plan((input, *args))(input)


class Unfold(Columns, Loops):
    """Every window of the image as one column."""

    schema = "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor"
    aliases = ("nn.functional.unfold",)
    function = True
    unbatched = 3

    def lower(self, args):
        input = args[0]
        kernel, dilation, padding, stride = self.numbers(*args[1:])
        if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
            raise RuntimeError(f"unfold: expected an input with 3 dimensions, or 4 with a batch (which alone may be empty), got shape {list(input.shape)}")
        size = tuple(input.shape[-2:])
        out = self.windows(size, kernel, dilation, padding, stride)
        if any(n < 1 for n in out):
            raise RuntimeError(f"unfold: an input of spatial size {list(size)} with kernel_size={list(kernel)}, dilation={list(dilation)}, padding={list(padding)} gives {out} blocks. Expected at least one each way.")
        lead, code = tuple(input.shape[:-2]), input.dtype.code
        shape = (*input.shape[:-3], input.shape[-3] * product(kernel), product(out))
        given = [Number(f"{label}{d}", "i64", n[d]) for label, n in (("dilation", dilation), ("padding", padding)) for d in range(2)]
        given.append(Number("stride0", "i64", stride[0]))
        reads = (Memory("input", code, tuple(input.shape), input.stride()), *given)
        step = int(stride[1])      # part of the code: neighbours in memory are read as vectors

        def body(at: At, sources: Any) -> tuple:
            dilated, padded, down = ([s.value for s in sources[a:b]] for a, b in ((1, 3), (3, 5), (5, 6)))
            *front, ky, kx, y, x = at
            places = (y * down[0] + ky * dilated[0] - padded[0], x * const(step, "i64") + kx * dilated[1] - padded[1])
            inside, clamped = const(True, "b1"), []
            for place, n in zip(places, sources[0].shape[-2:], strict=True):
                inside = inside & ge(place, ZERO) & le(place, n - ONE)
                clamped.append(max_(min_(place, n - ONE), ZERO))       # read even where it is padding
            return (select(inside, sources[0][(*front, *clamped)], const(0, code)),)

        ranges = (*lead, *kernel, *out)
        through = frozenset(range(len(lead)))
        return Lowered("unfold", ("unfold", step), ranges, shape, (code,), reads, body, aligned=False, through=through)

    def vjp(self, g, input: Any, kernel_size, dilation, padding, stride):
        return {"input": find_op("col2im")(g, tuple(input.shape[-2:]), kernel_size, dilation, padding, stride)}


class Fold(Columns):
    """Columns added up where their windows were."""

    schema = "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor"
    aliases = ("nn.functional.fold",)
    function = True
    unbatched = 2

    def plan(self, args):
        input, size = args[0], per_dim("fold", "output_size", args[1], 2)
        kernel, dilation, padding, stride = numbers = self.numbers(*args[2:])
        if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
            raise RuntimeError(f"fold: expected an input with 2 dimensions, or 3 with a batch (which alone may be empty), got shape {list(input.shape)}")
        if input.shape[-2] % product(kernel):
            raise RuntimeError(f"fold: dimension 1 of input holds channels times kernel elements: expected a multiple of those of kernel_size={list(kernel)}, got {input.shape[-2]}.")
        out = self.windows(size, kernel, dilation, padding, stride)
        if any(n < 1 for n in out) or input.shape[-1] != product(out):
            raise RuntimeError(f"fold: Given output_size={list(size)}, kernel_size={list(kernel)}, dilation={list(dilation)}, padding={list(padding)}, stride={list(stride)}, expected dimension 2 of input to hold the {out[0]} * {out[1]} blocks, got input.size(2)={input.shape[-1]}.")
        if not input._is_contiguous():
            return None
        channels = input.shape[-2] // product(kernel)
        shape = (*input.shape[:-2], channels, *size)
        slots = [("new", input.dtype, shape, None, 0, 0)]
        if input.is_meta or 0 in shape:
            return _C.Plan(1, input.device, slots, [])
        params = [*size, *out, *(n for own in numbers for n in own)]
        work = product(kernel) * product(out) + product(size)
        step = (self.kernel_for(input, fold_nest), [0, 1], params, product(shape[:-2]), max(1, GRAIN // work), -1)
        return _C.Plan(1, input.device, slots, [step])

    def vjp(self, g, kernel_size, dilation, padding, stride):
        return {"input": find_op("im2col")(g, kernel_size, dilation, padding, stride)}


def covered(d: int, tap: Any) -> list[Statement]:
    """Locals low{d}, high{d}: the windows whose element `tap` lies inside the image; first{d}: where window 0 has it."""
    stride, size = var(f"stride{d}"), var(f"size{d}")
    first = tap * var(f"dilation{d}") - var(f"padding{d}")
    # Rounded up, for numerators of either sign.
    low = select(lt(first, ZERO), idiv(stride - ONE - var(f"first{d}"), stride), ZERO)
    past = size - ONE - var(f"first{d}")
    high = select(lt(past, ZERO), ZERO, idiv(past, stride) + ONE)
    return [
        Local(f"first{d}", first), Local(f"low{d}", min_(low, var(f"out{d}"))),
        Local(f"high{d}", max_(min_(high, var(f"out{d}")), var(f"low{d}"))),
    ]  # fmt: skip


def fold_nest(code: str) -> Nest:
    """A plane per iteration: cleared, then the rows of its columns are added one after another."""
    compute = compute_code(code)
    kh, kw, plane = var("kernel0"), var("kernel1"), var("size0") * var("size1")
    clear = For("z", ZERO, plane, (Store(1, var("i") * plane + var("z"), const(0, code)),), vector=True)
    source = (((var("i") * kh + var("ky")) * kw + var("kx")) * var("out0") + var("y")) * var("out1") + var("x")
    target = (var("i") * var("size0") + var("first0") + var("y") * var("stride0")) * var("size1") + var("first1") + var("x") * var("stride1")
    total = cast(load(1, target, code), compute) + cast(load(0, source, code), compute)
    line = For("x", var("low1"), var("high1"), (Store(1, target, cast(total, code)),), vector=True)
    taps = For("ky", ZERO, kh, (*covered(0, var("ky")), For("kx", ZERO, kw, (*covered(1, var("kx")), For("y", var("low0"), var("high0"), (line,))))))
    return Nest("fold", operands([code], [code]), SIZES, rows(clear, taps))
