"""How tensors print.

Enters: a tensor. Leaves: the text PyTorch would print for it, layout and digits included.
Works on Python numbers taken out of the tensor (only the ones shown, when it is long), so it needs no ops but
indexing, and no NumPy. Refuses nothing: a tensor without data prints its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..autograd.forward_ad import unpack_dual
from ..autograd.grad_mode import no_grad
from ..base.quantizers import PerTensor, Quantizer
from ..dispatch.keys import PRIVATE, SUBCLASS
from ..dispatch.modes import DisableTorchFunctionSubclass
from ..dispatch.overrides import computes_itself
from ..loops.record import Record
from ..op import find_op
from ..rules import levels


class PrintOptions(Record):
    """Digits after the point, when to abbreviate, how many items then stay at each end, and the width of a line."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_current = [PrintOptions()]  # one cell: the options are replaced, never edited


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print. `profile` is one of default, short and full; single options override it.

    `sci_mode` is set by every call: None lets the values decide.

    Arguments:
        precision: digits after the point
        threshold: elements up to which all are shown
        edgeitems: elements shown at each end of a longer dim
        linewidth: characters in a line
        profile: "default", "short" or "full"
        sci_mode: whether numbers are written as 1.0000e+00

    Example:
        >>> rl.set_printoptions(precision=2)
        >>> rl.tensor([3.14159])
        tensor([3.14])
        >>> rl.set_printoptions(profile="default")
    """
    options = _current[0]
    if profile is not None:
        options = PROFILES.get(profile, options)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes = {name: value for name, value in given.items() if value is not None}
    _current[0] = options.but(**changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The current options, as keyword arguments for `set_printoptions`.

    Example:
        >>> rl.get_printoptions()["precision"]
        4
    """
    return dict(vars(_current[0]))


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Change the options inside a `with` block."""
    before = _current[0]
    set_printoptions(**options)
    try:
        yield
    finally:
        _current[0] = before


# --- elements ---------------------------------------------------------------------------------------------------------


class Style(Record):
    """How one column of numbers is written: `form` is a format specification, `point` follows whole floats."""

    form: str = ""
    point: str = ""
    width: int = 1

    def text(self, value: Any) -> str:
        written = format(value, self.form) if self.form else str(value)
        if self.point and math.isfinite(value):
            written += self.point
        return written.rjust(self.width)


def style_of(values: Iterable[Any], is_float: bool, options: PrintOptions) -> Style:
    """The style that shows all `values` in one width."""
    if not is_float:
        return Style(width=max((len(str(v)) for v in values), default=1))
    shown = [v for v in values if v != 0 and math.isfinite(v)]
    if not shown:
        return Style(form=".0f", point=".")
    smallest, largest = min(map(abs, shown)), max(map(abs, shown))
    scientific = options.sci_mode
    if scientific is None:
        scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
    if scientific:
        form, point = f".{options.precision}e", ""
    elif all(v == math.floor(v) for v in shown):
        form, point = ".0f", "."
    else:
        form, point = f".{options.precision}f", ""
    return Style(form, point, max(len(format(v, form)) + len(point) for v in shown))


class ComplexStyle(Record):
    """Two columns: the real and the imaginary parts."""

    real: Style
    imaginary: Style

    @property
    def width(self) -> int:
        return self.real.width + self.imaginary.width + 1

    def text(self, value: complex) -> str:
        imaginary = self.imaginary.text(value.imag).lstrip() + "j"
        sign = "" if imaginary[0] in "+-" else "+"
        return self.real.text(value.real) + sign + imaginary


# --- the part of the data that is shown -------------------------------------------------------------------------------

GAP = object()  # stands in nested lists for what is left out


def elements(t: _C.Tensor) -> Any:
    """All elements as nested lists, one by one where only the tensor's class can read them."""
    if not (t._keys & SUBCLASS and computes_itself(t)):
        return _C.Tensor.tolist(t)
    if not t.ndim:
        return t.item()
    flat = t.reshape(-1)
    found = (flat[i].item() for i in range(t.numel()))

    def nest(shape: tuple[int, ...]) -> Any:
        return [nest(shape[1:]) for _ in range(shape[0])] if shape else next(found)

    return nest(tuple(t.shape))


def visible(t: _C.Tensor, options: PrintOptions) -> Any:
    """The elements to show, as nested lists with `GAP` where items are left out."""
    if t.numel() <= options.threshold or t.ndim == 0:
        return elements(t)
    edge = options.edgeitems
    is_long = t.shape[0] > 2 * edge
    if t.ndim == 1:
        if not edge:
            return [GAP]
        return [*elements(t[:edge]), GAP, *elements(t[-edge:])] if is_long else elements(t)
    chosen = [*range(edge), *range(t.shape[0] - edge, t.shape[0])] if is_long else range(t.shape[0])
    # Threshold zero: once a tensor is abbreviated, so are all its parts.
    rows = [visible(t[i], options.but(threshold=-1)) for i in chosen]
    if is_long:
        rows.insert(edge, GAP)
    return rows


def leaves(nested: Any) -> Iterator[Any]:
    """The numbers in nested lists, gaps left out."""
    if not isinstance(nested, list):
        if nested is not GAP:
            yield nested
        return
    for item in nested:
        yield from leaves(item)


# --- layout -----------------------------------------------------------------------------------------------------------


def lay_out(nested: Any, ndim: int, indent: int, style: Style | ComplexStyle, options: PrintOptions) -> str:
    """Nested lists in brackets, `indent` being the column where the first bracket stands."""
    if ndim == 0:
        return style.text(nested)
    if ndim == 1:
        return lay_out_row(nested, indent, style, options)
    rows = ["..." if row is GAP else lay_out(row, ndim - 1, indent + 1, style, options) for row in nested]
    return "[" + ("," + "\n" * (ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def lay_out_row(row: list[Any], indent: int, style: Style | ComplexStyle, options: PrintOptions) -> str:
    gap = "..." if len(row) == 1 else " ..."
    items = [gap if value is GAP else style.text(value) for value in row]
    per_line = max(1, (options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def contents(t: _C.Tensor, indent: int, options: PrintOptions) -> str:
    """The elements as text; "..." where there is no data."""
    if t.is_meta:
        return "..."
    if t.numel() == 0:
        return "[]"
    nested = visible(t, options)
    values = list(leaves(nested))
    if t.is_complex():
        parts = ([v.real for v in values], [v.imag for v in values])
        style: Style | ComplexStyle = ComplexStyle(*(style_of(part, True, options) for part in parts))
    else:
        style = style_of(values, t.is_floating_point(), options)
    return lay_out(nested, t.ndim, indent, style, options)


def facts(t: _C.Tensor, options: PrintOptions) -> Iterator[str]:
    """What follows the elements: only what they do not already say."""
    default = _C.get_default_dtype()
    if t.device.type != "cpu":
        yield f"device='{t.device}'"
    obvious = (default,)
    if t.is_quantized:
        yield f"size={tuple(t.shape)}"
        yield f"dtype={t.dtype}"
        yield from quantizer_facts(t._quantizer)
        return
    if t.is_meta or (t.numel() == 0 and t.ndim != 1) or (t.numel() and not options.edgeitems):
        yield f"size={tuple(t.shape)}"
    if t.numel() and not t.is_meta:
        obvious = (default, default.to_complex(), _C.int64, _C.bool)
    if t.dtype not in obvious:
        yield f"dtype={t.dtype}"


def quantizer_facts(quantizer: Quantizer) -> Iterator[str]:
    """What the integers of a quantized tensor mean."""
    yield f"quantization_scheme={quantizer.scheme}"
    if isinstance(quantizer, PerTensor):
        yield f"scale={quantizer.scale}"
        yield f"zero_point={quantizer.zero_point}"
    else:
        yield f"scale={quantizer.scales}"
        yield f"zero_point={quantizer.zero_points}"
        yield f"axis={quantizer.axis}"


def history(t: _C.Tensor) -> Iterator[str]:
    """The tensor's place in the autograd graph, if it has one."""
    node = getattr(t, "grad_fn", None)
    if node is not None:
        yield f"grad_fn=<{type(node).__name__}>"
    elif getattr(t, "requires_grad", False):
        yield "requires_grad=True"
    tangent = unpack_dual(t).tangent if t._wrapped is not None else None
    if tangent is not None:
        yield f"tangent={tangent}"


def join_facts(body: str, parts: Iterable[str], indent: int, options: PrintOptions) -> str:
    """Append each part after a comma, on a new line where it would pass the line's width."""
    width = len(body) - body.rfind("\n") + 1
    for part in parts:
        if width + len(part) + 2 > options.linewidth:
            body += ",\n" + " " * indent + part
            width = indent + len(part)
        else:
            body += ", " + part
            width += len(part) + 2
    return body + ")"


def is_plain(t: _C.Tensor) -> bool:
    """Printed as `tensor(...)` rather than under the name of a subclass."""
    return type(t) is _C.Tensor or getattr(type(t), "_prints_as_tensor", False)


def level_text(w: Any) -> str:
    """A tensor of a function transform: its level, and what stands behind it."""
    where = f"bdim={w.dim}, " if isinstance(w, levels.Batch) else ""
    name = "BatchedTensor" if where else "GradTrackingTensor"
    inner = "\n".join("    " + line for line in tensor_text(w.value).split("\n"))
    return f"{name}(lvl={w.level.number + 1}, {where}value=\n{inner}\n)"


def tensor_text(t: _C.Tensor, tensor_contents: str | None = None) -> str:
    """The text of `repr(t)`. `tensor_contents` replaces the elements, for subclasses that show something else."""
    w = t._wrapped
    if w is not None and tensor_contents is None and w.level.is_open and not getattr(w.level, "is_ambient", False):
        return level_text(w)
    options = _current[0]
    prefix = "tensor(" if is_plain(t) else f"{type(t).__name__}("
    plain = _C.shallow_copy(t)  # outside the graph and any subclass: printing must neither record nor dispatch
    if tensor_contents is None and t._keys & SUBCLASS and computes_itself(t):
        with DisableTorchFunctionSubclass(), no_grad():
            tensor_contents = contents(t, len(prefix), options)
    if tensor_contents is None:
        if t._keys & PRIVATE:
            with DisableTorchFunctionSubclass(), no_grad():
                plain = t.cpu()
        host = plain if plain.is_cpu or plain.is_meta else plain.cpu()
        host = find_op("dequantize")(host) if host.is_quantized else host
        tensor_contents = contents(host, len(prefix), options)
    said = facts(t if t._keys & PRIVATE else plain, options)
    return join_facts(prefix + tensor_contents, [*said, *history(t)], len(prefix), options)
