"""Views with other sizes: view, reshape, flatten and their kin."""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...base.shape import holds
from ...op import Composite, Geometry, Meta, View, find_op, wrap_dim


def infer_size(name: str, size: Any, numel: int) -> tuple[int, ...]:
    """`size` with its one -1 replaced so that the product is `numel`."""
    known, unknown = 1, None
    for i, s in enumerate(size):
        if s == -1:
            if unknown is not None:
                raise RuntimeError(f"{name}: only one dimension can be inferred, got shape {list(size)}")
            unknown = i
        elif s < 0:
            raise RuntimeError(f"{name}: invalid shape dimension {s} in {list(size)}")
        else:
            known *= s
    if unknown is None:
        if not holds(known == numel):
            raise RuntimeError(f"{name}: shape '{list(size)}' is invalid for input of size {numel}")
        return tuple(size)
    if known == 0:
        if numel:
            raise RuntimeError(f"{name}: shape '{list(size)}' is invalid for input of size {numel}")
        raise RuntimeError(
            f"{name}: cannot reshape a tensor of 0 elements into {list(size)}: any size would do for -1, so it is"
            " ambiguous"
        )
    if not holds(numel % known == 0):
        raise RuntimeError(f"{name}: shape '{list(size)}' is invalid for input of size {numel}")
    return (*size[:unknown], numel // known, *size[unknown + 1 :])


class ViewSize(View):
    """The same elements with other sizes, in row-major order, without copying."""

    schema = "view(Tensor(a) input, int[] size) -> Tensor(a)"
    function = False

    def geometry(self, t, size):
        sizes = infer_size("view", size, t.numel())
        strides = _C.view_strides(t, sizes)
        if strides is None:
            raise RuntimeError(
                f"view: view size is not compatible: the elements of shape {list(t.shape)} with strides"
                f" {list(t.stride())} do not lie evenly as {list(sizes)}. Use .reshape(...)."
            )
        return Geometry(sizes, strides)

    def vjp(self, g, input: Meta):
        return {"input": g.view(input.shape) if g._is_contiguous() else g.reshape(input.shape)}

    def inverse(self, base, new, which, size):
        return new.reshape(base.shape)


class ViewDtype(View):
    """The same bytes read as another type."""

    schema = "view.dtype(Tensor(a) input, dtype dtype) -> Tensor(a)"
    function = False
    cacheable = False

    def geometry(self, t, dtype):
        if dtype is None:
            raise TypeError("view(): argument must be a dtype or sizes, not None")
        if dtype is not t.dtype and (t.is_conj() or t.is_neg()):
            bit, remedy = ("conjugate", "resolve_conj") if t.is_conj() else ("negative", "resolve_neg")
            raise RuntimeError(
                f"view: a tensor with the {bit} bit set cannot be viewed as {dtype.name}: its memory holds other"
                f" numbers than it shows. Use tensor.{remedy}(), which copies them."
            )
        old, new = t.dtype.itemsize, dtype.itemsize
        sizes, strides = tuple(t.shape), t.stride()
        if old == new:
            return Geometry(sizes, strides, 0, dtype)
        if t.ndim == 0:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {t.dtype.name} as {dtype.name} (different element sizes)"
            )
        if strides[-1] != 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {t.dtype.name} as {dtype.name} (different element sizes), but got"
                f" {strides[-1]}"
            )
        if old > new:
            k = old // new
            return Geometry((*sizes[:-1], sizes[-1] * k), (*(s * k for s in strides[:-1]), 1), 0, dtype)
        k = new // old
        if sizes[-1] % k:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {k} to view {t.dtype.name} as {dtype.name} (different element"
                f" sizes), but got {sizes[-1]}"
            )
        if t.storage_offset() % k or any(s % k for s in strides[:-1]):
            raise RuntimeError(
                f"self.storage_offset() and strides must be divisible by {k} to view {t.dtype.name} as {dtype.name}"
                " (different element sizes)"
            )
        return Geometry((*sizes[:-1], sizes[-1] // k), (*(s // k for s in strides[:-1]), 1), 0, dtype)

    def vjp(self, g, input: Meta):
        return {"input": g.view(input.dtype)}

    def inverse(self, base, new, which, dtype):
        return new.contiguous().view(base.dtype)


class Reshape(Composite):
    """The same elements with other sizes: a view where possible, else a copy."""

    schema = "reshape(Tensor(a) input, int[] shape) -> Tensor(a)"
    replays = True
    out = False

    def compute(self, input, shape):
        if input._is_contiguous():
            try:
                return input.view(shape)
            except RuntimeError:
                pass    # refused below, by this op's name
        sizes = infer_size("reshape", shape, input.numel())
        if _C.view_strides(input, sizes) is None:
            return input.contiguous().view(sizes)
        return input.view(sizes)


class ViewAs(Composite):
    """`input` viewed with the sizes of `other`."""

    schema = "view_as(Tensor(a) input, Tensor other) -> Tensor(a)"
    replays = True
    function = False
    out = False

    def compute(self, input, other):
        return input.view(other.shape)


class ReshapeAs(Composite):
    """`input` reshaped to the sizes of `other`."""

    schema = "reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)"
    replays = True
    function = False
    out = False

    def compute(self, input, other):
        return input.reshape(other.shape)


class Flatten(Composite):
    """Dimensions start_dim to end_dim made one."""

    schema = "flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)"
    replays = True
    out = False

    def compute(self, input, start_dim, end_dim):
        start, end = wrap_dim("flatten", start_dim, input.ndim), wrap_dim("flatten", end_dim, input.ndim)
        if start > end:
            raise RuntimeError(f"flatten: expected start_dim before end_dim or at it, got {start_dim} and {end_dim}")
        if input.ndim == 0:
            return input.reshape(1)
        if start == end:
            return input
        sizes = tuple(input.shape)      # a Size is sliced in Python
        return input.reshape((*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :]))


class Ravel(Composite):
    """All elements in one dimension, next to each other: a copy where they are not."""

    schema = "ravel(Tensor(a) input) -> Tensor(a)"
    out = False

    def compute(self, input):
        return input.contiguous().view(-1)


class Unflatten(Composite):
    """One dimension split into several."""

    schema = "unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)"
    replays = True
    out = False

    def compute(self, input, dim, sizes):
        d = wrap_dim("unflatten", dim, input.ndim)
        if not sizes:
            raise RuntimeError("unflatten: sizes must be non-empty")
        if input.ndim == 0:
            raise RuntimeError("unflatten: input must have at least one dimension")
        try:
            split = infer_size("unflatten", sizes, input.shape[d])
        except RuntimeError:
            raise RuntimeError(
                f"unflatten: sizes {list(sizes)} do not multiply up to {input.shape[d]}, the size of dim {d}"
            ) from None
        return input.view((*input.shape[:d], *split, *input.shape[d + 1 :]))


class AtLeast(Composite):
    """At least one dimension."""

    schema = "atleast_1d(Tensor(a) input) -> Tensor(a)"
    method = False
    out = False

    def compute(self, input):
        return input.reshape(1) if input.ndim == 0 else input


class AtLeast2d(Composite):
    """At least two dimensions, new ones in front."""

    schema = "atleast_2d(Tensor(a) input) -> Tensor(a)"
    replays = True
    method = False
    out = False

    def compute(self, input):
        return input.reshape(1, 1) if input.ndim == 0 else input.unsqueeze(0) if input.ndim == 1 else input


class AtLeast3d(Composite):
    """At least three dimensions, as NumPy places them."""

    schema = "atleast_3d(Tensor(a) input) -> Tensor(a)"
    replays = True
    method = False
    out = False

    def compute(self, input):
        if input.ndim == 0:
            return input.reshape(1, 1, 1)
        if input.ndim == 1:
            return input.unsqueeze(0).unsqueeze(-1)
        return input.unsqueeze(-1) if input.ndim == 2 else input


class _AtLeastEach(Composite):
    """The same for each of several tensors, given one by one or in a list."""

    abstract = True
    spread = True
    method = False
    out = False

    def compute(self, tensors):
        return tuple(find_op(self.name)(t) for t in tensors)


for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    type(
        _name.title(),
        (_AtLeastEach,),
        {"schema": f"{_name}(Tensor[] tensors) -> Tensor[]", "__doc__": _AtLeastEach.__doc__, "__module__": __name__},
    )
