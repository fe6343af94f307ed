"""Fake tensors: everything about a tensor but its elements.

Enters: a `FakeTensorMode`, real tensors to imitate (`mode.from_tensor`), or factories called inside the mode. Leaves:
`FakeTensor`s: sizes (symbolic if the mode has a `ShapeEnv`), strides, dtype, and the device they claim to be on, through every
op, forward and backward, without memory or work. Refuses: reading elements, and real tensors mixed in (unless
`allow_non_fake_inputs`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..dispatch.modes import TorchDispatchMode
from ..op import Composite
from ..op.batched import PythonMeta
from ..shape import Size
from .rules import dense_strides, matching, symbolic_results
from .symbols import ShapeEnv, SymInt

META = _C.device("meta")
_BARE = (_C.device, _C.dtype)


class DataDependentOutputException(RuntimeError):
    """A fake tensor was asked for what only elements can tell."""


class UnsupportedFakeTensorException(RuntimeError):
    """Fake and real tensors, or fake tensors of two modes, met in one call."""


class _Planning(threading.local):
    active = False     # while a shape rule runs, fake tensors say truthfully that they are on `meta`


_planning = _Planning()


class FakeTensor(Tensor):
    """A tensor on `meta` that reports the device, and if wanted the symbolic sizes, it stands for."""

    fake_device: Any
    fake_mode: FakeTensorMode
    symbolic: tuple[Sequence[int], Sequence[int]] | None

    @property
    def device(self) -> Any:
        return META if _planning.active else self.fake_device

    @property
    def shape(self) -> Any:
        return Size(self.symbolic[0]) if self.symbolic else Tensor.shape.__get__(self)

    @property
    def is_meta(self) -> bool:
        """Whether there are no elements to read: what op bodies ask before they look at any."""
        return True

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        strides = tuple(self.symbolic[1]) if self.symbolic else Tensor.stride(self)
        return strides if dim is None else strides[dim]

    def numel(self) -> int:
        total: int = 1
        for size in self.shape:
            total = total * size
        return total

    nelement = numel

    def __getitem__(self, index: Any) -> Any:
        """Slices keep symbolic bounds: each becomes a `narrow` of its own."""
        items = index if isinstance(index, tuple) else (index,)
        if not any(isinstance(i, slice) and any(isinstance(b, SymInt) for b in (i.start, i.stop)) for i in items) or any(i is Ellipsis for i in items):
            return super().__getitem__(index)
        t, plain, dim = self, [], 0
        for item in items:
            if isinstance(item, slice) and item.step in (None, 1):
                start, stop = (0 if item.start is None else item.start), item.stop
                size = t.shape[dim]
                start = start + size if start < 0 else start
                stop = size if stop is None or stop >= size else stop + size if stop < 0 else stop
                t, item = t.narrow(dim, start, stop - start), slice(None)
            plain.append(item)
            dim += item is not None
        return t if all(i == slice(None) for i in plain) else Tensor.__getitem__(t, tuple(plain))

    def detach(self) -> FakeTensor:
        return self.fake_mode.wrap(Tensor.detach(self), self.fake_device, self.symbolic)

    def item(self) -> Any:
        raise DataDependentOutputException("item(): a fake tensor has no elements to read")

    def tolist(self) -> Any:
        raise DataDependentOutputException("tolist(): a fake tensor has no elements to read")

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise DataDependentOutputException("numpy(): a fake tensor has no elements to read")

    def __bool__(self) -> bool:
        raise DataDependentOutputException("the truth of a fake tensor depends on elements, and it has none")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"FakeTensor(..., device='{self.fake_device}', size=({sizes}{',' if self.ndim == 1 else ''}), dtype={self.dtype})"

    def _fresh(self, shape: Sequence[int], strides: Sequence[int] | None, dtype: Any, device: Any) -> FakeTensor:
        """A fake tensor for a result of an op on this one."""
        hints = tuple(map(_on_meta, shape))
        bare = _C.empty(hints, None if strides is None else tuple(map(_on_meta, strides)), dtype, META)
        symbolic = tuple(shape), dense_strides(shape, hints, Tensor.stride(bare))
        return self.fake_mode.wrap(bare, _C.device(device), symbolic if _is_symbolic(shape) else None)

    def _tape_meta(self) -> FakeMeta:
        """What the tape keeps where a rule wants shape and type."""
        return FakeMeta(self.detach())

    __torch_function__ = _C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        mode = next(t.fake_mode for t in _tensors(args, kwargs or {}) if isinstance(t, FakeTensor))
        return mode.run(func, args, kwargs or {})


class FakeMeta(PythonMeta):
    """Shape and type of a fake tensor, for derivative rules that keep no data: sizes stay symbolic, and the device the one it stands for."""

    def __init__(self, like: FakeTensor, shape: Sequence[int] | None = None, dtype: Any = None) -> None:
        self.tensor = like
        self.shape, self.dtype = Size(like.shape if shape is None else shape), like.dtype if dtype is None else dtype
        self.device, self.requires_grad, self.ndim = like.fake_device, like.requires_grad, len(self.shape)
        self.strides = like.stride() if shape is None else None

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        strides = self.empty().stride() if self.strides is None else self.strides
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        return self.tensor.storage_offset()

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def empty(self) -> FakeTensor:
        return self.tensor._fresh(self.shape, None, self.dtype, self.device)

    def zeros(self, shape: Sequence[int] | None = None) -> FakeTensor:
        return self.tensor._fresh(self.shape if shape is None else shape, None, self.dtype, self.device).zero_()

    def full(self, value: Any) -> FakeTensor:
        return self.empty().fill_(value)

    def like(self, shape: Sequence[int] | None = None, dtype: Any = None) -> FakeMeta:
        return FakeMeta(self.tensor, self.shape if shape is None else shape, self.dtype if dtype is None else dtype)


class FakeTensorMode(TorchDispatchMode):
    """Inside, every op makes fake tensors."""

    def __init__(self, *, allow_non_fake_inputs: bool = False, shape_env: ShapeEnv | None = None, allow_fallback_kernels: bool = True,
                 static_shapes: bool | None = None) -> None:  # fmt: skip
        super().__init__()
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.allow_fallback_kernels = allow_fallback_kernels   # kept for PyTorch's signature: no op here needs a fallback
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes

    # --- making ---------------------------------------------------------------------------------------------------------

    def from_tensor(self, tensor: Tensor, *, static_shapes: bool | None = None, dynamic_dims: Sequence[int] | None = None) -> FakeTensor:
        """A fake of a real tensor. Its sizes are symbols if the mode has a `ShapeEnv` (all of them, or `dynamic_dims`)."""
        if isinstance(tensor, FakeTensor):
            return tensor
        bare = _C.empty(tuple(tensor.shape), tensor.stride(), tensor.dtype, META)
        static = self.static_shapes if static_shapes is None else static_shapes
        symbolic = None
        if not static and self.shape_env is not None:
            wanted = range(tensor.ndim) if dynamic_dims is None else [d % tensor.ndim for d in dynamic_dims]
            sizes = tuple(self.shape_env.create_symbol(n) if d in wanted else n for d, n in enumerate(tensor.shape))
            symbolic = sizes, dense_strides(sizes, tuple(tensor.shape), tensor.stride())
        made = self.wrap(bare, tensor.device, symbolic)
        return made.requires_grad_() if tensor.requires_grad else made

    def wrap(self, bare: Tensor, device: Any, symbolic: tuple | None) -> FakeTensor:
        """A `meta` tensor as a fake one."""
        made = _C.shallow_copy(bare, True, FakeTensor)
        made.fake_device, made.fake_mode, made.symbolic = device, self, symbolic
        return made

    # --- calls -----------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, overload: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One call on fake tensors."""
        bound = _bind(overload, args, kwargs)
        device, bound = self.device_of(overload, bound)
        bound = tuple(self.admitted(overload, a) for a in bound)
        if isinstance(overload.definition, Composite):   # one with a derivative of its own: its body has the shapes
            return self.dressed(overload.definition.run(*bound), None, device, ())
        _planning.active = True
        try:
            result = overload.backend(*[_on_meta(a) for a in bound])
            if overload.inplace:
                return bound[0]
            shapes = symbolic_results(overload, bound) if any(_is_symbolic(a) for a in bound) else None
        finally:
            _planning.active = False
        return self.dressed(result, shapes, device, bound)

    def device_of(self, overload: Any, args: tuple) -> tuple[Any, tuple]:
        """The device of the results; an explicit `device` argument becomes `meta` for the call itself."""
        devices = [t.fake_device for t in _tensors(args, {}) if isinstance(t, FakeTensor) and t.ndim] or [
            t.fake_device for t in _tensors(args, {}) if isinstance(t, FakeTensor)]
        if any(d != devices[0] for d in devices):
            raise RuntimeError(f"{overload.name}: Expected all tensors to be on the same device, but found {', '.join(sorted({str(d) for d in devices}))}")
        given = next((a for p, a in zip(overload.definition.spec.params, args, strict=True) if p.type == "device?" and a is not None), None)
        has_option = any(p.type == "device?" for p in overload.definition.spec.params)
        if has_option:
            args = tuple(META if p.type == "device?" and (a is not None or not devices) else a for p, a in zip(overload.definition.spec.params, args, strict=True))
        return (_C.device(given) if given is not None else devices[0] if devices else _C.device("cpu")), args

    def admitted(self, overload: Any, a: Any) -> Any:
        """An argument as this mode takes it: other tensors are refused or imitated."""
        if isinstance(a, (list, tuple)):
            return type(a)(self.admitted(overload, x) for x in a) if type(a) in (list, tuple) else a
        if not isinstance(a, Tensor):
            return a
        if isinstance(a, FakeTensor):
            if a.fake_mode is not self:
                raise UnsupportedFakeTensorException(f"{overload.name}: fake tensors of two modes met in one call")
            return a
        if self.allow_non_fake_inputs or not a.ndim or a.is_meta:
            return self.from_tensor(a, static_shapes=True)
        raise UnsupportedFakeTensorException(
            f"{overload.name}: a real tensor {list(a.shape)} met fake ones. Convert it with FakeTensorMode.from_tensor, or pass allow_non_fake_inputs=True to the mode.")

    def dressed(self, result: Any, shapes: list | None, device: Any, args: tuple) -> Any:
        """The results as fake tensors, with symbolic sizes where the rule gave them."""
        at = 0

        def one(r: Any) -> Any:
            nonlocal at
            if isinstance(r, FakeTensor):
                return r
            rule = shapes[at] if shapes is not None and at < len(shapes) else None
            at += 1
            symbolic = self.symbols_of(r, rule, args)
            made = self.wrap(r, device, symbolic)
            return made.requires_grad_() if r.requires_grad else made

        return _map(one, result)

    def symbols_of(self, r: Tensor, rule: tuple | None, args: tuple) -> tuple | None:
        hints, strides = tuple(Tensor.shape.__get__(r)), Tensor.stride(r)
        if rule is None or not matching(rule[0], hints):
            if any(_is_symbolic(a) for a in args):
                _pin(args)
            return None
        if not any(isinstance(s, SymInt) for s in rule[0]):
            return None
        if rule[1] is not None and any(isinstance(s, SymInt) for s in rule[1]) and matching(rule[1], strides):
            return tuple(rule[0]), tuple(rule[1])
        return tuple(rule[0]), dense_strides(rule[0], hints, strides)


# --- argument trees --------------------------------------------------------------------------------------------------------


def _bind(overload: Any, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Every parameter of the schema, defaults filled in."""
    params = overload.definition.spec.params
    return tuple(args[i] if i < len(args) else kwargs.get(p.name, p.default) for i, p in enumerate(params))


def _tensors(args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for a in (*args, *kwargs.values()):
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += _tensors(a, {})
    return found


def _map(fn: Callable[[Tensor], Any], tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return fn(tree)
    if isinstance(tree, (list, tuple)):
        parts = [_map(fn, x) for x in tree]
        return tuple(parts) if type(tree) is tuple else type(tree)(parts)
    return tree


def _on_meta(a: Any) -> Any:
    """An argument for the call itself: the bare tensor, plain numbers."""
    if isinstance(a, FakeTensor):
        return _C.shallow_copy(a, True, Tensor)
    if type(a) is SymInt:
        return a.hint
    if type(a) in (list, tuple, Size):
        return tuple(_on_meta(x) for x in a) if type(a) is not list else [_on_meta(x) for x in a]
    return a


def _is_symbolic(a: Any) -> bool:
    if isinstance(a, FakeTensor):
        return a.symbolic is not None
    return type(a) is SymInt or (isinstance(a, (list, tuple)) and any(_is_symbolic(x) for x in a))


def _pin(a: Any) -> None:
    """A call without a rule depends on the very sizes it met."""
    if isinstance(a, FakeTensor):
        _pin(a.symbolic[0] if a.symbolic else ())
    elif type(a) is SymInt:
        int(a)
    elif isinstance(a, (list, tuple)):
        for x in a:
            _pin(x)
