"""Functions that PyTorch composes in Python, as the ATen ops they call.

Enters: what the program gives them. Leaves: their results, every op written down. Bodies of `nn.functional` are the
scripts of `script.functional`, run as Python with a `torch` that writes down; here are those of the package itself, and
convolutions, which all are one op to a trace. `BODIES` has them by the identity of our function.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from ...base import late
from ..functional import _by_identity as scripts_by_identity
from ..functional.language import Namespace
from .aten import call, call_with, ignored, size

_BODIES: dict[str, Callable] = {}
_SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "functional") + os.sep


def _body(function: Callable) -> Callable:
    _BODIES[function.__name__] = function
    return function


def _package() -> Any:
    return late.provided("package")


def _dims(tensor: Any) -> int:
    return ignored(lambda: tensor.dim())


# --- convolutions -----------------------------------------------------------------------------------------------------


def _wide(value: Any, count: int) -> list[Any]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return items * count if len(items) == 1 else items


def _convolving(dims: int, transposed: bool) -> Callable:
    def convolve(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any,
                 **kwargs: Any) -> Any:
        order = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        given = {"output_padding": 0, "groups": 1, "dilation": 1} | dict(zip(order, rest, strict=False)) | kwargs
        single = _dims(input) == dims + 1
        x = call("unsqueeze", input, 0) if single else input
        if isinstance(padding, str):
            made = call(f"conv{dims}d", x, weight, bias, _wide(stride, dims), padding,
                        _wide(given["dilation"], dims), given["groups"])
        else:
            made = call("_convolution", x, weight, bias, _wide(stride, dims), _wide(padding, dims),
                        _wide(given["dilation"], dims), transposed, _wide(given["output_padding"], dims),
                        given["groups"], False, False, True, True)
        return call("squeeze", made, 0) if single else made

    return convolve


for _d in (1, 2, 3):
    _BODIES[f"conv{_d}d"] = _convolving(_d, False)
    _BODIES[f"conv_transpose{_d}d"] = _convolving(_d, True)


# --- functions of the package that PyTorch writes in Python -----------------------------------------------------------


@_body
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    if isinstance(split_size_or_sections, (list, tuple)):
        return call("split_with_sizes", tensor, split_size_or_sections, dim)
    return call("split", tensor, split_size_or_sections, dim)


@_body
def meshgrid(*tensors: Any, indexing: str | None = None) -> Any:
    rows = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    extra = {} if indexing is None else {"indexing": indexing}
    torch = _package()
    return tuple(call_with("meshgrid", lambda *_, **__: list(torch.meshgrid(*rows, **extra)), (rows,), extra))


@_body
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    modes = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1,
             "donot_use_mm_for_euclid_dist": 2}
    return call_with("cdist", lambda a, b, *_: _package().cdist(a, b, p, compute_mode), (x1, x2, p,
                                                                                      modes[compute_mode]), {})


@_body
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    if isinstance(dims, int):
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    else:
        dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    return call("tensordot", a, b, dims_a, dims_b)


# --- functions that are others with settings --------------------------------------------------------------------------


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: Any = None) -> Any:
    return _package().nn.functional.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    return _package().nn.functional.interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    return _package().nn.functional.interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *,
                                      distance_function: Callable | None = None, margin: float = 1.0,
                                      swap: bool = False, reduction: str = "mean") -> Any:
    distance = distance_function or _package().nn.functional.pairwise_distance
    dist_pos, dist_neg = distance(anchor, positive), distance(anchor, negative)
    if swap:
        dist_neg = call("minimum", dist_neg, distance(positive, negative))
    loss = call("clamp_min", call("sub", call("add", dist_pos, margin), dist_neg), 0)
    return loss if reduction == "none" else call(reduction, loss)


_OF_FUNCTIONAL = (upsample, upsample_nearest, upsample_bilinear, triplet_margin_with_distance_loss)


# --- bodies that are scripts ------------------------------------------------------------------------------------------


class _Torch:
    """`torch` of the bodies in `script.functional` while a program is traced."""

    def __getattr__(self, name: str) -> Any:
        if name in ("is_floating_point", "is_complex"):
            return lambda tensor: ignored(lambda: getattr(tensor, name)())
        if name.endswith("_format"):
            return getattr(_package(), name)
        return _broadcast if name == "broadcast_tensors" else lambda *args, **kwargs: call(name, *args, **kwargs)


def _broadcast(rows: Any) -> list[Any]:
    """Tensors of one shape come back as they are."""
    torch = _package()
    return call_with("broadcast_tensors", lambda given: [
        before if before.shape == after.shape else after
        for before, after in zip(given, torch.broadcast_tensors(*given), strict=True)], (list(rows),), {})


def _additive(mask: Any, name: str, target: Any) -> Any:
    if mask is None or ignored(lambda: mask.is_floating_point()):
        return mask
    made = call("zeros_like", mask, dtype=ignored(lambda: target.dtype))
    return call("masked_fill_", made, mask, float("-inf"))


class _Scripts:
    """Functions that are written as scripts, as Python runs them: their `torch` writes ops down."""

    def __init__(self) -> None:
        self.spaces: dict[int, dict[str, Any]] = {}
        self.made: dict[FunctionType, FunctionType] = {}

    def copied(self, held: Any) -> Any:
        """A function of these files, or around some, made of such copies; anything else as it is."""
        if not isinstance(held, FunctionType):
            return held
        is_script = held.__code__.co_filename.startswith(_SCRIPTS)
        if not is_script and not any(_is_script(cell.cell_contents) for cell in held.__closure__ or ()):
            return held
        if held not in self.made:
            space = self._space(held) if is_script else held.__globals__
            closure = held.__closure__ and tuple(CellType(self.copied(cell.cell_contents)) for cell in held.__closure__)
            self.made[held] = FunctionType(held.__code__, space, held.__name__, held.__defaults__, closure)
            self.made[held].__kwdefaults__ = held.__kwdefaults__
            self.made[held] = _spreading(self.made[held], held.__annotations__)
        return self.made[held]

    def _space(self, held: FunctionType) -> dict[str, Any]:
        key = id(held.__globals__)
        if key not in self.spaces:
            self.spaces[key] = space = dict(held.__globals__)
            space.update({word: _Torch() if found.name == "torch" else _package().nn.functional
                          for word, found in space.items() if isinstance(found, Namespace)})
            space.update({word: self.copied(found) for word, found in space.items()})
            space.update(__name__="traced_functional", _additive=_additive)
        return self.spaces[key]


def _spreading(function: FunctionType, annotations: dict[str, Any]) -> FunctionType:
    """A function whose lists of known length may be given as one number, as the compiler lets them."""
    lengths = {name: int(found[1]) for name, kind in annotations.items()
               if (found := re.match(r"(?:Optional\[)?(?:Ints|Floats)(\d)", str(kind)))}
    if not lengths:
        return function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def _spread(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        for name, length in lengths.items():
            value = given.get(name)
            if isinstance(value, int):
                given[name] = [value] * length
            elif isinstance(value, (list, tuple)) and None in value:      # sizes to keep
                first = _dims(given["input"]) - length
                given[name] = [size(given["input"], first + i) if n is None else n for i, n in enumerate(value)]
        return function(**given)

    return _spread  # type: ignore[return-value]


def _is_script(held: Any) -> bool:
    return isinstance(held, FunctionType) and held.__code__.co_filename.startswith(_SCRIPTS)


class _Bodies(dict[int, Callable]):
    """Bodies by the identity of the function; filled when first asked, with the package whole."""

    def get(self, key: int, default: Any = None) -> Any:
        if not self:
            scripts = _Scripts()
            self.update({key: scripts.copied(body) for key, body in scripts_by_identity().items()})
            self.update({id(getattr(_package().nn.functional, body.__name__)): body for body in _OF_FUNCTIONAL})
            self.update({id(getattr(_package(), name)): body for name, body in _BODIES.items()})
        return super().get(key, default)


BODIES = _Bodies()
