"""PyTorch's composites below autograd, where a back end has no kernel of its own: which calls they consist of.

Enters: arguments by ATen's signature. Leaves: the result, by calls that go to the back end one by one, in PyTorch's
order. NotImplemented where no rule here covers the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.shape import contiguous_format, preserve_format, strides_for
from ...devices import private_use
from ...devices.private_use import PRIVATE
from ...dispatch import table
from ...dispatch.keys import DispatchKey
from .forms import call

# --- tensors that are made --------------------------------------------------------------------------------------------


def _empty(size: Any, options: dict[str, Any], **own: Any) -> Tensor:
    given = {k: options.get(k) for k in ("dtype", "layout", "device", "pin_memory")}
    return call("empty.memory_format", list(size), **{k: v for k, v in {**given, **own}.items() if v is not None})


def _filled(how: str, *values: Any) -> Callable:
    """A new tensor that an op in place then writes to."""

    def rule(size: Any, **options: Any) -> Tensor:
        return _write(how, _empty(size, options), *values, generator=options.get("generator"))

    return rule


def _write(how: str, made: Tensor, *values: Any, generator: Any = None) -> Tensor:
    call(how, made, *values, **({} if generator is None else {"generator": generator}))
    return made


def full(size: Any, fill_value: Any, **options: Any) -> Tensor:
    dtype = options.pop("dtype", None) or _dtype_of(fill_value)
    return _write("fill_.Scalar", _empty(size, options, dtype=dtype), fill_value)


def _dtype_of(*values: Any) -> _C.dtype:
    if any(isinstance(v, complex) for v in values):
        return _C.complex64
    if all(isinstance(v, bool) for v in values):
        return _C.bool
    return _C.int64 if all(isinstance(v, int) for v in values) else _C.get_default_dtype()


def scalar_tensor(s: Any, **options: Any) -> Tensor:
    return _write("fill_.Scalar", _empty([], options), s)


def arange(*bounds: Any, **options: Any) -> Tensor:
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    made = _empty([0], options, dtype=options.get("dtype") or _dtype_of(start, end, step))
    return call("arange.start_out", start, end, *(() if step == 1 else (step,)), out=made)


def eye(n: int, m: int | None = None, **options: Any) -> Tensor:
    return call("eye.m_out", n, n if m is None else m, out=_empty([0], options))


def linspace(name: str) -> Callable:
    def rule(start: Any, end: Any, steps: int, *base: Any, **options: Any) -> Any:
        if isinstance(start, Tensor) or isinstance(end, Tensor):
            return NotImplemented
        return call(f"{name}.out", start, end, steps, *base, out=_empty([steps], options))

    return rule


def randint(*given: Any, **options: Any) -> Tensor:
    low, high, size = (0, *given) if len(given) == 2 else given
    made = _empty(size, options, dtype=options.get("dtype") or _C.int64)
    return _write("random_.from", made, low, high, generator=options.get("generator"))


def randperm(n: int, **options: Any) -> Tensor:
    made = _empty([n], options, dtype=options.get("dtype") or _C.int64)
    return call("randperm.generator_out", n, generator=options.get("generator"), out=made)


def normal(mean: float, std: float, size: Any, **options: Any) -> Tensor:
    return _write("normal_", _empty(size, options), mean, std, generator=options.get("generator"))


# --- tensors like others ----------------------------------------------------------------------------------------------


def empty_like(self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
               memory_format: Any = None) -> Tensor:
    options = {"dtype": dtype or self.dtype, "layout": layout or self.layout, "device": device or self.device}
    if pin_memory is not None:
        options["pin_memory"] = pin_memory
    if memory_format not in (None, preserve_format):
        return call("empty.memory_format", list(self.shape), **options, memory_format=memory_format)
    strides = self.stride() if self._is_dense() else strides_for(self.shape, contiguous_format)
    return call("empty_strided", list(self.shape), list(strides), **options)


def _like(how: str, *values: Any) -> Callable:
    def rule(self: Tensor, *given: Any, generator: Any = None, **options: Any) -> Tensor:
        return _write(how, empty_like(self, **options), *values, *given, generator=generator)

    return rule


def _new(how: str = "", *values: Any) -> Callable:
    def rule(self: Tensor, size: Any, *given: Any, **options: Any) -> Tensor:
        like = {"dtype": self.dtype, "layout": self.layout, "device": self.device}
        made = _empty(size, {**like, **{k: v for k, v in options.items() if v is not None}})
        return _write(how, made, *values, *given) if how else made

    return rule


def new_empty_strided(self: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    like = {"dtype": self.dtype, "layout": self.layout, "device": self.device}
    given = {k: v for k, v in options.items() if v is not None}
    return call("empty_strided", list(size), list(stride), **{**like, **given})


# --- copies -----------------------------------------------------------------------------------------------------------


def clone(self: Tensor, *, memory_format: Any = None) -> Tensor:
    return copy_(empty_like(self, memory_format=memory_format), self)


def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    if src.shape != self.shape:
        src = src.expand(self.shape)
    if not (src._keys & PRIVATE or src.is_cpu):     # devices of our own are met on the host
        src = src.cpu()
    if not (self._keys & PRIVATE or self.is_cpu):
        return self.copy_(src.cpu())
    call("_copy_from", src, self, *((True,) if non_blocking else ()))
    return self


def to_copy(self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
            non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    place = self.device if device is None else _C.device(device)
    if private_use.is_private(place) and place.index is None:
        place = _C.device(place.type, 0)
    made = empty_like(self, dtype=dtype, layout=layout, device=place, pin_memory=bool(pin_memory),
                      memory_format=memory_format)
    return copy_(made, self, non_blocking)


def alias(self: Tensor) -> Tensor:
    return _C.shallow_copy(self, True)


# --- shapes -----------------------------------------------------------------------------------------------------------


def stack(tensors: Any, dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    at = dim % (len(shape) + 1)
    if at == len(shape):
        return call("cat", [t.unsqueeze(at) for t in tensors], at)
    joined = call("cat", list(tensors), at)
    return call("view", joined, [*shape[:at], len(tensors), *shape[at:]])


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Tensor:
    if indices.ndim == 1:
        return call("index_select", weight, 0, indices)
    picked = call("index_select", weight, 0, indices.reshape(-1))
    return call("view", picked, [*indices.shape, *weight.shape[1:]])


def constant_pad_nd(self: Tensor, pad: Any, value: Any = 0) -> Tensor:
    sizes, inner, target = list(self.shape), self, []
    for i in range(len(pad) // 2):
        at, before, after = self.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
        sizes[at] += before + after
        start, count = max(0, -before), self.shape[at] + min(0, before) + min(0, after)
        inner = inner.narrow(at, start, count)
        target.append((at, max(0, before), count))
    made = _write("fill_.Scalar", _new()(self, sizes), value)
    place = made
    for at, start, count in target:
        place = place.narrow(at, start, count)
    copy_(place, inner)
    return made


# --- numbers beside tensors, and whole reductions ---------------------------------------------------------------------


def _by_tensor(name: str) -> Callable:
    """A number where the overload for tensors takes one."""

    def rule(self: Any, other: Any, *rest: Any, **named: Any) -> Any:
        if rest:
            named = {"alpha": rest[0]} if rest[0] != 1 else {}
        return call(f"{name}.Tensor", self, other, **named)

    return rule


def rsub(self: Any, other: Any, alpha: Any = 1) -> Any:
    return call("sub.Tensor", other, self, **({} if alpha == 1 else {"alpha": alpha}))


def sum_all(self: Tensor, *, dtype: Any = None) -> Tensor:
    return call("sum.dim_IntList", self, [], **({} if dtype is None else {"dtype": dtype}))


def mean_all(self: Tensor, *, dtype: Any = None) -> Tensor:
    return call("mean.dim", self, [], **({} if dtype is None else {"dtype": dtype}))


def _through_copy(name: str) -> Callable:
    """The form in place, of a copy."""

    def rule(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        copied = clone(self, memory_format=contiguous_format)
        call(name, copied, *args, **kwargs)
        return copied

    return rule


def bernoulli(self: Tensor, *, generator: Any = None) -> Tensor:
    made = empty_like(self, memory_format=contiguous_format)
    return _write("bernoulli_.Tensor", made, self, generator=generator)


def sort(self: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return call("sort.stable", self, stable=False, dim=dim, descending=descending)


def mv(self: Tensor, vec: Tensor) -> Tensor:
    made = call("empty.memory_format", [self.shape[0]], dtype=vec.dtype, device=vec.device)
    return call("addmv.out", made, self, vec, beta=0, out=made)


def convolution(*args: Any) -> Any:
    kernel = table.private.get(("convolution_overrideable.default", DispatchKey.PrivateUse1))
    if kernel is not None:
        return kernel(*args)
    if table.fallbacks.get(DispatchKey.PrivateUse1) is None:
        return NotImplemented
    raise NotImplementedError(
        "convolution_overrideable not implemented: convolutions of"
        f" '{private_use.state.name}' need a kernel for aten::convolution_overrideable"
    )


def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple:
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    mean = input.mean(dims, True)
    centred = input - mean
    scale = ((centred * centred).mean(dims, True) + eps).rsqrt()
    result = centred * scale
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, mean, scale


# --- lists of tensors -------------------------------------------------------------------------------------------------


def foreach(name: str) -> Callable | None:
    """`_foreach_<op>` by the op for every tensor."""
    if not name.startswith("_foreach_"):
        return None
    op = name.removeprefix("_foreach_").partition(".")[0]

    def rule(self: Any, *lists: Any, **named: Any) -> Any:
        results = []
        for i, t in enumerate(self):
            own = [x[i] if isinstance(x, (list, tuple)) else x for x in lists]
            results.append(getattr(t, op)(*own, **named))
        return None if op.endswith("_") else results

    return rule if hasattr(Tensor, op) else None


_NUMBERED = ("add", "sub", "mul", "div", "remainder", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign",
             "xlogy")

EXPLICIT: dict[str, Callable] = {
    "ones": _filled("fill_.Scalar", 1.0), "zeros": _filled("zero_"), "full": full, "scalar_tensor": scalar_tensor,
    "arange": arange, "eye": eye, "linspace": linspace("linspace"), "logspace": linspace("logspace"),
    "rand": _filled("uniform_"), "randn": _filled("normal_"), "randint": randint, "randperm": randperm,
    "normal.float_float": normal, "empty_like": empty_like, "zeros_like": _like("zero_"),
    "ones_like": _like("fill_.Scalar", 1.0), "full_like": _like("fill_.Scalar"), "rand_like": _like("uniform_"),
    "randn_like": _like("normal_"), "randint_like.default": _like("random_.from", 0),
    "randint_like.low_dtype": _like("random_.from"), "new_empty": _new(), "new_zeros": _new("zero_"),
    "new_ones": _new("fill_.Scalar", 1.0), "new_full": _new("fill_.Scalar"), "new_empty_strided": new_empty_strided,
    "clone": clone, "copy_": copy_, "_to_copy": to_copy, "alias": alias, "detach": alias,
    "lift_fresh": lambda self: self, "lift": lambda self: self,
    "stack": stack, "embedding": embedding, "constant_pad_nd": constant_pad_nd,
    "rsub.Scalar": rsub, "sum.default": sum_all, "mean.default": mean_all, "bernoulli.default": bernoulli,
    **{f"{n}{end}.Scalar": _by_tensor(n + end) for n in _NUMBERED for end in ("", "_")},
    "masked_fill.Scalar": _through_copy("masked_fill_.Scalar"),
    "masked_fill.Tensor": _through_copy("masked_fill_.Tensor"),
    "fill.Scalar": _through_copy("fill_.Scalar"), "index_put": _through_copy("index_put_"),
    "_unsafe_view": lambda self, size: call("view", self, list(size)),
    "sort.default": sort, "mv": mv, "convolution": convolution, "native_layer_norm": native_layer_norm,
}
