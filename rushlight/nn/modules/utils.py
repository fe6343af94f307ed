"""PyTorch's `nn.modules.utils`: sizes as tuples, and keys of states without a prefix.

Enters: a number or a sequence; a state. Leaves: a tuple; the state changed in place.
These are the names other libraries import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.shape import INTS
from .settings import repeated


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that makes a tuple of n equal values, or a tuple of a given sequence."""

    def parse(x: Any) -> tuple:
        return repeated(x, n)

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (
    _ntuple(1, "_single"),
    _ntuple(2, "_pair"),
    _ntuple(3, "_triple"),
    _ntuple(4, "_quadruple"),
)


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple:
    """Every element n times, the last one first."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Sizes with None replaced by the last of the defaults."""
    if isinstance(out_size, INTS):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix (such as DataParallel's "module.") off all keys, in place, metadata included."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)
