"""Fake tensors: everything about a tensor but its elements.

Enters: a `FakeTensorMode`, real tensors to imitate (`mode.from_tensor`), or factories called inside the mode. Leaves:
`FakeTensor`s: sizes (symbolic if the mode has a `ShapeEnv`), strides, dtype, and the device they claim to be on,
through every op, forward and backward, without memory or work. Refuses: reading elements,
and real tensors mixed in (unless `allow_non_fake_inputs`).
"""

from __future__ import annotations

import math
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import logs
from ..base.bits import BITS
from ..base.shape import INTS, Size, contiguous_format, preserve_format, strides_for
from ..devices import at_unit, default_device
from ..dispatch.modes import TorchDispatchMode, state
from ..library.rules import fake_context
from ..op import Composite, Extern, OpDefinition
from ..rules.batch_overloads import PythonMeta
from ..symbols import DimDynamic, ShapeEnv, SymBool, SymFloat, SymInt, geometry
from .rules import fresh, symbolic_results

META = _C.device("meta")
_BARE = (_C.device, _C.dtype)
_MOVES = ("copy", "copy_", "_move_to_device")      # from device to device


class DataDependentOutputException(RuntimeError):
    """A fake tensor was asked for what only elements can tell."""


class UnsupportedFakeTensorException(RuntimeError):
    """Fake and real tensors, or fake tensors of two modes, met in one call."""


class _Planning(threading.local):
    active = False     # while a shape rule runs, fake tensors say truthfully that they are on `meta`


_planning = _Planning()


class FakeTensor(Tensor):
    """A tensor on `meta` that reports the device, and if wanted the symbolic sizes, it stands for."""

    own_ops = True
    fake_device: Any
    fake_mode: FakeTensorMode
    extent: Any                                   # bytes of the storage, where it is a formula
    symbolic: tuple[tuple, tuple, Any] | None     # sizes, strides and offset, where one of them is a symbol

    @property
    def device(self) -> Any:
        return META if _planning.active else self.fake_device

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

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

    def storage_offset(self) -> Any:
        return self.symbolic[2] if self.symbolic else Tensor.storage_offset(self)

    def numel(self) -> Any:
        return math.prod(self.shape)

    nelement = numel

    @property
    def nbytes(self) -> Any:
        return self.numel() * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    @property
    def _has_hidden_sizes(self) -> bool:
        """Whether only elements can tell a size: the core holds a number that means nothing."""
        return self.symbolic is not None and _is_unbacked(self.symbolic)

    # What the core would answer from the sizes it holds, which are hints.

    def _is_contiguous(self) -> bool:
        return geometry.is_contiguous(self.shape, self.stride()) if self.symbolic else Tensor._is_contiguous(self)

    def _is_channels_last(self) -> bool:
        return geometry.is_channels_last(self.shape, self.stride()) if self.symbolic else Tensor._is_channels_last(self)

    def _is_dense(self) -> bool:
        return geometry.is_dense(self.shape, self.stride()) if self.symbolic else Tensor._is_dense(self)

    def _overlaps_itself(self) -> bool:
        return geometry.overlaps_itself(self.shape, self.stride()) if self.symbolic else Tensor._overlaps_itself(self)

    def _view_strides(self, sizes: Sequence[Any]) -> Any:
        if not self.symbolic and not any(isinstance(s, SymInt) for s in sizes):
            return _C.view_strides(_C.shallow_copy(self, True, Tensor), sizes)
        return geometry.view_strides(tuple(self.shape), self.stride(), sizes)

    def _storage_bytes(self) -> Any:
        """How long the storage is."""
        if self.extent is None and self.symbolic is not None:
            self.extent = _spanned(*self.symbolic) * self.itemsize
        return self.extent if self.extent is not None else Tensor.untyped_storage(self).nbytes()

    def untyped_storage(self) -> Any:
        """The storage, whose length is a formula where the sizes are."""
        storage = Tensor.untyped_storage(self)
        storage._extent = None
        length = self._storage_bytes()
        # A storage that was given another length since has that one.
        # (What stands for a hidden size says nothing of it.)
        if isinstance(length, SymInt) and (_is_unbacked(length) or _on_meta(length) == storage.nbytes()):
            storage._extent = length
        return storage

    def _set_storage(self, storage: Any, offset: Any, size: Sequence[Any], stride: Sequence[Any]) -> None:
        layout = tuple(size), tuple(stride), offset
        Tensor._set_storage(self, storage, *(_on_meta(part) for part in (offset, *layout[:2])))
        self.symbolic, self.extent = layout if _is_symbolic(layout) else None, storage._extent

    def resize_(self, *sizes: Any, memory_format: Any = None) -> FakeTensor:
        """New sizes in place; a storage that is too short becomes another."""
        given = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], INTS) else sizes
        order = contiguous_format if memory_format in (None, preserve_format) else memory_format
        layout = fresh(given, None if order is contiguous_format else strides_for(given, order))
        bare = _C.empty(*(tuple(map(_on_meta, part)) for part in layout[:2]), self.dtype, META)
        begin, enough = Tensor.storage_offset(self), self.symbolic is None and not _is_symbolic(given)
        enough = enough and (begin + bare.numel()) * self.itemsize <= Tensor.untyped_storage(self).nbytes()
        note = self.fake_mode.on_resize and self.fake_mode.on_resize(self, layout[:2], enough)
        self._set_storage((self if enough else bare).untyped_storage(), begin if enough else 0, *layout[:2])
        if note is not None:
            note()
        return self

    def detach(self) -> FakeTensor:
        result = self.fake_mode.wrap(_C.shallow_copy(self, True), self.fake_device, self.symbolic, self.extent)
        if self.fake_mode.on_detach is not None:
            self.fake_mode.on_detach(self, result)
        return result

    @property
    def data(self) -> FakeTensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)

    def item(self) -> Any:
        """The only element: a symbol without a hint, if the mode has a `ShapeEnv` that allows it."""
        if (known := self._known_elements()) is not None:
            return known.item()
        env = self.fake_mode.shape_env
        if env is None or not env.allow_scalar_outputs or self.dtype.is_complex:
            raise DataDependentOutputException(
                "item(): a fake tensor has no elements to read. Give the mode a ShapeEnv to get a symbol for it."
            )
        if self.numel() != 1:
            raise RuntimeError(f"item: a tensor with {self.numel()} elements is no number")
        return self.fake_mode.scalar(self)

    def _known_elements(self) -> Tensor | None:
        """What the program made this tensor of, as long as nobody wrote to it."""
        constant, version = self.__dict__.get("constant", (None, 0))
        return constant if version == self._version else None

    def tolist(self) -> Any:
        if (known := self._known_elements()) is not None:
            return known.tolist()
        if self.fake_mode.shape_env is not None and self.fake_mode.shape_env.allow_scalar_outputs and not self.symbolic:
            return self.item() if not self.ndim else [part.tolist() for part in self.unbind(0)]
        raise DataDependentOutputException("tolist(): a fake tensor has no elements to read")

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        if (known := self._known_elements()) is not None:
            return known.numpy(*args, **kwargs)
        raise DataDependentOutputException("numpy(): a fake tensor has no elements to read")

    def __bool__(self) -> bool:
        if (known := self._known_elements()) is not None:
            return bool(known)
        env = self.fake_mode.shape_env
        if env is None or not env.allow_scalar_outputs:
            raise DataDependentOutputException("the truth of a fake tensor depends on elements, and it has none")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    __index__ = __int__

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        sizes = ", ".join(map(str, self.shape))
        return (
            f"FakeTensor(..., device='{self.fake_device}', size=({sizes}{',' if self.ndim == 1 else ''}),"
            f" dtype={self.dtype})"
        )

    def _fresh(self, shape: Sequence[int], strides: Sequence[int] | None, dtype: Any, device: Any) -> FakeTensor:
        """A fake tensor for a result of an op on this one."""
        bare = _C.empty(
            tuple(map(_on_meta, shape)), None if strides is None else tuple(map(_on_meta, strides)), dtype, META
        )
        device = self.fake_device if _planning.active else _C.device(device)
        return self.fake_mode.wrap(
            bare, device, fresh(shape, strides) if _is_symbolic(shape) or _is_symbolic(strides or ()) else None
        )

    def _example(self) -> FakeTensor:
        """The first of a batch, along the first dim."""
        bare = _C.shallow_copy(self, True, Tensor)
        first = _C.alias(bare, tuple(bare.shape)[1:], bare.stride()[1:], bare.storage_offset(), bare.dtype)
        layout = None if self.symbolic is None else (self.symbolic[0][1:], self.symbolic[1][1:], self.symbolic[2])
        return self.fake_mode.wrap(first, self.fake_device, layout, self._storage_bytes() if self.symbolic else None)

    def _is_recorded(self) -> bool:
        """Whether a graph is being recorded from the calls made now."""
        return any(mode.records for mode in state.dispatch_modes)

    def _refuse_recording(self, name: str) -> None:
        raise DataDependentOutputException(
            f"{name}: elements decide which way the result is computed, so no graph can hold it. Call it outside of the"
            " captured code."
        )

    def _tape_copy(self) -> FakeTensor:
        """What the tape keeps of a result."""
        return self.detach()

    def _tape_meta(self) -> FakeMeta:
        """What the tape keeps where a rule wants shape and type."""
        return FakeMeta(self.detach())

    __torch_function__ = _C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if is_for_others(types):
            return NotImplemented
        mode = next(t.fake_mode for t in _tensors(args, kwargs or {}) if isinstance(t, FakeTensor))
        return mode.run(func, args, kwargs or {})


def is_for_others(types: Sequence[type]) -> bool:
    """Whether a call has tensors of classes with rules of their own, which are asked first."""
    return any(not issubclass(t, FakeTensor) for t in types)


class FakeMeta(PythonMeta):
    """Shape and type of a fake tensor, for derivative rules that keep no data: sizes stay symbolic,
    and the device the one it stands for."""

    def __init__(self, like: FakeTensor, shape: Sequence[int] | None = None, dtype: Any = None,
                 strides: Sequence[int] | None = None) -> None:
        self.tensor = like
        self.shape, self.dtype = Size(like.shape if shape is None else shape), like.dtype if dtype is None else dtype
        self.device, self.requires_grad, self.ndim = like.fake_device, like.requires_grad, len(self.shape)
        self.strides = like.stride() if shape is None else strides

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        strides = self.empty().stride() if self.strides is None else self.strides
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> Any:
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

    keeps_layers = own_ops = True

    def __init__(self, *, allow_non_fake_inputs: bool = False, shape_env: ShapeEnv | None = None,
                 allow_fallback_kernels: bool = True, static_shapes: bool | None = None) -> None:
        super().__init__()
        self.allow_non_fake_inputs = allow_non_fake_inputs
        # kept for PyTorch's signature: no op here needs a fallback
        self.allow_fallback_kernels = allow_fallback_kernels
        self.shape_env = shape_env
        # told of each element that becomes a symbol (a tracer records it)
        self.on_scalar: Callable[[FakeTensor, Any], None] | None = None
        self.on_detach: Callable[[FakeTensor, FakeTensor], None] | None = None
        # told of sizes and strides given in place, and whether memory has room; its result is called afterwards
        self.on_resize: Callable[[FakeTensor, tuple, bool], Callable[[], None] | None] | None = None
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.created: list[weakref.ref] | None = None     # a list, to be told of every tensor made
        self.calls: list[Any] | None = None               # a list, to be told of every op that runs

    # --- making -------------------------------------------------------------------------------------------------------

    def from_tensor(self, tensor: Tensor, *, static_shapes: bool | None = None,
                    dynamic_dims: Sequence[int] | None = None, source: Any = None,
                    symbolic_context: Any = None) -> FakeTensor:
        """A fake of a real tensor. Its sizes are symbols if the mode has a `ShapeEnv` (all of them, `dynamic_dims`, or
        as the context says)."""
        if isinstance(tensor, FakeTensor):
            return tensor
        bare = _C.empty(tuple(tensor.shape), tensor.stride(), tensor.dtype, META)
        bare._keys |= tensor._keys & BITS
        static = self.static_shapes if static_shapes is None else static_shapes
        symbolic = None
        if not static and self.shape_env is not None:
            symbolic = self.symbols_for(
                tensor, dynamic_dims, symbolic_context, str(source or f"input{len(self.shape_env.inputs)}")
            )
        result = self.wrap(bare, tensor.device, symbolic)
        return result.requires_grad_() if tensor.requires_grad else result

    def symbols_for(
        self, tensor: Tensor, dynamic_dims: Sequence[int] | None, context: Any, source: str
    ) -> tuple | None:
        """Symbolic sizes and strides of a tensor that is an input; None where its sizes all stay numbers."""
        env: Any = self.shape_env
        default = DimDynamic.STATIC if env.assume_static_by_default else DimDynamic.DUCK
        if context is not None:
            policies = list(context.dynamic_sizes)
        elif dynamic_dims is None:
            policies = [default] * tensor.ndim
        else:
            wanted = {d % tensor.ndim for d in dynamic_dims}
            policies = [DimDynamic.DUCK if d in wanted else DimDynamic.STATIC for d in range(tensor.ndim)]
        sizes = env.symbolic_shape(tuple(tensor.shape), policies, source)
        strides = _symbolic_strides(sizes, tuple(tensor.shape), tensor.stride())
        env.remember_tensor(source, sizes, strides)
        return (sizes, strides, 0) if _is_symbolic(sizes) else None

    def wrap(self, bare: Tensor, device: Any, symbolic: tuple | None, extent: Any = None) -> FakeTensor:
        """A `meta` tensor as a fake one; `extent` is the length of its storage where that is not its own."""
        result = _C.shallow_copy(bare, True, FakeTensor)
        result.fake_device, result.fake_mode, result.symbolic = at_unit(device), self, symbolic
        result.extent = extent
        if self.created is not None:
            self.created.append(weakref.ref(result))
        return result

    # --- calls --------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if (log := logs.messages("torch._subclasses.fake_tensor", logs.DEBUG)) is not None:
            log.debug("FakeTensorMode.__torch_dispatch__: %s", func)
        return NotImplemented if is_for_others(types) else self.run(func, args, kwargs or {})

    def run(self, overload: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One call on fake tensors."""
        if self.calls is not None:
            self.calls.append(overload)
        given = _bind(overload, args, kwargs)
        device, bound = self.device_of(overload, given)
        bound = tuple(self.admitted(overload, a) for a in bound)
        if getattr(overload.definition, "gives_number", False):
            return overload.definition.run(*bound)
        if isinstance(overload.definition, Composite):   # one with a derivative of its own: its body has the shapes
            named = [g if p.type == "device?" else b
                     for p, g, b in zip(overload.definition.spec.params, given, bound, strict=True)]
            with self:   # what the body makes of nothing (an arange) is fake too
                return self.wrapped(overload.definition.run(*named), None, device, ())
        is_symbolic = any(_is_symbolic(a) for a in bound)
        hidden = is_symbolic and any(_is_unbacked(a) for a in bound)
        before, _planning.active = _planning.active, True
        try:
            if (
                getattr(overload.definition, "hidden_size", None) is not None
                and self.shape_env is not None
                and self.shape_env.allow_dynamic_output_shape_ops
            ):
                return self.with_hidden_size(overload.definition, bound, device)
            # first: what stands for such sizes must decide nothing
            shapes = self.shapes_of_hidden(overload, bound) if hidden else None
            bare = [_on_meta(a) for a in bound]
            try:
                result = overload.backend(*bare)
            except NotImplementedError:     # elements decide a size: the body may say which
                answer = self.from_body(overload.definition, bound)
                if answer is None:
                    raise
                return answer
            if is_symbolic and not hidden:
                shapes = symbolic_results(overload, bound)
        finally:
            _planning.active = before
        if overload.inplace:
            if is_symbolic and shapes is None and len(_tensors(bound, {})) > 1:
                _pin(bound)
            return bound[0]
        through = next((a for a, b in zip(bound, bare, strict=True) if b is result and isinstance(a, FakeTensor)), None)
        return self.wrapped(result, shapes, device, bound, overload.is_view) if through is None else through

    def shapes_of_hidden(self, overload: Any, bound: tuple) -> list | None:
        """The layouts of the results, for sizes that only elements can tell: rules that ask whether these are 0 or 1
        hear that they are not. Where the call then gives other sizes for 0 or 1 than the formulas do, that it is
        neither is checked when the result is run."""
        env: Any = self.shape_env
        before = env.rule, env.taken_as_large
        env.rule, env.taken_as_large = overload.name, set()
        try:
            shapes = symbolic_results(overload, bound)
            asked = sorted(env.taken_as_large)
        finally:
            env.rule, env.taken_as_large = before
        if shapes is None or overload.inplace:      # what is written to keeps its sizes
            return shapes
        for name, value in [(n, v) for n in asked for v in env.small_values(n)]:
            if not self.agrees(overload, bound, shapes, name, value):
                if env.require_other(name, value):
                    return self.shapes_of_hidden(overload, bound)      # with what is known now
        return shapes

    def agrees(self, overload: Any, bound: tuple, shapes: list, name: str, value: int) -> bool:
        """Whether formulas give the sizes of the call, where the symbol is `value`; refused calls are refused then."""
        env: Any = self.shape_env
        before, env.stand_ins[name] = env.stand_ins[name], value
        try:
            with warnings.catch_warnings():      # of sizes that the program may never have
                warnings.simplefilter("ignore")
                result = overload.backend(*[_on_meta(a) for a in bound])
            have = [tuple(Tensor.shape.__get__(r)) for r in _tensors((result,), {})]
            return have == [_on_meta(sizes) for sizes, *_ in shapes][:len(have)]
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return True
        finally:
            env.stand_ins[name] = before

    @contextmanager
    def running_body(self) -> Iterator[None]:
        """Inside, calls are those of a body in Python: what it makes of nothing is fake too, and devices are those that
        tensors stand for."""
        before, _planning.active = _planning.active, False
        keeps = _C.keep_symbols(False)
        try:
            with self:
                yield
        finally:
            _C.keep_symbols(keeps)
            _planning.active = before

    def from_body(self, definition: Any, bound: tuple) -> Any:
        """What a body in Python makes of fake tensors; None where it has none,
        or sizes from elements are not wanted."""
        wanted = self.shape_env is not None and self.shape_env.allow_dynamic_output_shape_ops
        if wanted and definition.custom and definition.fake is not None:
            with self.running_body(), fake_context(self.shape_env):
                return definition.fake(*bound)
        if not wanted or type(definition).run in (OpDefinition.run, Extern.run):
            return None
        fake = getattr(definition, "fake", None)
        with self.running_body() if fake is not None else nullcontext():
            result = (fake or definition.run)(*bound)
        return result if all(isinstance(t, FakeTensor) for t in _tensors((result,), {})) else None

    def with_hidden_size(self, definition: Any, bound: tuple, device: Any) -> Any:
        """Results with a size that only elements can tell: the definition says where it goes."""
        env: Any = self.shape_env
        t, rest = bound[0], bound[1:]
        key = type(definition), t._version, rest if not _tensors(rest, {}) else object()
        known = t.__dict__.get("counted")      # the same question of the same elements has the same answer
        size = known[1] if known is not None and known[0] == key else env.create_size(definition.most(*bound))
        t.counted = key, size
        return _map_specs(
            definition.hidden_size(size, *bound), lambda spec: self.empty(spec.shape, spec.strides, spec.dtype, device)
        )

    def empty(self, shape: Sequence[Any], strides: Sequence[Any] | None, dtype: Any, device: Any) -> FakeTensor:
        """A fake tensor from sizes."""
        layout = fresh(shape, strides)
        bare = _C.empty(tuple(map(_on_meta, layout[0])), tuple(map(_on_meta, layout[1])), dtype, META)
        return self.wrap(bare, device, layout if _is_symbolic(layout[0]) else None)

    def scalar(self, t: FakeTensor) -> Any:
        """A symbol for the only element of a tensor; the same one as long as nobody writes to it."""
        known = t.__dict__.get("element")
        if known is not None and known[0] == t._version:
            return known[1]
        env: Any = self.shape_env
        result = (
            env.create_unbacked_symbool()
            if t.dtype is _C.bool
            else env.create_unbacked_symfloat() if t.dtype.is_floating_point else env.create_unbacked_symint()
        )
        t.element = t._version, result
        if self.on_scalar is not None:
            self.on_scalar(t, result)
        return result

    def device_of(self, overload: Any, args: tuple) -> tuple[Any, tuple]:
        """The device of the results; an explicit `device` argument becomes `meta` for the call itself."""
        devices = [t.fake_device for t in _tensors(args, {}) if isinstance(t, FakeTensor) and t.ndim] or [
            t.fake_device for t in _tensors(args, {}) if isinstance(t, FakeTensor)]
        if overload.name not in _MOVES and any(d != devices[0] for d in devices):
            raise RuntimeError(
                f"{overload.name}: Expected all tensors to be on the same device, but found"
                f" {', '.join(sorted({str(d) for d in devices}))}"
            )
        given = next(
            (
                a
                for p, a in zip(overload.definition.spec.params, args, strict=True)
                if p.type == "device?" and a is not None
            ),
            None,
        )
        has_option = any(p.type == "device?" for p in overload.definition.spec.params)
        if has_option:
            args = tuple(
                META if p.type == "device?" and (a is not None or not devices) else a
                for p, a in zip(overload.definition.spec.params, args, strict=True)
            )
        return (_C.device(given) if given is not None else devices[0] if devices else default_device()), args

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
            f"{overload.name}: a real tensor {list(a.shape)} met fake ones. Convert it with FakeTensorMode.from_tensor,"
            " or pass allow_non_fake_inputs=True to the mode."
        )

    def wrapped(self, result: Any, shapes: list | None, device: Any, args: tuple, is_view: bool = False) -> Any:
        """The results as fake tensors, with symbolic sizes where the rule gave them."""
        at = 0
        source = args[0] if is_view and args and isinstance(args[0], FakeTensor) else None
        is_one_of_many = isinstance(result, (tuple, list))
        # a view's storage is its source's
        shared = (
            None if source is None or (source.symbolic is None and source.extent is None) else source._storage_bytes()
        )

        def one(r: Any) -> Any:
            nonlocal at
            if isinstance(r, FakeTensor):
                return r
            rule = shapes[at] if shapes is not None and at < len(shapes) else None
            at += 1
            # what stands for a hidden size met a bound: the rule knows
            if rule is not None and not _matches(rule, r) and _is_unbacked(rule):
                r = _C.empty(_on_meta(rule[0]), _on_meta(rule[1]), r.dtype, META)
                rule = (rule[0], rule[1], 0)
            symbolic = self.symbols_of(r, rule, args)
            answer = self.wrap(r, device, symbolic, shared)
            if source is not None:
                _C.mark_view(answer, source, is_one_of_many)     # the tape sends writes to the one through the other
            return answer.requires_grad_() if r.requires_grad else answer

        return _map(one, result)

    def symbols_of(self, r: Tensor, rule: tuple | None, args: tuple) -> tuple | None:
        """The layout a rule gave, if it is the one the call had; else the sizes are pinned to those that were met."""
        if rule is None or not _matches(rule, r):
            _pin(args)
            return None
        return rule if _is_symbolic(rule) else None


def _spanned(sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Any:
    """How many elements a storage has that holds this layout and nothing else."""
    return (
        0
        if 0 in [n for n in sizes if isinstance(n, int)]
        else offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    )


def _symbolic_strides(sizes: Sequence[Any], hints: Sequence[int], strides: Sequence[int]) -> tuple:
    """Strides of an input in symbols, where it is dense in some order of dims;
    those of a layout with gaps stay numbers."""
    order = sorted(range(len(sizes)), key=lambda d: (strides[d], hints[d] != 1, -d))
    result = geometry.dense_like(sizes, order)
    dense = geometry.dense_like(hints, order)
    return result if all(a == b or n == 1 for a, b, n in zip(dense, strides, hints, strict=True)) else tuple(strides)


def _matches(rule: tuple, r: Tensor) -> bool:
    """Whether a rule's layout, for the hints, is that of the call."""
    sizes, strides, offset = rule
    have = tuple(Tensor.shape.__get__(r))
    if len(sizes) != len(have) or any(_on_meta(s) != h for s, h in zip(sizes, have, strict=True)):
        return False
    if 0 in have:
        return True
    return _on_meta(offset) == Tensor.storage_offset(r) and all(
        _on_meta(s) == t for s, t, n in zip(strides, Tensor.stride(r), have, strict=True) if n != 1
    )


# --- argument trees ---------------------------------------------------------------------------------------------------


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


def _map_specs(result: Any, fn: Callable[[Any], Any]) -> Any:
    return tuple(fn(spec) for spec in result) if isinstance(result, (tuple, list)) else fn(result)


def _on_meta(a: Any) -> Any:
    """An argument for the call itself: the bare tensor, plain numbers."""
    if isinstance(a, FakeTensor):
        bare = _C.shallow_copy(a, True, Tensor)
        if a.symbolic is None or not a.fake_mode.shape_env.stand_ins:
            return bare
        # what stands for a hidden size changes when it turns out to be another's
        sizes, strides, _ = _on_meta(a.symbolic)
        return (
            bare if sizes == tuple(bare.shape) and strides == bare.stride() else _C.empty(sizes, strides, a.dtype, META)
        )
    if isinstance(a, _SYMBOLIC):
        return a.env.stand_in(a.expression)
    if type(a) in (list, tuple, Size):
        return tuple(_on_meta(x) for x in a) if type(a) is not list else [_on_meta(x) for x in a]
    if type(a) is slice:
        return slice(_on_meta(a.start), _on_meta(a.stop), _on_meta(a.step))
    return a


_SYMBOLIC = (SymInt, SymFloat, SymBool)


def _is_symbolic(a: Any) -> bool:
    if isinstance(a, FakeTensor):
        return a.symbolic is not None
    if type(a) is slice:
        return _is_symbolic((a.start, a.stop, a.step))
    return isinstance(a, _SYMBOLIC) or (isinstance(a, (list, tuple)) and any(_is_symbolic(x) for x in a))


def _is_unbacked(a: Any) -> bool:
    if isinstance(a, FakeTensor):
        return a.symbolic is not None and _is_unbacked(a.symbolic)
    return (isinstance(a, _SYMBOLIC) and a.env.is_unbacked(a.expression)) or (
        isinstance(a, (list, tuple)) and any(_is_unbacked(x) for x in a)
    )


def _pin(a: Any) -> None:
    """A call without a rule depends on the very sizes it met."""
    if isinstance(a, FakeTensor):
        _pin(a.symbolic or ())
    elif isinstance(a, _SYMBOLIC):
        a.env.specialize(a.expression)
    elif type(a) is slice:
        _pin((a.start, a.stop, a.step))
    elif isinstance(a, (list, tuple)):
        for x in a:
            _pin(x)


# --- tensors of function transforms -----------------------------------------------------------------------------------


def _layout_behind(t: Tensor) -> tuple | None:
    """(sizes, strides, offset, the fake tensor) of what stands behind a function transform's tensor;
    None where its sizes are numbers."""
    wrapped = getattr(t, "_wrapped", None)
    if wrapped is None:
        return (*t.symbolic, t) if isinstance(t, FakeTensor) and t.symbolic is not None else None
    found = _layout_behind(wrapped.value)
    if found is None or wrapped.dim < 0:
        return found
    sizes, strides, offset, source = found
    rest = [d for d in range(len(sizes)) if d != wrapped.dim]
    return tuple(sizes[d] for d in rest), tuple(strides[d] for d in rest), offset, source


_QUESTIONS: dict[str, Callable[[tuple, tuple, Any, FakeTensor], Any]] = {
    "shape": lambda sizes, strides, offset, source: Size(sizes),
    "stride": lambda sizes, strides, offset, source: strides,
    "numel": lambda sizes, strides, offset, source: math.prod(sizes),
    "storage_offset": lambda sizes, strides, offset, source: offset,
    "length": lambda sizes, strides, offset, source: int(sizes[0]),
    "_is_contiguous": lambda sizes, strides, offset, source: geometry.is_contiguous(sizes, strides),
    "_is_channels_last": lambda sizes, strides, offset, source: geometry.is_channels_last(sizes, strides),
    "_is_dense": lambda sizes, strides, offset, source: geometry.is_dense(sizes, strides),
    "_overlaps_itself": lambda sizes, strides, offset, source: geometry.overlaps_itself(sizes, strides),
    "meta": lambda sizes, strides, offset, source: FakeMeta(source.detach(), sizes, strides=strides),
    "self": lambda sizes, strides, offset, source: _Viewed(sizes, strides),
}


class _Viewed:
    """Sizes and strides alone, to be asked for those of a view."""

    def __init__(self, sizes: tuple, strides: tuple) -> None:
        self.sizes, self.strides = sizes, strides

    def _view_strides(self, new: Sequence[Any]) -> Any:
        return geometry.view_strides(self.sizes, self.strides, new)


def _fake_behind(t: Tensor) -> FakeTensor | None:
    """The fake tensor that a function transform's tensor stands for."""
    while (wrapped := getattr(t, "_wrapped", None)) is not None:
        t = wrapped.value
    return t if isinstance(t, FakeTensor) else None


def _answer_behind(t: Tensor, question: str) -> Any:
    """What the core asks about a function transform's tensor. It holds `meta` as the device of one that stands for a
    fake tensor, and hints where sizes are symbols."""
    if question in ("device", "is_cpu"):
        source = _fake_behind(t)
        return None if source is None else getattr(source, question)
    layout = _layout_behind(t)
    if layout is None and question == "meta" and (source := _fake_behind(t)) is not None:
        layout = tuple(t.shape), t.stride(), t.storage_offset(), source
    return None if layout is None or (question == "length" and not layout[0]) else _QUESTIONS[question](*layout)


_C.set_layout_hook(_answer_behind)
