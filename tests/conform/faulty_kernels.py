"""Chips whose kernels compute something else: one fault each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.loops import expr
from rushlight.loops.expr import Value, cast, const, select
from rushlight.loops.nest import Check, For, Nest, Statement, Store

from .chips import SoundChip
from .fault import fault, statements, with_statements, with_values

FLOATS = ("f16", "bf16", "f32", "f64")


@fault("ops")
class TailsDropped(SoundChip):
    """Loops over many elements stop at the last whole vector of eight."""

    def written(self, nest: Nest) -> Nest:
        def change(s: Statement) -> Statement:
            if not (isinstance(s, For) and s.vector):
                return s
            count = s.stop - s.start
            whole = select(expr.gt(count, const(64, "i64")), s.stop - expr.irem(count, const(8, "i64")), s.stop)
            return For(s.var, s.start, whole, s.body, s.vector, s.ahead, s.transposed, s.going)

        return with_statements(nest, change)


@fault("ops")
class LongProductsCut(SoundChip):
    """Products of matrices look at the first 512 of the numbers that are added up."""

    def implementation(self, op: str) -> Callable | None:
        if op != "matmul":
            return super().implementation(op)

        def product(out: Any, a: Any, b: Any, *rest: Any) -> None:
            left, right = a.cpu()[..., :512], b.cpu()
            out.copy_(left @ (right[:512] if right.ndim == 1 else right[..., :512, :]))

        return product


@fault("ops")
class NanLostInMaximum(SoundChip):
    """The larger of a NaN and a number is the number."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "call" and v.attr in ("maximum", "minimum"):
                a, b = v.args
                ordered = expr.gt(a, b) if v.attr == "maximum" else expr.lt(a, b)
                return select(expr.or_(ordered, expr.ne(b, b)), a, b)
            return None

        return with_values(nest, rule)


@fault("ops")
class NansAreEqual(SoundChip):
    """Comparing a number with itself is taken for granted, as compilers do that were told of no NaN."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op in ("eq", "ne") and v.args[0] is v.args[1]:
                return const(v.op == "eq", "b1")
            return None

        return with_values(nest, rule)


@fault("ops")
class NegativeZeroLost(SoundChip):
    """-x is computed as 0 - x."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            is_negated = v.op == "neg" and v.dtype in FLOATS
            return expr.node("sub", (const(0.0, v.dtype), v.args[0]), v.dtype) if is_negated else None

        return with_values(nest, rule)


@fault("ops")
class SubnormalsFlushed(SoundChip):
    """Numbers of float32 below the smallest normal one are read as zero."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op in ("arg", "load") and v.dtype == "f32":
                return select(expr.lt(expr.abs_(v), const(2.0**-126, "f32")), v * 0.0, v)
            return None

        return with_values(nest, rule)


@fault("ops")
class RowsBeyondAGridLost(SoundChip):
    """A launch runs at most 65,535 iterations of its outer loop: what a grid's second dim holds."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        super().run(handle, places, params, begin, min(end, begin + 65_535))


@fault("ops")
class BroadcastReadsOn(SoundChip):
    """A row that is broadcast along the inner dim is read as if its elements were side by side."""

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        if handle.nest.point and 1 < params[0] < 4096:
            changed = list(params)
            for k, operand in enumerate(handle.nest.operands[:-1]):
                if not changed[1 + k] and not isinstance(pointers[k], bytes):
                    changed[1 + k] = expr.BITS[operand.code] // 8
            params = changed
        super().launch(handle, pointers, params, begin, end, index, stream)


@fault("ops")
class QuickExponentials(SoundChip):
    """exp has 12 bits."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "call" and v.attr == "exp" and v.dtype == "f32":
                bits = expr.and_(expr.bitcast(v, "u32"), const(0xFFFFF000, "u32"))
                return expr.bitcast(bits, "f32")
            return None

        return with_values(nest, rule)


@fault("dtypes")
class RootsAreNotRounded(SoundChip):
    """sqrt is off by a few units of the last place, as one made of an estimate is."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            return v * (1 + 2.0**-21) if v.op == "sqrt" and v.dtype == "f32" else None

        return with_values(nest, rule)


@fault("dtypes")
class DivisionByReciprocals(SoundChip):
    """a / b is a * (1 / b), which is rounded twice."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "div" and v.dtype in ("f32", "f64") and not expr.is_const(v.args[0]):
                return v.args[0] * expr.node("div", (const(1.0, v.dtype), v.args[1]), v.dtype)
            return None

        return with_values(nest, rule)


@fault("dtypes")
class DoublesInSingle(SoundChip):
    """Arithmetic of float64 is done in float32."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.dtype == "f64" and v.op in ("add", "sub", "mul", "div", "sqrt"):
                return cast(cast(v, "f32"), "f64")
            return None

        return with_values(nest, rule)


@fault("dtypes")
class IntegersSaturate(SoundChip):
    """Sums of int32 beyond its limits stay at the limit."""

    def written(self, nest: Nest) -> Nest:
        low, high = const(-(2**31), "i64"), const(2**31 - 1, "i64")

        def rule(v: Value) -> Value | None:
            if v.dtype == "i32" and v.op in ("add", "sub", "mul"):
                wide = expr.node(v.op, (cast(v.args[0], "i64"), cast(v.args[1], "i64")), "i64")
                return cast(expr.max_(expr.min_(wide, high), low), "i32")
            return None

        return with_values(nest, rule)


@fault("dtypes")
class LongIntegersCut(SoundChip):
    """Elements of int64 are computed with as int32."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            return cast(cast(v, "i32"), "i64") if v.op == "arg" and v.dtype == "i64" else None

        return with_values(nest, rule)


@fault("dtypes")
class BytesAreSigned(SoundChip):
    """uint8 is read as int8."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "cast" and v.args[0].dtype == "u8" and v.dtype not in ("b1", "i8"):
                return cast(expr.bitcast(v.args[0], "i8"), v.dtype)
            return None

        return with_values(nest, rule)


@fault("dtypes")
class BfloatTakenForHalf(SoundChip):
    """bfloat16 is read as float16."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "cast" and v.args[0].dtype == "bf16" and v.args[0].op in ("arg", "load"):
                return cast(expr.bitcast(expr.bitcast(v.args[0], "u16"), "f16"), v.dtype)
            return None

        return with_values(nest, rule)


@fault("dtypes")
class KernelsConfusedByName(SoundChip):
    """Kernels are kept by name, so that add of int32 is what add of float32 was made for."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.kept: dict[Any, Any] = {}

    def key(self, nest: Nest) -> Any:
        return nest.name, len(nest.operands), nest.params, sum(expr.BITS[o.code] for o in nest.operands)

    def load(self, nest: Nest) -> Any:
        key = self.key(nest)
        if key not in self.kept:
            self.kept[key] = super().load(nest)
        return self.kept[key]


@fault("dtypes")
class ParametersCut(SoundChip):
    """Numbers given to kernels beside their operands are int32."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        super().run(handle, places, [ctypes.c_int32(p).value for p in params], begin, end)


@fault("dtypes")
class ConstantsCut(SoundChip):
    """Small constants have four bytes; the others are zero."""

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        short = [p[:4] + bytes(max(12, len(p) - 4)) if isinstance(p, bytes) else p for p in pointers]
        super().launch(handle, short, params, begin, end, index, stream)


@fault("gradients")
class AddedUpdatesLost(SoundChip):
    """Adding to elements that are looked up overwrites them."""

    def written(self, nest: Nest) -> Nest:
        def change(s: Statement) -> Statement:
            if not (isinstance(s, Store) and s.index is not None):
                return s
            if s.combine == "add":
                return Store(s.operand, s.index, s.value)
            there = expr.load(s.operand, s.index, s.value.dtype)
            if s.value.op == "add" and there in s.value.args and any(v.op == "load" for v in expr.walk((s.index,))):
                other = s.value.args[s.value.args[0] is there]
                return Store(s.operand, s.index, other)
            return s

        return with_statements(nest, change)


@fault("gradients")
class LongColumnsCut(SoundChip):
    """Sums down the columns of a matrix look at 32 rows: gradients of what was broadcast."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        nest = handle.nest
        if nest.name == "sum_columns" and "r0" in nest.params:
            at = nest.params.index("r0")
            params[at] = min(params[at], 32)
        super().run(handle, places, params, begin, end)


# Errors
# ---------------------------------------------------------------------------------------------------------------------


@fault("errors")
class ChecksNotWritten(SoundChip):
    """A kernel that meets a bad index leaves it out and says nothing."""

    def written(self, nest: Nest) -> Nest:
        return with_statements(
            nest, lambda s: Check(s.condition, s.cell, const(0, "i64")) if isinstance(s, Check) else s
        )


@fault("errors")
class ChecksSayWhatTheyLike(SoundChip):
    """A kernel that meets a bad index writes down another one."""

    def written(self, nest: Nest) -> Nest:
        return with_statements(
            nest, lambda s: Check(s.condition, s.cell, const(64 * 12, "i64")) if isinstance(s, Check) else s
        )


@fault("errors")
class IndicesCut(SoundChip):
    """An index is int32 when it is looked at: 2**32 is 0."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            return cast(cast(v, "i32"), "i64") if v.op == "load" and v.dtype == "i64" else None

        return with_values(nest, rule)


@fault("errors")
class ZerosAreDividedBy(SoundChip):
    """Nobody looks for zeros before integers are divided."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        if handle.nest.name != "zero_check":
            super().run(handle, places, params, begin, end)


@fault("errors")
class ErrorsStay(SoundChip):
    """What a kernel wrote down is not wiped out when it was read."""

    def load(self, nest: Nest) -> Any:
        kernel = super().load(nest)
        kernel.checks = any(isinstance(s, Check) for s in statements(nest.loop))
        return kernel

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.cells: set[int] = set()

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        super().run(handle, places, params, begin, end)
        if handle.checks:
            self.cells.add(places[len(handle.nest.operands) - 1])

    def move(self, target: int, source: int, nbytes: int) -> None:
        if target not in self.cells:
            super().move(target, source, nbytes)


# Mixed precision, compiled programs, training
# ---------------------------------------------------------------------------------------------------------------------


@fault("amp")
class HalvesTruncated(SoundChip):
    """float32 becomes bfloat16 by leaving bits out."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "cast" and v.dtype == "bf16" and v.args[0].dtype == "f32":
                bits = expr.and_(expr.bitcast(v.args[0], "u32"), const(0xFFFF0000, "u32"))
                return cast(expr.bitcast(bits, "f32"), "bf16")
            return None

        return with_values(nest, rule)


@fault("amp")
class HalvesSaturate(SoundChip):
    """What is too large for float16 becomes its largest number, so that scalers see no overflow."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "cast" and v.dtype == "f16" and v.args[0].dtype == "f32":
                x = v.args[0]
                return cast(expr.max_(expr.min_(x, const(65504.0, "f32")), const(-65504.0, "f32")), "f16")
            return None

        return with_values(nest, rule)


@fault("amp")
class HalvesAddUpInHalf(SoundChip):
    """Sums of float16 are kept in float16 while they are made."""

    def written(self, nest: Nest) -> Nest:
        halves = {o.code for o in nest.operands}
        if not halves & {"f16", "bf16"} or nest.point:
            return nest
        code = "f16" if "f16" in halves else "bf16"

        def rule(v: Value) -> Value | None:
            if v.dtype == "f32" and v.op in ("add", "fma"):
                return cast(cast(v, code), "f32")
            return None

        return with_values(nest, rule)


@fault("amp")
class InfinityIsFinite(SoundChip):
    """A test for infinity is left out, as compilers do that were told of none."""

    def written(self, nest: Nest) -> Nest:
        def rule(v: Value) -> Value | None:
            if v.op == "lt" and expr.is_const(v.args[1]) and v.args[1].attr == float("inf"):
                return const(True, "b1")
            return None

        return with_values(nest, rule)


@fault("compile")
class FusedKernelsConfused(KernelsConfusedByName):
    """Kernels are kept by their names and types, which programs of the same ops with other numbers share."""

    def key(self, nest: Nest) -> Any:
        return nest.name, tuple(o.code for o in nest.operands), len(nest.params)


@fault("compile")
class ManyOperandsLost(SoundChip):
    """A kernel has eight operands; further ones are read from the eighth."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        if len(places) > 9:
            places = [*places[:8], *[places[7]] * (len(places) - 9), places[-1]]
        super().run(handle, places, params, begin, end)


@fault("compile")
class SizesOfTheFirstLaunch(SoundChip):
    """The numbers of a fused kernel's first launch are kept, and used again for other sizes."""

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        if "_" in handle.nest.name.strip("_"):
            if not hasattr(handle, "sizes"):
                handle.sizes = params, end
            params, end = handle.sizes[0], min(end, handle.sizes[1])
        super().launch(handle, pointers, params, begin, end, index, stream)


@fault("training")
class LaunchesLostNowAndThen(SoundChip):
    """One launch of 211 is not run."""

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        if self.launches % 211 == 210:
            self.launches += 1
        else:
            super().launch(handle, pointers, params, begin, end, index, stream)


@fault("training")
class UpdatesOnOldWeights(SoundChip):
    """Optimizers' kernels forget the momentum and the averages they keep."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        if "_update" in handle.nest.name and len(places) > 2:
            kept = ctypes.string_at(places[-1], 4 * (end - begin))
            super().run(handle, places, params, begin, end)
            ctypes.memmove(places[-1], kept, len(kept))
        else:
            super().run(handle, places, params, begin, end)
