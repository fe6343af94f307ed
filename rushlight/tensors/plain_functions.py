"""Functions of tensors that are no ops: questions, comparisons as a whole, metadata rewritten in place.

Enters: tensors. Leaves: Python booleans, numbers and shapes, or the same tensor looking at its memory another way.
Refuses to rewrite the metadata of tensors that require grad: their history would no longer describe them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import _C
from .._C import Tensor, UntypedStorage
from ..base import late
from ..base.promotion import set_default_dtype
from ..base.shape import INTS, Size
from ..devices import find
from ..devices.private_use import PRIVATE
from ..dispatch.overrides import overridable
from ..op import find_op
from . import legacy_types
from .interop import seen_by_modes
from .storages import TypedStorage

# --- questions --------------------------------------------------------------------------------------------------------


def is_tensor(obj: Any, /) -> bool:
    """Whether `obj` is a tensor.

    Arguments:
        obj: anything

    Example:
        >>> rl.is_tensor(rl.ones(2)), rl.is_tensor([1, 1])
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any, /) -> bool:
    """Whether `obj` is a storage.

    Arguments:
        obj: anything

    Example:
        >>> rl.is_storage(rl.ones(2).untyped_storage())
        True
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


@overridable
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero.

    Arguments:
        input: a tensor of one element

    Example:
        >>> rl.is_nonzero(rl.tensor([3.0]))
        True
    """
    if input.numel() != 1:
        what = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(input)


def typename(obj: Any, /) -> str:
    """The name of an object's type, tensors by their legacy name.

    Arguments:
        obj: anything

    Example:
        >>> rl.typename(rl.ones(2))
        'rushlight.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return legacy_types.type_name(obj)
    cls = obj if isinstance(obj, type) else type(obj)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__builtin__") else f"{cls.__module__}.{cls.__qualname__}"


def _ask(name: str) -> Callable[[Tensor], Any]:
    """A function that asks a tensor by calling its method."""

    def ask(input: Tensor) -> Any:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
        return getattr(input, name)()

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"`input.{name}()`."
    return overridable(ask)


numel, is_floating_point, is_complex, is_signed, is_inference, is_conj, is_neg, get_device, detach, detach_ = map(
    _ask,
    ("numel", "is_floating_point", "is_complex", "is_signed", "is_inference", "is_conj", "is_neg", "get_device",
     "detach", "detach_"),
)


# --- comparing as a whole ---------------------------------------------------------------------------------------------

BLOCK = 1 << 17     # elements compared before looking whether all were equal
_equal = find_op("_equal")


def plain_equal(*args: Any) -> bool:
    """`equal` where nobody has a say in the call: of few elements it is one op."""
    if len(args) == 2 and type(args[0]) is Tensor is type(args[1]):
        answer = _equal(*args)
        if answer is not None:
            return bool(answer)
    return equal.__wrapped__(*args)      # type: ignore[attr-defined, no-any-return]


@partial(overridable, plain=plain_equal)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether sizes and all elements are equal.

    Arguments:
        input: the first tensor
        other: the second tensor

    Example:
        >>> rl.equal(rl.tensor([1, 2]), rl.tensor([1, 2]))
        True
    """
    for name, value in (("input", input), ("other", other)):
        if not isinstance(value, Tensor):
            raise TypeError(f"equal(): argument '{name}' must be Tensor, not {type(value).__name__}")
    if input.device != other.device:
        raise RuntimeError(f"equal: expected both tensors on one device, got {input.device} and {other.device}")
    if input.shape != other.shape:
        return False
    if not input.numel():
        return True
    if (input._keys | other._keys) & PRIVATE:
        return late.provided("private method")("equal", input, other)
    if input.numel() <= BLOCK // 64 or not all(is_dense_on_host(t) for t in (input, other)):
        return bool((input == other).all())
    # In blocks, small ones first: most of what differs does so at once, and the flags of a block stay in cache.
    a, b, start, count = input.detach().view(-1), other.detach().view(-1), 0, BLOCK // 64
    while start < a.shape[0]:
        if not bool((a[start : start + count] == b[start : start + count]).all()):
            return False
        start, count = start + count, min(8 * count, BLOCK)
    return True


def is_dense_on_host(t: Tensor) -> bool:
    """Whether a tensor is one run of elements in the host's memory, and nobody looks at the ops it goes through."""
    return t.device.type == "cpu" and not t._keys and not any(_C.get_thread_keys()) and t.is_contiguous()


@overridable
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether every element of `input` is within `atol + rtol * |other|` of the other.

    Arguments:
        input: the first tensor
        other: the second tensor
        rtol: the allowed difference as a share of the second
        atol: the allowed difference beside that
        equal_nan: whether NaN equals NaN

    Example:
        >>> rl.allclose(rl.tensor([1.0]), rl.tensor([1.0 + 1e-7]))
        True
    """
    return bool(find_op("isclose")(input, other, rtol, atol, equal_nan).all())


# --- shapes -----------------------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of all these shapes have when combined.

    Arguments:
        shapes: sizes

    Example:
        >>> rl.broadcast_shapes((2, 1), (3,))
        rushlight.Size([2, 3])
    """
    given = [(s,) if isinstance(s, INTS) else tuple(s) for s in shapes]
    result = [1] * max(map(len, given), default=0)
    for shape in given:
        for back in range(1, len(shape) + 1):
            n, have = shape[-back], result[-back]
            if n < 0:
                raise RuntimeError(f"broadcast_shapes: expected sizes of at least 0, got negative dimension {n}")
            if n != 1 and have != 1 and n != have:
                raise RuntimeError(
                    f"Shape mismatch: objects cannot be broadcast to a single shape, got {[list(s) for s in given]}"
                )
            if n != 1:
                result[-back] = n
    return Size(result)


@overridable
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of all tensors with their common shape.

    Arguments:
        tensors: the tensors

    Example:
        >>> a, b = rl.broadcast_tensors(rl.ones(2, 1), rl.ones(3))
        >>> a.shape, b.shape
        (rushlight.Size([2, 3]), rushlight.Size([2, 3]))
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = broadcast_shapes(*(t.shape for t in given))
    return tuple(t.expand(shape) for t in given)


def set_default_tensor_type(t: Any, /) -> None:
    """Make the dtype of a legacy tensor type the default."""
    name = t.rpartition(".")[2] if isinstance(t, str) else t.__name__
    if name not in legacy_types.TYPES:
        raise TypeError(f"set_default_tensor_type: invalid type object {t!r}")
    set_default_dtype(legacy_types.TYPES[name].dtype)


# --- metadata in place ------------------------------------------------------------------------------------------------


def _in_place(name: str) -> Callable[..., Tensor]:
    """The in-place form of a view op: the tensor takes on the view's sizes and strides."""
    view_name = name[:-1]

    def rewrite(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.requires_grad:
            raise RuntimeError(
                f"{name}: the sizes of a tensor that requires grad cannot be changed in place. Use x ="
                f" x.{view_name}(...) instead."
            )
        view = getattr(self, view_name)(*args, **kwargs)
        if view._wrapped is not None:      # of a transform: what is behind the view is now behind the tensor
            self._wrapped = view._wrapped
            _C.rewrap(self, view)
            _C.bump_version(self)
            return self
        self._set_storage(self.untyped_storage(), view.storage_offset(), view.shape, view.stride())
        _C.bump_version(self)
        return self

    rewrite.__name__ = rewrite.__qualname__ = name
    rewrite.__doc__ = f"`{view_name}`, changing the tensor itself."
    return rewrite


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """A tensor holding a copy of `data`, with the dtype and device of `self` unless given."""
    dtype, device = dtype or self.dtype, self.device if device is None else device
    if isinstance(data, Tensor):
        result = data.detach().clone().to(device).to(dtype)
    else:
        result = seen_by_modes(_C.from_data(data, dtype, device))
    return result.requires_grad_() if requires_grad else result


def apply_(self: Tensor, function: Callable[[Any], Any]) -> Tensor:
    """Replace every element by `function(element)`, in Python, on the host."""
    if not self.is_cpu:
        raise TypeError("apply_ is only implemented on CPU tensors")
    if self.requires_grad:
        raise RuntimeError("apply_: the tensor requires grad. Use tensor.detach().apply_().")
    values = [function(v) for v in self.reshape(-1).tolist()]
    return self.copy_(_C.from_data(values, self.dtype).view(self.shape)) if values else self


def map_(self: Tensor, tensor: Tensor, function: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by `function(element, other element)`, in Python, on the host."""
    if self.requires_grad or tensor.requires_grad:
        raise RuntimeError("map_: the tensor requires grad. Use tensor.detach().map_().")
    other = tensor.expand(self.shape).reshape(-1).tolist()
    values = [function(a, b) for a, b in zip(self.reshape(-1).tolist(), other, strict=True)]
    return self.copy_(_C.from_data(values, self.dtype).view(self.shape)) if values else self


def map2_(self: Tensor, x: Tensor, y: Tensor, function: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace every element by `function(element, element of x, element of y)`, in Python, on the host."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError("map2_: the tensor requires grad. Use tensor.detach().map2_().")
    first, second = (t.expand(self.shape).reshape(-1).tolist() for t in (x, y))
    values = [function(*row) for row in zip(self.reshape(-1).tolist(), first, second, strict=True)]
    return self.copy_(_C.from_data(values, self.dtype).view(self.shape)) if values else self


def dim_order(self: Tensor, *, ambiguity_check: bool | list = False) -> tuple[int, ...]:
    """The dims from the slowest to the fastest in memory."""
    if ambiguity_check:
        sizes, strides = self.shape, self.stride()
        seen = [s for n, s in zip(sizes, strides, strict=True) if n != 1]
        if len(set(seen)) != len(seen) or 1 in sizes:
            raise RuntimeError(
                f"dim_order: ambiguous, or not one of the given memory formats: shape {list(sizes)}, strides"
                f" {list(strides)}"
            )
    return tuple(sorted(range(self.ndim), key=lambda d: (-self.stride()[d], d)))


@overridable
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same sizes.

    Arguments:
        input: the first tensor
        other: the second tensor

    Example:
        >>> rl.is_same_size(rl.ones(2, 3), rl.zeros(2, 3))
        True
    """
    return tuple(input.shape) == tuple(other.shape)


@overridable
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether `input.data = from_` can be said of the two: both are of one layout, and neither or both have memory."""
    kinds = {input.device.type, from_.device.type}
    is_alike = not (input._keys ^ from_._keys) & PRIVATE
    return is_alike and (len(kinds) == 1 or "meta" not in kinds) and input.layout == from_.layout


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in host memory that a GPU reads and writes by itself; the tensor itself where it is there already."""
    if self.device.type != "cpu":
        raise RuntimeError(f"pin_memory: only dense CPU tensors can be pinned, got one on {self.device}")
    if not find("cuda"):
        raise RuntimeError("pin_memory: needs an accelerator device, and none is available")
    if _C.is_pinned(self):
        return self
    _C.cuda_enter(_C.current_unit("cuda"))
    strides = self.stride() if self._is_dense() else None
    result = _C.cuda_pinned(self.numel() * self.element_size()).view(self.dtype)
    result = result.view(self.shape) if strides is None else result.as_strided(self.shape, strides)
    return result.copy_(self)


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned."""
    return self.device.type == "cpu" and _C.is_pinned(self)


def record_stream(self: Tensor, stream: Any) -> None:
    """Keep the tensor's memory, once it is freed, until what `stream` has queued by then is done."""
    if self.device.type in ("cpu", "meta"):
        raise RuntimeError(f"record_stream: needs a tensor on an accelerator, got one on {self.device}")
    _C.used_on_stream(self, stream.device, stream.stream_id)


def reinforce(self: Tensor, reward: Any) -> None:
    """Refused, as in PyTorch: stochastic functions were removed."""
    raise RuntimeError("reinforce() was removed. Use rushlight.distributions instead.")


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give the tensor another's sizes in place."""
    return self.resize_(the_template.shape)


def _module_form(name: str) -> Callable[..., Tensor]:
    """An in-place method as a function of its tensor."""

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(input, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`input.{name}(...)`."
    return call


zero_, as_strided_ = _module_form("zero_"), _module_form("as_strided_")


@overridable
def is_distributed(input: Tensor) -> bool:
    """False: tensors live in one process."""
    return False


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a CUDA device."""
    target = _C.device("cuda", device) if isinstance(device, int) else _C.device("cuda" if device is None else device)
    order = {} if memory_format is None else {"memory_format": memory_format}
    return self.to(target, non_blocking=non_blocking, **order)


METHODS: dict[str, Any] = {
    "equal": equal, "allclose": allclose, "is_nonzero": is_nonzero, "new_tensor": new_tensor, "apply_": apply_,
    "map_": map_, "map2_": map2_, "dim_order": dim_order, "is_same_size": is_same_size, "pin_memory": pin_memory,
    "is_pinned": is_pinned,
    "record_stream": record_stream, "reinforce": reinforce, "cuda": cuda,
    "is_distributed": lambda self: False,
    **{n: _in_place(n) for n in ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_",
                                 "as_strided_")},
}
