"""The nested tensor: values, offsets, which dim is ragged, and a table of what each op does with them.

Enters: one tensor of values (the components joined along their ragged dim) and offsets [components + 1]. Leaves:
`NestedTensor`, whose size along the ragged dim is a symbol that equals itself alone. Dim 0 counts components; dim d of
the nested tensor is dim d - 1 of the values. Refuses: ops without a rule, and a second ragged dim.

With `lengths`, components may be shorter than the room between their offsets (`narrow` of PyTorch makes such ones).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.shape import Size, jagged, layout as Layout, strided
from ...op import OpDefinition, Pointwise, find_op, wrap_dim

rules: dict[str, Callable] = {}         # op name -> its nested form, called with the bound arguments
named_rules: dict[str, Callable] = {}   # the same, called with the op's name and the arguments by name
NATIVE = {"_nested_values", "_nested_like"}
_numbers = itertools.count(1)


def rule(*names: str) -> Callable:
    """Decorator: what the ops of these names do when an argument is nested."""

    def register(function: Callable) -> Callable:
        for name in names:
            rules[name] = function
        return function

    return register


class NestedInt(int):
    """The size of a ragged dim: a number that differs from component to component, so it is known by its name.

    As an int it is the sum of the lengths, which `view` and `reshape` accept for the ragged dim.
    """

    name: str

    def __new__(cls, total: int) -> NestedInt:
        result = super().__new__(cls, total)
        result.name = f"j{next(_numbers)}"
        return result

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


class NestedTensor(_C.Tensor):
    """A batch of tensors that differ in the size of one dim."""

    __torch_function__ = _C._disabled_torch_function_impl
    _held: Any                  # the values, outside the graph
    _starts: Any                # offsets, int64 [components + 1]
    _sizes: Any                 # lengths, or None where components fill the room between offsets
    _ragged: int                # which dim is ragged
    _symbol: NestedInt
    _layout: Layout
    own_ops = True

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(
            f"{func.name}: not implemented for nested tensors. Use unbind() or to_padded_tensor()."
        )

    @classmethod
    def __compose__(cls, overload: Any, args: tuple) -> Any:
        definition = overload.definition
        name = definition.spec.name + ("_" if definition.is_inplace else "")
        if name in NATIVE:
            return overload.redispatch(*args)
        if name in rules:
            return rules[name](*args)
        if name in named_rules:
            answer = named_rules[name](name, {p.name: a for p, a in zip(definition.spec.params, args, strict=True)})
            if answer is not NotImplemented:
                return answer
        if isinstance(definition, Pointwise):
            return named_rules["pointwise"](overload, args)
        if definition.kind == 2 and not overload.records and not definition.custom:
            return NotImplemented    # its body is made of other ops
        raise NotImplementedError(f"{name}: not implemented for nested tensors. Use unbind() or to_padded_tensor().")

    # What a strided tensor answers from its geometry
    # ---------------------------------------------------------------------

    is_nested = True
    _ragged_idx = property(lambda self: self._ragged)
    _max_seqlen = property(lambda self: max(lengths_of(self), default=0))
    _min_seqlen = property(lambda self: min(lengths_of(self), default=0))

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def shape(self) -> Size:
        if self._layout is strided:
            raise RuntimeError(
                "shape: nested tensors of strided layout have no sizes as a whole. Use size(dim), or the jagged layout."
            )
        return size_of(self)

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        dim = wrap_dim("size", dim, self.ndim)
        if dim == self._ragged and self._layout is strided:
            raise RuntimeError(f"size: dimension {dim} is irregular, so it has no one size.")
        return size_of(self)[dim]

    def numel(self) -> int:
        return self._held.numel()

    def stride(self, dim: int | None = None) -> Any:
        own = self._held.stride()
        found = (self._held.shape[0] * own[0] if own else 1, *own)
        return found if dim is None else found[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self._held.is_contiguous() and self._sizes is None and self._ragged == 1

    def offsets(self) -> Any:
        """Where each component begins, and where the last ends."""
        return self._starts

    def lengths(self) -> Any:
        """The components' lengths where they leave room between them, else None."""
        return self._sizes

    def values(self) -> Any:
        """The components, joined along the ragged dim."""
        return values_of(self)

    def detach(self) -> NestedTensor:
        return make(self, self._held, self._ragged)

    def detach_(self) -> NestedTensor:
        if self.grad_fn is not None:
            raise RuntimeError("detach_: a nested tensor cannot leave its graph in place. Use detach().")
        return self.requires_grad_(False)

    def _refuse_data(self, value: Any) -> None:
        raise RuntimeError("data: a nested tensor cannot be made to look at another. Use copy_().")

    data = property(detach, _refuse_data)

    def __len__(self) -> int:
        return self._starts.shape[0] - 1

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, key: Any) -> Any:
        return rules["__getitem__"](self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NotImplementedError(
            "nested tensors cannot be written through indices. Write to values(), or to a component of unbind()."
        )

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        tail = (
            f", grad_fn=<{type(self.grad_fn).__name__}>"
            if self.grad_fn is not None
            else ", requires_grad=True" if self.requires_grad else ""
        )
        if self._layout is strided:
            parts = ",\n".join("  " + repr(c).replace("\n", "\n  ") for c in self.detach().unbind())
            return f"nested_tensor([\n{parts}\n]{tail})"
        return (
            f"NestedTensor(size=({', '.join(map(str, size_of(self)))}), offsets={self._starts!r}{tail},"
            f" contiguous={self.is_contiguous()})"
        )

    def __deepcopy__(self, memo: dict) -> NestedTensor:
        return make(self, self._held.clone(), self._ragged).requires_grad_(self.requires_grad)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "nested tensors have no memory of their own to look at. Use values(), unbind() or to_padded_tensor()."
        )

    numpy = tolist = data_ptr = storage = untyped_storage = storage_offset = item = set_ = resize_ = resize_as_ = (
        share_memory_
    ) = _refuse


def start(values: Any, starts: Any, sizes: Any, ragged: int, layout: Layout = jagged) -> NestedTensor:
    """A nested tensor with a raggedness of its own."""
    out = _C.make_wrapper(NestedTensor, (starts.shape[0] - 1, *values.shape), None, values.dtype, values.device)
    out._held, out._starts, out._sizes, out._ragged, out._layout = values.detach(), starts, sizes, ragged, layout
    out._symbol = NestedInt(values.shape[ragged - 1])
    return out


def make(pattern: NestedTensor, values: Any, ragged: int) -> NestedTensor:
    """Other values with the raggedness of `pattern`, outside every graph."""
    result = _C.make_wrapper(NestedTensor, (len(pattern), *values.shape), None, values.dtype, values.device)
    result._held, result._ragged = values.detach(), ragged
    result._starts, result._sizes, result._symbol, result._layout = (
        pattern._starts,
        pattern._sizes,
        pattern._symbol,
        pattern._layout,
    )
    return result


def is_nested(t: Any) -> bool:
    return isinstance(t, NestedTensor)


def size_of(t: NestedTensor) -> Size:
    """The sizes, with the symbol at the ragged dim."""
    own = list(t._held.shape)
    own[t._ragged - 1] = t._symbol
    return tuple.__new__(Size, (len(t), *own))


def values_of(t: NestedTensor) -> Any:
    """The values, in the graph."""
    return find_op("_nested_values")(t)


def like(pattern: NestedTensor, values: Any, ragged: int | None = None) -> NestedTensor:
    """`values` with the raggedness of `pattern`, in the graph."""
    return find_op("_nested_like")(pattern.detach(), values, pattern._ragged if ragged is None else ragged)


def put_together(values: Any, starts: Any, sizes: Any, ragged: int, layout: Layout = jagged) -> NestedTensor:
    """A nested tensor that is differentiable in its values."""
    result = start(values, starts, sizes, ragged, layout)
    return like(result, values) if values.requires_grad else result


def lengths_of(t: NestedTensor) -> list[int]:
    """How long each component is."""
    return t._sizes.tolist() if t._sizes is not None else (t._starts[1:] - t._starts[:-1]).tolist()


def length_tensor(t: NestedTensor) -> Any:
    return t._sizes if t._sizes is not None else t._starts[1:] - t._starts[:-1]


def inner_dim(name: str, t: NestedTensor, dim: int) -> int:
    """The dim of the values that `dim` is; dim 0, the components, has none."""
    found = wrap_dim(name, dim, t.ndim)
    if found == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return found - 1


def regular_dim(name: str, t: NestedTensor, dim: int) -> int:
    """As `inner_dim`, but not the ragged one."""
    found = inner_dim(name, t, dim)
    if found == t._ragged - 1:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return found


def places(t: NestedTensor) -> tuple[Any, Any, Any]:
    """(component, position in it, index into the values) of every element along the ragged dim."""
    arange, search = find_op("arange"), find_op("searchsorted")
    lengths = length_tensor(t)
    ends = lengths.cumsum(0)
    count = arange(int(ends[-1].item()) if len(t) else 0, device=t.device)
    component = search(ends, count, right=True)
    position = count - (ends - lengths).index_select(0, component)
    return component, position, t._starts.index_select(0, component) + position


def rows(t: NestedTensor) -> tuple[Any, Any, Any]:
    """(values with the ragged dim first and no room between components, component, position)."""
    values = values_of(t).movedim(t._ragged - 1, 0)
    component, position, at = places(t)
    return (
        (values if t._sizes is None and values.shape[0] == at.shape[0] else values.index_select(0, at)),
        component,
        position,
    )


class NestedValues(OpDefinition):
    """The values of a nested tensor."""

    schema = "_nested_values(Tensor input) -> Tensor"
    function = method = out = False

    def run(self, input):
        if not is_nested(input):
            raise RuntimeError("_nested_values: expected a nested tensor")
        return input._held.detach()

    def vjp(self, g, input):
        return {"input": like(input, g)}


class NestedLike(OpDefinition):
    """Values with the raggedness of a nested tensor."""

    schema = "_nested_like(Tensor pattern, Tensor values, int ragged) -> Tensor"
    function = method = out = False

    def run(self, pattern, values, ragged):
        if (
            not is_nested(pattern)
            or is_nested(values)
            or not 1 <= ragged <= values.ndim
            or values.shape[ragged - 1] != int(pattern._symbol)
        ):
            raise RuntimeError("_nested_like: expected a nested pattern and values that are as long as its own")
        return make(pattern, values, ragged)

    def vjp(self, g):
        return {"values": values_of(g)}
