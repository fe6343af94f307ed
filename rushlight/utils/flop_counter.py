"""Counting floating-point operations: two for every multiplication with addition in matrix products,
convolutions and attention.

Enters: ops run under `FlopCounterMode`, forward and backward. Leaves: counts by module and op, under the names PyTorch
has for the kernels, and a table. Elementwise work is not counted. Formulas can be added for custom ops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

from .. import _C
from ..aten.namespaces import OpOverloadPacket, namespace
from ..dispatch.modes import TorchDispatchMode
from ._pytree import tree_map, tree_map_
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict[Any, Callable] = {}
_aten = namespace("aten")


def get_shape(i: Any) -> Any:
    """The shape of a tensor; anything else as it is."""
    return i.shape if isinstance(i, _C.Tensor) else i


def shape_wrapper(f: Callable) -> Callable:
    """A formula of shapes as one of tensors."""

    @wraps(f)
    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return f(*args, out_shape=out_shape, **kwargs)

    return formula


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable], Callable]:
    """Decorator: the formula of an op (`ops.mylib.foo`) or several, f(*shapes, out_shape=...),
    or with get_raw f(*tensors, out_val=...)."""

    def register(formula: Callable) -> Callable:
        counted = formula if get_raw else shape_wrapper(formula)

        def add(target: Any) -> None:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    f"register_flop_formula: expected an OpOverloadPacket, as ops.mylib.foo is, got {target} of type"
                    f" {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = counted

        tree_map_(add, targets)
        return counted

    return register


# --- formulas ---------------------------------------------------------------------------------------------------------


def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """[m, k] @ [k, n]."""
    (m, k), (k2, n) = a_shape, b_shape
    assert k == k2, f"matmul: inner dimensions must match, got {k} and {k2}"
    return 2 * m * n * k


def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A product that is added to something: the sum is not counted."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A batch of products."""
    (b, m, k), (b2, k2, n) = a_shape, b_shape
    assert (b, k) == (b2, k2), f"bmm: batch and inner dimensions must match, got {(b, k)} and {(b2, k2)}"
    return 2 * b * m * n * k


def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A batch of products that is added to something."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Every weight meets every position of the output, or of the input where the convolution is transposed."""
    return 2 * x_shape[0] * prod((x_shape if transposed else out_shape)[2:]) * prod(w_shape)


def conv_flop(
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """A convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


def conv_backward_flop(
    grad_out_shape: Any,
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: Any,
    out_shape: Any = None,
) -> int:
    """Gradients of a convolution: that of the input is one the other way round, that of the weight is one of
    positions with windows; groups are not left out, as PyTorch counts."""

    def swapped(shape: Any) -> list[int]:
        return [shape[1], shape[0], *shape[2:]]

    total = 0
    if output_mask[0]:
        total += conv_flop_count(grad_out_shape, w_shape, x_shape, not transposed)
    if output_mask[1]:
        positions, windows = (x_shape, grad_out_shape) if transposed else (grad_out_shape, x_shape)
        total += conv_flop_count(swapped(windows), swapped(positions), swapped(w_shape))
    return total


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Scores, and their product with the values. Keys may have fewer heads than queries."""
    b, heads, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    assert heads % key_shape[1] == 0, f"sdpa: query heads ({heads}) must be a multiple of key heads ({key_shape[1]})"
    return 2 * b * heads * s_q * s_k * (d_q + d_v)


def sdpa_flop(
    query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Attention."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """The scores again, and a product for each of their gradient, and those of values, queries and keys."""
    b, heads, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    return 2 * b * heads * s_q * s_k * (3 * d_q + 2 * d_v)


def sdpa_backward_flop(
    grad_out_shape: Any,
    query_shape: Any,
    key_shape: Any,
    value_shape: Any,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """The gradient of attention."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


register_flop_formula(_aten.mm)(mm_flop)
register_flop_formula(_aten.addmm)(addmm_flop)
register_flop_formula(_aten.bmm)(bmm_flop)
register_flop_formula(_aten.baddbmm)(baddbmm_flop)
register_flop_formula(_aten.convolution)(conv_flop)
register_flop_formula(_aten.convolution_backward)(conv_backward_flop)
register_flop_formula(_aten._scaled_dot_product_flash_attention_for_cpu)(sdpa_flop)
register_flop_formula(_aten._scaled_dot_product_flash_attention_for_cpu_backward)(sdpa_backward_flop)


_RECURRENT = {"_gru_layer": 2, "_lstm_layer": 3, "_rnn_layer": 2}   # ops of ours, and where their weight is


# --- the table --------------------------------------------------------------------------------------------------------

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """The unit in which a number has at least three digits before the point, as far as there are units."""
    index = max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))
    return suffixes[index]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in a unit, with three digits after the point."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A share in percent."""
    return f"{num / denom:.2%}" if denom else "0%"


def layout_table(rows: list[list[str]], header: list[str]) -> str:
    """Columns under dashed headers: the first to the left, the others to the right."""
    widths = [max(len(h) + 2, *(len(row[i]) for row in rows)) for i, h in enumerate(header)]

    def line(cells: list[str]) -> str:
        return "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        )

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)])


class FlopCounterMode:
    """`with FlopCounterMode() as counter:` counts what runs inside; `get_total_flops`, `get_flop_counts`,
    `get_table` tell."""

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Callable] | None = None
    ) -> None:
        if mods is not None:
            import warnings  # noqa: PLC0415

            warnings.warn("FlopCounterMode: mods is ignored, leave it away", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        custom = {
            k: v if getattr(v, "_get_raw", False) else shape_wrapper(v) for k, v in (custom_mapping or {}).items()
        }
        self.flop_registry = {**flop_registry, **custom}
        self.mod_tracker = ModuleTracker()
        self.mode: _FlopCounterMode | None = None

    def get_total_flops(self) -> int:
        """The sum of everything."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Counts by module name (and "Global"), then by op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def _rows(self, name: str, indent: int) -> list[list[str]]:
        total, unit = self.get_total_flops(), get_suffix_str(self.get_total_flops())
        counts, pad = self.flop_counts[name], " " * indent
        lines = [(pad + name, sum(counts.values())), *((f"{pad} - {op}", count) for op, count in counts.items())]
        return [
            [text, convert_num_with_suffix(count, unit), convert_to_percent_str(count, total)] for text, count in lines
        ]

    def get_table(self, depth: int | None = None) -> str:
        """A row per module down to `depth`, with a row per op below each."""
        depth = depth if depth is not None else self.depth if self.depth is not None else 999999
        shown = [name for name in sorted(self.flop_counts) if name != "Global" and name.count(".") < depth]
        rows = [row for name in shown for row in self._rows(name, name.count("."))]
        covered = any(sum(self.flop_counts[name].values()) >= self.get_total_flops() for name in shown)
        if "Global" in self.flop_counts and not covered:
            rows = self._rows("Global", 0) + [[" " + row[0], *row[1:]] for row in rows]
        return layout_table(rows or [["Global", "0", "0%"]], ["Module", "FLOP", "% Total"])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _FlopCounterMode(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.mode.__exit__(*exc)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def _add(self, packet: Any, count: int) -> None:
        for name in self.mod_tracker.parents:
            self.flop_counts[name][packet] += count

    def _count_flops(self, func: Any, out: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        packet = func.overloadpacket
        if packet in self.flop_registry:
            self._add(packet, self.flop_registry[packet](*args, **kwargs, out_val=out))
        elif func._opname in _RECURRENT:   # one product per step; their gradient's steps are inside one kernel
            rows, (wide, width) = args[0].shape[0], args[_RECURRENT[func._opname]].shape
            self._add(_aten.addmm, addmm_flop((wide,), (rows, width), (width, wide)))
        return out


class _FlopCounterMode(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        return self.counter._count_flops(func, func(*args, **kwargs), args, kwargs)
