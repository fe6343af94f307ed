"""Matrix products: matmul and its fixed-shape forms, the add-and-multiply family, linear, dot products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C, rules
from ...loops.contraction import lowered_matmul
from ...loops.lowered import Lowered
from ...op import Composite, Library, Spec, find_op
from ...op.extern import own_function
from ...op.library import Room
from ...op.pointwise import check_devices
from ...op.step import Step
from ...planners.products.complex import complex_steps
from ...planners.products.gemm import (
    Matrix,
    contraction_steps,
    needs_no_library,
    packed_steps,
    steps,
    tiled_contraction_steps,
    tiled_steps,
    turned_steps,
    vector_steps,
)
from ...planners.products.groups import group_steps, has_dots
from ...planners.products.half import half_rows_steps
from ...planners.products.tiles import has_tiles, tile_steps

_HALF = (_C.float16, _C.bfloat16)
TILED = 1 << 18                 # multiply-adds from which packing for tile registers pays
PACKED_HALF = (64, 1024)        # rows on the left, columns on the right: see widening_steps
BATCH_TILED = 1 << 22           # the same for each matrix of a batch, which are multiplied one after another


def broadcast_batch(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Batch sizes of a product."""
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        raise RuntimeError(f"{name}: batch sizes {list(a)} and {list(b)} cannot be broadcast together")
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def batch_stride(t: Any, batch: tuple[int, ...]) -> int | None:
    """The one stride that walks the broadcast batch of `t`, or None if there is none."""
    own, strides = t.shape[:-2], t.stride()[:-2]
    pad = len(batch) - len(own)
    walk = [
        (batch[i], 0 if i < pad or own[i - pad] == 1 else strides[i - pad]) for i in range(len(batch)) if batch[i] != 1
    ]
    if not walk:
        return 0
    step = walk[-1][1]
    reach = step
    for size, stride in reversed(walk):
        if stride != reach:
            return None
        reach = stride * size
    return step


def check_product(name: str, a: Any, b: Any) -> None:
    """Types, devices and inner sizes that a product needs."""
    check_devices(name, (a, b))
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{name}: expected matrices of the same dtype, got {a.dtype.name} != {b.dtype.name}")
    if a.dtype is _C.bool:
        raise NotImplementedError(f"{name}: products are not implemented for 'Bool'. Cast to an integer type first.")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        hint = ""
        if b.ndim > 1 and a.shape[-1] == b.shape[-1]:
            hint = f" Did you mean the transpose of the second, {tuple(b.shape[:-2]) + (b.shape[-1], b.shape[-2])}?"
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and"
            f" {'x'.join(map(str, b.shape))}): inner sizes must agree.{hint}"
        )


def on_tiles(a: Any, work: int, count: int) -> bool:
    """Whether a product of so many multiply-adds per matrix goes to tile registers,
    or else to instructions that add up products of bfloat16."""
    return (
        a.dtype is _C.bfloat16
        and work >= (TILED if count == 1 else BATCH_TILED)
        and count <= 64
        and a.device.type == "cpu"
        and (has_tiles() or has_dots("bf16"))
    )


class _Product(Library):
    """What products share: a @ b for any number of dimensions."""

    exact_out = True

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        self.check_examples(*args)
        return rules.batching.product(level, *args)

    def check_examples(self, a: Any, b: Any) -> None:
        """Raise for examples the op refuses, by their number of dims."""
        wanted = self.example_dims
        if wanted is not None and (a.ndim, b.ndim) != wanted:
            raise RuntimeError(
                f"{self.name}: expected {wanted[0]}-D and {wanted[1]}-D tensors, got {a.ndim}-D and {b.ndim}-D"
            )

    example_dims: Any = None

    def check_dims(self, a: Any, b: Any) -> None:
        """Raise for tensors that are no operands of this product, by their sizes."""

    def meta(self, a: Any, b: Any) -> Spec:
        self.check_dims(a, b)
        check_product(self.name, a, b)
        batch = broadcast_batch(self.name, tuple(a.shape[:-2]), tuple(b.shape[:-2]))
        return Spec((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), a.dtype)

    def lower(self, args: tuple) -> Lowered:
        self.meta(*args)
        operands = [(p.name, t.shape, t.stride()) for p, t in zip(self.spec.params, args, strict=True)]
        return lowered_matmul(self.name, *operands, args[0].dtype.code)

    def is_planned(self, args: tuple) -> bool:
        return own_function(self.spec.name, args[0].device) is None

    def steps(self, args: tuple, room: Room) -> list[Step] | None:
        """Kernels or library calls; None when an operand must be copied first."""
        a, b = args
        if needs_no_library(a.device, a.dtype.code):
            return contraction_steps(self, args, room)
        left, right = (1, *a.shape) if a.ndim == 1 else tuple(a.shape), (*b.shape, 1) if b.ndim == 1 else tuple(b.shape)
        m, k, n = left[-2], left[-1], right[-1]
        batch = broadcast_batch(self.name, left[:-2], right[:-2])
        count = 1
        for s in batch:
            count *= s
        am, bm = self.matrices(a, b, batch)
        if am is None or bm is None:
            return None
        out = Matrix(2, n, 1, m * n)
        if b.ndim == 2 and len(batch) and am.batch == m * am.row:   # one tall matrix: [batch * m, k] @ [k, n]
            m, count = m * count, 1
        if count == 1:
            few = half_rows_steps(a.dtype.code, a.device, am, bm, out, m, n, k, room)
            if few is not None:
                return few
        if on_tiles(a, m * n * k, count):
            if has_tiles():
                result = tile_steps("bf16", am, bm, out, 3, m, n, k, count)
            else:
                result = group_steps("bf16", a.device, am, bm, out, m, n, k, 3, count)
            if result is None:
                return None
            for size in result[1]:
                room.temp(_C.int8, (size,))
            return result[0]
        if a.dtype in _HALF and m * n * k * count > 4096 and a.device.type == "cpu":
            return self.widening_steps(args, room, m, n, bm.col == 1)
        given = (a.dtype.code, a.device, am, bm, out, m, n, k)
        result = vector_steps(*given, count, room.slots, room.wishes)
        if result is not None:
            return result
        pairs = complex_steps(*given, count, room)
        if pairs is not None:
            return pairs
        if count == 1:
            packed = packed_steps(*given, 3, wishes=room.wishes)
        else:
            packed = tiled_steps(*given, 3, count, wishes=room.wishes) or turned_steps(*given, 3, count)
        if packed is None:
            return steps(*given, count)
        room.temp(a.dtype, (packed[1],))
        return packed[0]

    def widening_steps(self, args: tuple, room: Room, m: int, n: int, in_rows: bool) -> list[Step] | None:
        """Half types are widened while they are packed; None where it is better done before: for few rows, and few
        rows of the left operand that meet long rows of the right one, which are then read in short pieces."""
        if in_rows and m < PACKED_HALF[0] and n >= PACKED_HALF[1]:
            return None
        return tiled_contraction_steps(self.lower(args), self.kernels, room)

    def matrices(self, a: Any, b: Any, batch: tuple[int, ...]) -> tuple[Matrix | None, Matrix | None]:
        sa, sb = a.stride(), b.stride()
        stride_a = batch_stride(a, batch) if a.ndim > 2 else 0
        stride_b = batch_stride(b, batch) if b.ndim > 2 else 0
        am = None if stride_a is None else Matrix(0, sa[-2] if a.ndim > 1 else max(a.shape[0], 1), sa[-1], stride_a)
        bm = (
            None
            if stride_b is None
            else Matrix(1, sb[-2] if b.ndim > 1 else sb[-1], sb[-1] if b.ndim > 1 else 1, stride_b)
        )
        return am, bm

    def run(self, a: Any, b: Any) -> Any:
        """Operands the kernels cannot read are made dense; half types are multiplied in single precision."""
        check_product(self.name, a, b)
        own = own_function(self.spec.name, a.device)
        if own is not None:
            batch = broadcast_batch(self.name, tuple(a.shape[:-2]), tuple(b.shape[:-2]))
            out = a.new_empty((*batch, *(a.shape[-2:-1]), *(b.shape[-1:] if b.ndim > 1 else ())))
            own(out, a, b)
            return out
        if a.dtype in _HALF and a.shape[-1] and a.device.type == "cpu":
            is_dense = a.is_contiguous() and b.is_contiguous()
            if on_tiles(a, a.shape[-2] * b.shape[-1] * a.shape[-1] if min(a.ndim, b.ndim) > 1 else 0, 1):
                if not is_dense:
                    return self.again(a.contiguous(), b.contiguous())
            return self.again(a.to(_C.float32), b.to(_C.float32)).to(a.dtype)
        return self.run_dense(a, b)

    def again(self, a: Any, b: Any) -> Any:
        """The same op for operands that were made for it; the core knows its plan from the second time on."""
        return find_op(self.spec.name)(a, b)

    def run_dense(self, a: Any, b: Any) -> Any:
        if 0 in a.shape or 0 in b.shape:
            left, right = a.shape[:-1], b.shape[-1:] if b.ndim > 1 else ()
            batch = broadcast_batch(self.name, tuple(a.shape[:-2]), tuple(b.shape[:-2]))
            return a.new_zeros((*batch, *left[-1:], *right))
        batch = broadcast_batch(self.name, tuple(a.shape[:-2]), tuple(b.shape[:-2]))
        if a.ndim > 1 and b.ndim > 1:
            a, b = a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:]))
        assert not (a.is_contiguous() and b.is_contiguous()), f"{self.name}: dense operands always have a plan"
        return self.again(a.contiguous(), b.contiguous())


class Matmul(_Product):
    """Matrix product of vectors, matrices and batches of them."""

    schema = "matmul(Tensor input, Tensor other) -> Tensor"
    dunder = ("__matmul__", "__rmatmul__")

    def check_dims(self, a, b):
        if a.ndim == 0 or b.ndim == 0:
            raise RuntimeError(f"matmul: expected tensors with at least 1 dimension, got {a.ndim}D and {b.ndim}D")

    def vjp(self, g, input, other):
        return {"input": left_gradient(g, input, other), "other": right_gradient(g, input, other)}


def left_gradient(g: Any, a: Any, b: Any) -> Any:
    """d(a @ b)/da applied to g."""
    if not a.requires_grad:
        return None
    if a.ndim == b.ndim == 2 and not b.is_complex():   # the usual case, with nothing to fold or conjugate
        return g @ b.transpose(0, 1)
    if b.ndim == 1:
        result = g * b.conj() if a.ndim == 1 else g.unsqueeze(-1) * b.conj()
    elif a.ndim == 1:
        result = (g.unsqueeze(-2) @ b.mH).squeeze(-2)
    else:
        result = g @ b.mH
    return result.sum_to_size(a.shape)


def right_gradient(g: Any, a: Any, b: Any) -> Any:
    """d(a @ b)/db applied to g."""
    if not b.requires_grad:
        return None
    if a.ndim == b.ndim == 2 and not a.is_complex():
        return a.transpose(0, 1) @ g
    if a.ndim == 1:
        result = a.conj() * g if b.ndim == 1 else a.conj().unsqueeze(-1) * g.unsqueeze(-2)
    elif b.ndim == 1:
        result = (a.mH @ g.unsqueeze(-1)).squeeze(-1)
    elif b.ndim == 2 and a.ndim > 2:   # fold the batch into the sum
        result = a.flatten(0, -2).mH @ g.flatten(0, -2)
    else:
        result = a.mH @ g
    return result.sum_to_size(b.shape)


class Mm(_Product):
    """Product of two matrices."""

    schema = "mm(Tensor input, Tensor mat2) -> Tensor"
    example_dims = (2, 2)

    def check_dims(self, a, b):
        if a.ndim != 2 or b.ndim != 2:
            raise RuntimeError(
                f"mm: self must be a matrix and mat2 must be a matrix, got {a.ndim}D and {b.ndim}D tensors"
            )

    def vjp(self, g, input, mat2):
        return {"input": left_gradient(g, input, mat2), "mat2": right_gradient(g, input, mat2)}


class Bmm(_Product):
    """Products of two batches of matrices, without broadcasting."""

    schema = "bmm(Tensor input, Tensor mat2) -> Tensor"
    example_dims = (3, 3)

    def check_dims(self, a, b):
        if a.ndim != 3 or b.ndim != 3:
            raise RuntimeError(
                f"bmm: batch1 must be a 3D tensor and batch2 must be a 3D tensor, got {a.ndim}D and {b.ndim}D"
            )
        if a.shape[0] != b.shape[0]:
            raise RuntimeError(
                f"bmm: expected mat2 of size [{a.shape[0]}, {a.shape[2]}] in its first two dimensions, got"
                f" [{b.shape[0]}, {b.shape[1]}]."
            )

    def vjp(self, g, input, mat2):
        return {"input": left_gradient(g, input, mat2), "mat2": right_gradient(g, input, mat2)}


class Mv(_Product):
    """Product of a matrix and a vector."""

    schema = "mv(Tensor input, Tensor vec) -> Tensor"
    example_dims = (2, 1)

    def check_dims(self, a, b):
        if a.ndim != 2 or b.ndim != 1:
            raise RuntimeError(f"mv: vector + matrix @ vector expected, got {a.ndim}D, {b.ndim}D")

    def vjp(self, g, input, vec):
        return {"input": left_gradient(g, input, vec), "vec": right_gradient(g, input, vec)}


class IntMm(Library):
    """The product of two int8 matrices, added up in int32. The left one may be uint8."""

    schema = "_int_mm(Tensor input, Tensor mat2) -> Tensor"
    exact_out = True
    method = False
    differentiable = False

    def meta(self, a, b):
        self.check((a, b))
        (m, k), n = a.shape, b.shape[1]
        if k != b.shape[0]:
            raise RuntimeError(f"_int_mm: inner sizes must agree, got {m}x{k} and {b.shape[0]}x{n}")
        return Spec((m, n), _C.int32)

    def flops(self, a, b):
        return 2 * a.shape[0] * a.shape[1] * b.shape[1]

    def steps(self, args, room):
        a, b = args
        if a.dtype is _C.uint8:
            return None
        (m, k), n = a.shape, b.shape[1]
        matrices = Matrix(0, *a.stride()), Matrix(1, *b.stride()), Matrix(2, n, 1)
        own = own_function(self.name, a.device)
        if own is not None:
            return [Step(self.filled_by(own), list(range(room.next)), [], 1)]
        if a.device.type == "cpu" and m * n * k >= TILED and has_tiles("i8"):
            found = tile_steps("i8", *matrices, 3, m, n, k)
        else:
            found = group_steps("i8", a.device, *matrices, m, n, k, 3)
        if found is None:
            return None
        for size in found[1]:
            room.temp(_C.int8, (size,))
        return found[0]

    def check(self, args: tuple) -> None:
        """Refuse what is no int8 matrix, on the left no uint8 one either."""
        for t, taken in zip(args, ((_C.int8, _C.uint8), (_C.int8,)), strict=True):
            if t.dtype not in taken or t.ndim != 2:
                raise RuntimeError(f"_int_mm: expected int8 matrices, got {t.dtype.name} of {t.ndim} dims")

    def filled_by(self, own: Callable) -> Callable:
        """A step by a device's function, `_int_mm(out, a, b)`; what it does not take is multiplied as int32."""

        def run(a: Any, b: Any, out: Any) -> None:
            if own(out, a, b) is NotImplemented:
                out.copy_(self.run(a, b))

        return run

    def run(self, a: Any, b: Any) -> Any:
        """Matrices that no instruction or no kernel suits are multiplied as int32; uint8 ones are moved to int8's
        range, and what was taken away is added again."""
        if a.dtype is _C.uint8:
            moved = (a ^ 128).view(_C.int8)
            return find_op("_int_mm")(moved, b) + b.sum(0, dtype=_C.int32) * 128
        return a.to(_C.int32) @ b.to(_C.int32)

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        self.check(args)
        left, right = (rules.batching.front(t, level) for t in args)
        if right is None:      # rows of all examples are one matrix
            result = overload.call(left.flatten(0, 1), args[1]).unflatten(0, left.shape[:2])
        else:
            result = (args[0] if left is None else left).to(_C.int32) @ right.to(_C.int32)
        return rules.batching.wrapped(result, level)


class Dot(_Product):
    """Sum of the products of two vectors' elements."""

    schema = "dot(Tensor input, Tensor tensor) -> Tensor"
    example_dims = (1, 1)

    def check_dims(self, a, b):
        if a.ndim != 1 or b.ndim != 1:
            raise RuntimeError(f"dot: 1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
        if a.dtype is not b.dtype:
            raise RuntimeError(
                f"dot: both vectors must have the same dtype, got {a.dtype} and {b.dtype}. Convert one of them with"
                " .to()."
            )
        if a.shape != b.shape:
            raise RuntimeError(f"dot: expected vectors of one length, got [{a.shape[0]}] and [{b.shape[0]}] elements")

    def vjp(self, g, input, tensor):
        return {
            "input": g * tensor.conj() if input.requires_grad else None,
            "tensor": g * input.conj() if tensor.requires_grad else None,
        }


class Vdot(Composite):
    """dot with the first vector conjugated."""

    schema = "vdot(Tensor input, Tensor other) -> Tensor"

    def compute(self, input, other):
        return input.conj().dot(other)


class Inner(Composite):
    """Sums of products over the last dimension of both."""

    schema = "inner(Tensor input, Tensor other) -> Tensor"
    replays = True

    def compute(self, input, other):
        if input.ndim == 0 or other.ndim == 0:
            return input * other
        if input.shape[-1] != other.shape[-1]:
            raise RuntimeError(
                f"inner: expected equal last dimensions, got shapes {list(input.shape)} and {list(other.shape)}"
            )
        return find_op("tensordot")(input, other, ([-1], [-1]))


class Outer(Composite):
    """Every product of an element of one vector with one of another."""

    schema = "outer(Tensor input, Tensor vec2) -> Tensor"
    replays = True
    aliases = ("ger",)

    def compute(self, input, vec2):
        if input.ndim != 1 or vec2.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument self and vec2, but got {input.ndim}-D and {vec2.ndim}-D")
        return input.unsqueeze(1) * vec2


class Tensordot(Composite):
    """Product summed over pairs of dimensions."""

    schema = "tensordot(Tensor a, Tensor b, any dims=2) -> Tensor"
    replays = True
    views = "keep"
    method = False

    def compute(self, a, b, dims):
        if hasattr(dims, "tolist"):
            dims = dims.tolist()
        if not isinstance(dims, int) and not (isinstance(dims, (list, tuple)) and len(dims) == 2):
            raise RuntimeError(f"tensordot expects dims to be int or a pair of lists of dims, but got dims={dims!r}")
        if isinstance(dims, int):
            if dims < 0 or dims > min(a.ndim, b.ndim):
                raise RuntimeError(
                    f"tensordot expects dims >= 0 and at most the number of dimensions, but got dims={dims}"
                )
            left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
        else:
            left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
        left, right = [d % a.ndim for d in left], [d % b.ndim for d in right]
        if len(left) == len(right):   # a size of 1 is repeated: the other side is summed over instead
            pairs = list(zip(left, right, strict=True))
            over_a = [x for x, y in pairs if b.shape[y] == 1 and a.shape[x] != 1]
            over_b = [y for x, y in pairs if a.shape[x] == 1 and b.shape[y] != 1]
            a = a.sum(over_a, keepdim=True, dtype=a.dtype) if over_a else a
            b = b.sum(over_b, keepdim=True, dtype=b.dtype) if over_b else b
        if len(left) != len(right) or any(a.shape[x] != b.shape[y] for x, y in zip(left, right, strict=False)):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but got sizes {[a.shape[d] for d in left]} and"
                f" {[b.shape[d] for d in right]}"
            )
        keep_a, keep_b = [d for d in range(a.ndim) if d not in left], [d for d in range(b.ndim) if d not in right]
        inner = 1
        for d in left:
            inner *= a.shape[d]
        rows, cols = [a.shape[d] for d in keep_a], [b.shape[d] for d in keep_b]
        if not rows and not cols:
            return a.permute(left).reshape(-1).dot(b.permute(right).reshape(-1))
        x = a.permute(keep_a + left).reshape(_product(rows), inner)
        y = b.permute(right + keep_b).reshape(inner, _product(cols))
        return (x @ y).reshape(rows + cols)


def _product(sizes: list[int]) -> int:
    total = 1
    for s in sizes:
        total *= s
    return total


def cheapest_product(name: str, matrices: Sequence[Any]) -> Any:
    """The product of matrices, multiplied in the order with the fewest operations."""
    for k in range(1, len(matrices)):
        left, right = matrices[k - 1].shape, matrices[k].shape
        if left[1] != right[0]:
            raise RuntimeError(
                f"{name}(): tensors {k - 1} and {k} with shapes {list(left)} and {list(right)} cannot be multiplied"
            )
    sizes = [matrices[0].shape[0], *(x.shape[1] for x in matrices)]
    n = len(matrices)
    cost: dict[tuple[int, int], tuple[float, int]] = {(i, i): (0, i) for i in range(n)}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def multiply(i: int, j: int) -> Any:
        return matrices[i] if i == j else multiply(i, cost[i, j][1]) @ multiply(cost[i, j][1] + 1, j)

    return multiply(0, n - 1)


class ChainMatmul(Composite):
    """Product of several matrices, in the cheapest order."""

    schema = "chain_matmul(Tensor[] matrices) -> Tensor"
    method = False
    replays = True
    spread = True

    def compute(self, matrices):
        if not matrices:
            raise RuntimeError("chain_matmul(): expected at least one matrix")
        for k, x in enumerate(matrices):
            if x.ndim != 2:
                raise RuntimeError(f"chain_matmul(): tensor {k} must be 2D, got a {x.ndim}-D tensor")
        return cheapest_product("chain_matmul", matrices)


class MultiDot(Composite):
    """Product of two or more matrices in the cheapest order; the first and the last may be vectors."""

    schema = "linalg_multi_dot(Tensor[] tensors) -> Tensor"
    namespace = "linalg"
    method = False
    replays = True

    def compute(self, tensors):
        if len(tensors) < 2:
            raise RuntimeError(f"multi_dot: expected 2 tensors or more, got {len(tensors)}")
        first, last = tensors[0], tensors[-1]
        for i, t in enumerate(tensors):
            if t.ndim != 2 and not (t.ndim == 1 and i in (0, len(tensors) - 1)):
                raise RuntimeError(
                    f"multi_dot(): tensor {i} must be 2D (the first and the last may be 1D) but got {t.ndim}D"
                )
        chain = [
            first.unsqueeze(0) if first.ndim == 1 else first,
            *tensors[1:-1],
            last.unsqueeze(1) if last.ndim == 1 else last,
        ]
        product = cheapest_product("multi_dot", chain)
        if last.ndim == 1:
            product = product.squeeze(1)
        return product.squeeze(0) if first.ndim == 1 else product


class Bilinear(Composite):
    """input1 and input2 multiplied through one matrix per output, plus bias."""

    schema = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"
    views = "keep"
    aliases = ("nn.functional.bilinear",)
    method = False
    out = False

    def compute(self, input1, input2, weight, bias):
        if input1.shape[:-1] != input2.shape[:-1]:
            raise RuntimeError(
                f"bilinear: expected equal batch dimensions in both inputs, got {list(input1.shape[:-1])} and"
                f" {list(input2.shape[:-1])}"
            )
        if weight.ndim != 3:
            raise RuntimeError(f"bilinear(): expected a weight with 3 dimensions, got size {list(weight.shape)}")
        outs, left, right = weight.shape
        if (input1.shape[-1], input2.shape[-1]) != (left, right):
            raise RuntimeError(
                f"bilinear(): inputs have {input1.shape[-1]} and {input2.shape[-1]} features, but weight"
                f" {tuple(weight.shape)} expects {left} and {right}"
            )
        # One matrix product maps input1 through every output's matrix, then input2 is summed against each.
        mapped = input1.reshape(-1, left) @ weight.permute(1, 0, 2).reshape(left, outs * right)
        result = (mapped.reshape(-1, outs, right) @ input2.reshape(-1, right, 1)).reshape((*input1.shape[:-1], outs))
        return result if bias is None else result + bias
