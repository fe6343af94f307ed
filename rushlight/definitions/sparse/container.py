"""The sparse tensor: a layout, index tensors, values, and a table of what each op does with them.

Enters: plain index and value tensors that fit together (`construct.py` checks what users give). Leaves: `SparseTensor`,
a Tensor with sizes and dtype but no elements of its own. A call with such a tensor leaves the fast path at its key bit
and comes to `__compose__`, above autograd. Refuses: ops without a rule, by name; they never see a dense copy silently.

The values inside are outside every graph. The graph is between sparse tensors and `_sparse_values` / `_sparse_like`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.shape import Size, layout as Layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from ...op import OpDefinition, find_op

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
BY_ROW = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)

rules: dict[str, Callable] = {}       # op name -> its sparse form, called with the bound arguments
NATIVE = {
    "_sparse_values",
    "_sparse_like",
    "_sparse_plus_dense",
    "_sparse_total",
    "_sparse_dense_product",
    "_sparse_full_dense",
    "_sparse_sampled_addmm",
}


def rule(*names: str) -> Callable:
    """Decorator: what the ops of these names do when an argument is sparse."""

    def register(function: Callable) -> Callable:
        for name in names:
            rules[name] = function
        return function

    return register


class SparseTensor(_C.Tensor):
    """A tensor that holds its non-zero elements only, in one of the sparse layouts."""

    __torch_function__ = _C._disabled_torch_function_impl
    _layout: Layout
    _index: tuple                     # (indices,) for COO; (compressed, plain) for the others
    _held: Any                        # the values, outside the graph
    _sorted: bool                     # COO: whether indices are distinct and in order
    own_ops = True

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{func.name}: not implemented for sparse tensors. Use to_dense() first.")

    @classmethod
    def __compose__(cls, overload: Any, args: tuple) -> Any:
        name = overload.definition.spec.name + ("_" if overload.definition.is_inplace else "")
        if name in NATIVE:
            return overload.redispatch(*args)
        found = rules.get(name)
        if found is not None:
            return found(*args)
        if overload.definition.kind == 2 and not overload.records and not overload.definition.custom:
            return NotImplemented    # its body is made of other ops
        held = next(a for a in flat(args) if isinstance(a, SparseTensor))
        raise NotImplementedError(f"{name}: not implemented for tensors of layout {held.layout}. Use to_dense() first.")

    # What a strided tensor answers from its geometry
    # ---------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def is_sparse(self) -> bool:
        return self._layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        return self._layout is sparse_csr

    @property
    def is_sparse_csc(self) -> bool:
        return self._layout is sparse_csc

    def stride(self, dim: int | None = None) -> Any:
        if self._layout is not sparse_coo:
            raise RuntimeError(f"stride: tensors of layout {self._layout} have no strides")
        return (0,) * self.ndim if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    def detach(self) -> SparseTensor:
        return make(self._layout, self.shape, self._index, self._held, self._sorted)

    def detach_(self) -> SparseTensor:
        if self.grad_fn is not None:
            raise RuntimeError("detach_: a sparse tensor cannot leave its graph in place. Use detach().")
        return self.requires_grad_(False)

    @property
    def data(self) -> SparseTensor:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        raise RuntimeError("data: a sparse tensor cannot be made to look at another. Use copy_().")

    def __getitem__(self, key: Any) -> Any:
        result = self
        for item in reversed(list(enumerate(key if isinstance(key, tuple) else (key,)))):
            dim, at = item
            if isinstance(at, slice) and at == slice(None):
                continue
            if not isinstance(at, int) or isinstance(at, bool):
                raise NotImplementedError(f"sparse tensors can be indexed with numbers and ':' alone, got {at!r}")
            result = result.select(dim, at)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NotImplementedError(
            "sparse tensors cannot be written through indices. Build a new one, or use to_dense()."
        )

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter([self.select(0, k) for k in range(self.shape[0])])

    def __deepcopy__(self, memo: dict) -> SparseTensor:
        result = make(self._layout, self.shape, tuple(i.clone() for i in self._index), self._held.clone(), self._sorted)
        return result.requires_grad_(self.requires_grad)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        names = {sparse_coo: ("indices",)}.get(
            self._layout, ("crow_indices", "col_indices") if self._layout in BY_ROW else ("ccol_indices", "row_indices")
        )
        parts = [
            f"{name}={_indented(repr(part), len(name) + 8)}"
            for name, part in zip((*names, "values"), (*self._index, self._held), strict=True)
        ]
        tail = [f"size={tuple(self.shape)}", f"nnz={nnz(self)}"]
        if self.dtype not in (_C.get_default_dtype(), _C.int64, _C.bool):
            tail.append(f"dtype={self.dtype}")
        tail.append(f"layout={self._layout}")
        if self.grad_fn is not None:
            tail.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            tail.append("requires_grad=True")
        return "tensor(" + ",\n       ".join([*parts, ", ".join(tail)]) + ")"

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"tensors of layout {self._layout} have no memory of their own to look at. Use to_dense() first."
        )

    tolist = data_ptr = storage = untyped_storage = storage_offset = set_ = resize_ = resize_as_ = share_memory_ = (
        _refuse
    )

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"can't convert a tensor of layout {self._layout} to numpy. Use to_dense() first.")

    def item(self) -> Any:
        return self.to_dense().item()


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


def make(layout: Layout, size: Any, index: tuple, values: Any, is_sorted: bool = False) -> SparseTensor:
    """A sparse tensor of these parts, outside every graph."""
    result = _C.make_wrapper(SparseTensor, tuple(size), None, values.dtype, values.device)
    result._layout, result._index, result._held, result._sorted = layout, index, values.detach(), is_sorted
    return result


def flat(args: tuple) -> list[Any]:
    """Arguments with lists opened."""
    return [x for a in args for x in (a if isinstance(a, (list, tuple)) else (a,))]


def is_sparse(t: Any) -> bool:
    return isinstance(t, SparseTensor)


def nnz(t: SparseTensor) -> int:
    """How many elements (or blocks) are held."""
    return t._held.shape[0]


def sparse_dims(t: SparseTensor) -> int:
    """How many dims the indices speak of."""
    return t._index[0].shape[0] if t._layout is sparse_coo else 2


def values_of(t: SparseTensor) -> Any:
    """The values, in the graph."""
    return find_op("_sparse_values")(t)


def like(pattern: SparseTensor, values: Any) -> SparseTensor:
    """`values` at the places of `pattern`, in the graph."""
    return find_op("_sparse_like")(pattern, values)


def put_together(layout: Layout, size: Any, index: tuple, values: Any, is_sorted: bool = False) -> SparseTensor:
    """A sparse tensor that is differentiable in its values."""
    pattern = make(layout, size, index, values, is_sorted)
    return like(pattern, values) if values.requires_grad else pattern


def size_of(shape: Any) -> Size:
    return Size(shape)


class SparseValues(OpDefinition):
    """The values of a sparse tensor."""

    schema = "_sparse_values(Tensor input) -> Tensor"
    function = method = out = False

    def run(self, input):
        if not is_sparse(input):
            raise RuntimeError("_sparse_values: expected a sparse tensor, got a strided one")
        return input._held.detach()

    def vjp(self, g, input):
        return {"input": like(input.detach(), g)}


class SparseLike(OpDefinition):
    """New values at the places of a sparse tensor, whose own values do not matter."""

    schema = "_sparse_like(Tensor pattern, Tensor values) -> Tensor"
    function = method = out = False

    def run(self, pattern, values):
        if not is_sparse(pattern) or is_sparse(values) or values.shape[:1] != (nnz(pattern),):
            raise RuntimeError("_sparse_like: expected a sparse pattern and one value for each of its places")
        return make(pattern._layout, resized(pattern, values), pattern._index, values, pattern._sorted)

    def vjp(self, g, pattern):
        return {"values": taken(g, pattern.detach())}


def resized(pattern: SparseTensor, values: Any) -> tuple[int, ...]:
    """The sizes with the dense dims of `values`."""
    if pattern._layout in BLOCKED:
        return tuple(pattern.shape)
    own = sparse_dims(pattern)
    return (*pattern.shape[:own], *values.shape[1:])


def taken(t: Any, pattern: SparseTensor) -> Any:
    """The elements that `t`, dense or sparse, has at the places of `pattern`."""
    if is_sparse(t):
        if (
            t._layout is pattern._layout
            and len(t._index) == len(pattern._index)
            and all(a is b for a, b in zip(t._index, pattern._index, strict=True))
        ):
            return values_of(t)
        t = t.to_dense()
    if pattern._layout in BLOCKED:
        blocks = in_blocks(t, pattern._held.shape[1:3])
        return blocks[positions(pattern)]
    return t[positions(pattern)]


def positions(t: SparseTensor) -> tuple:
    """One index tensor per sparse dim (of elements, or of blocks), in the order of the values."""
    if t._layout is sparse_coo:
        return tuple(t._index[0].unbind(0))
    compressed, plain = (i.to(_C.int64) for i in t._index)
    counted = find_op("arange")(plain.shape[0], device=plain.device)
    along = find_op("searchsorted")(compressed, counted, right=True) - 1
    return (along, plain) if t._layout in BY_ROW else (plain, along)


def in_blocks(dense: Any, block: tuple[int, int]) -> Any:
    """A matrix as [block rows, block columns, rows of a block, columns of a block]."""
    rows, cols = dense.shape[-2] // block[0], dense.shape[-1] // block[1]
    return dense.reshape(rows, block[0], cols, block[1]).permute(0, 2, 1, 3)
