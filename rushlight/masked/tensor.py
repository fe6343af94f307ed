"""MaskedTensor: a tensor that carries a mask, True where an element counts.

Enters: data and a mask of bool, of one layout and size. Leaves: a Tensor without elements of its own; `rules` says what
ops make of its two parts. Refuses data that is no tensor, dtypes and layouts PyTorch's has not, and masks that do not
fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.function import Function
from ..base.shape import sparse_coo, sparse_csr, strided
from ..dispatch.modes import DisableTorchFunctionSubclass

_DTYPES = (_C.float16, _C.float32, _C.float64, _C.bool, _C.int8, _C.int16, _C.int32, _C.int64)
_SLOTS = ("__get__", "__set__")
_FUNCTIONS = ("__getitem__", "__setitem__", "einsum", "allclose", "equal", "broadcast_tensors")     # that are no ops


class MaskedTensor(Tensor):
    """Data and a mask, as one tensor."""

    _masked_data: Tensor
    _masked_mask: Tensor
    rules: Callable[[str, tuple, dict[str, Any]], Any]     # set by `rules`: an op by name, and its arguments
    own_ops = True                                           # its handler is this package's: it sees our ops

    @staticmethod
    def __new__(cls: type, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        for name, value in (("data", data), ("mask", mask)):
            if not isinstance(value, Tensor) or isinstance(value, MaskedTensor):
                raise TypeError(f"masked_tensor: {name} must be a Tensor, got {type(value).__name__}")
        strides: Any = tuple(data.stride()) if data.layout is strided else None
        result = _C.make_wrapper(cls, tuple(data.shape), strides, data.dtype, data.device)
        return result.requires_grad_() if requires_grad else result

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        if data.layout is not mask.layout:
            raise TypeError(f"masked_tensor: data and mask must have the same layout, got {data.layout}, {mask.layout}")
        if data.layout is sparse_coo:
            data, mask = data.coalesce(), mask.coalesce()
        _check(data, mask)
        with DisableTorchFunctionSubclass():
            self._masked_data, self._masked_mask = data.detach().clone(), mask.detach().clone()

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name not in _SLOTS and (isinstance(func, _C.Op) or name in _FUNCTIONS):
            return cls.rules(name, args, kwargs or {})
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return cls.rules(func.name, args, kwargs or {})

    @classmethod
    def __compose__(cls, overload: Any, args: tuple) -> Any:
        definition = overload.definition
        params = definition.spec.params
        named = {p.name: a for p, a in zip(params, args, strict=True) if p.keyword_only and a is not p.default}
        given = [a for p, a in zip(params, args, strict=True) if not p.keyword_only]
        while given and not params[len(given) - 1].required and given[-1] is params[len(given) - 1].default:
            given.pop()
        return cls.rules(definition.spec.name + ("_" if definition.is_inplace else ""), tuple(given), named)

    # --- the parts ----------------------------------------------------------------------------------------------------

    def get_mask(self) -> Tensor:
        """Where elements count."""
        return self._masked_mask

    def get_data(self) -> Tensor:
        """The elements, those that do not count included."""
        return _GetData.apply(self)

    def to_tensor(self, value: Any) -> Tensor:
        """The elements that count, and `value` in place of the others."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    @property
    def layout(self) -> Any:  # type: ignore[override]
        return self._masked_data.layout

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.is_sparse_coo() or self.is_sparse_csr()

    def is_sparse_coo(self) -> bool:
        """Whether the parts are sparse tensors of coordinates."""
        return self.layout is sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the parts are sparse tensors of compressed rows."""
        return self.layout is sparse_csr

    # --- Python's protocols -------------------------------------------------------------------------------------------

    def detach(self) -> MaskedTensor:
        return MaskedTensor(self._masked_data, self._masked_mask)

    @property
    def data(self) -> MaskedTensor:  # type: ignore[override]
        return self.detach()

    def item(self) -> Any:
        if self.numel() == 1 and not self._masked_mask.item():
            raise ValueError("item: the element is masked out")
        return self._masked_data.item()

    def __deepcopy__(self, memo: dict) -> MaskedTensor:
        result = MaskedTensor(self._masked_data, self._masked_mask, requires_grad=self.requires_grad)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return MaskedTensor, (self._masked_data, self._masked_mask, self.requires_grad)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("MaskedTensor: its elements are not all there. Use to_tensor(value) or get_data() first.")

    numpy = tolist = __array__ = _refuse

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        data, mask = self._masked_data, self._masked_mask
        if data.layout is not strided:
            data, mask = data.to_dense(), mask.to_dense()
        if not data.ndim:
            shown = _element(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        return f"MaskedTensor(\n{_indented(_text(data.tolist(), mask.tolist(), data.ndim))}\n)"


def _check(data: Tensor, mask: Tensor) -> None:
    """Raise what PyTorch raises where a mask does not fit, or the data is of a kind it does not take."""
    if data.layout not in (strided, sparse_coo, sparse_csr):
        raise TypeError(f"masked_tensor: data of layout {data.layout} is not supported")
    if data.layout is sparse_coo and not _is_equal(data.indices(), mask.indices()):
        raise ValueError("masked_tensor: data and mask are sparse COO tensors, but do not have the same indices")
    if data.layout is sparse_csr and not (
        _is_equal(data.crow_indices(), mask.crow_indices()) and _is_equal(data.col_indices(), mask.col_indices())
    ):
        raise ValueError("masked_tensor: data and mask are sparse CSR tensors, but do not have the same indices")
    if mask.dtype is not _C.bool:
        raise TypeError(f"masked_tensor: mask must have dtype bool, got {mask.dtype}")
    if data.dtype not in _DTYPES:
        raise TypeError(f"masked_tensor: {data.dtype} is not supported")
    if data.shape != mask.shape:
        raise ValueError(
            f"masked_tensor: data.size() must equal mask.size(), got {tuple(data.shape)} and {tuple(mask.shape)}"
        )


def _is_equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool((a == b).all())


class _GetData(Function):
    """The data of a masked tensor, as part of the graph."""

    @staticmethod
    def forward(ctx: Any, masked: MaskedTensor) -> Tensor:
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> MaskedTensor:
        return grad if isinstance(grad, MaskedTensor) else MaskedTensor(grad, ctx.mask)


class _FromValues(Function):
    """A masked tensor of a tensor, as part of the graph."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> MaskedTensor:
        return MaskedTensor(data, mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Any, None]:
        return grad, None


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A new masked tensor that shares nothing with `data`, a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """`data` with a mask, through which gradients flow."""
    return _FromValues.apply(data, mask)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether `obj` is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


# --- printing ---------------------------------------------------------------------------------------------------------


def _element(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def _text(values: list, mask: list, ndim: int) -> str:
    if ndim > 1:
        return "[\n" + ",\n".join(
            _indented(_text(v, m, ndim - 1)) for v, m in zip(values, mask, strict=True)) + "\n]"
    written = [_element(v) for v in values]
    width = max(len(w) if m else 8 for w, m in zip(written, mask, strict=True))
    return "[" + ", ".join(w if m else "--".rjust(width) for w, m in zip(written, mask, strict=True)) + "]"
