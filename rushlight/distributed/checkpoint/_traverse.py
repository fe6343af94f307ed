"""`torch.distributed.checkpoint._traverse`: nested dicts and lists, leaf by leaf, with the path to each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from ..._C import Tensor

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict"]

OBJ_PATH = tuple[str | int, ...]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def traverse_state_dict(
    state_dict: Mapping[Any, Any],
    visitor: Callable[[OBJ_PATH, Any], None],
    keep_traversing: Callable[[Any], bool] | None = _is_tensor,
) -> None:
    """Call `visitor(path, leaf)` for all leaves. Dicts are entered always, a list only if something in it is a dict or
    a tensor (`keep_traversing`), tuples never: they are leaves, as other objects are."""
    for key, value in state_dict.items():
        _visit((str(key),), value, visitor, keep_traversing)


def _visit(path: OBJ_PATH, value: Any, visitor: Callable, keep: Callable[[Any], bool] | None) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _visit((*path, str(key)), inner, visitor, keep)
    elif _is_leaf(value, keep):
        visitor(path, value)
    else:
        for index, inner in enumerate(value):
            _visit((*path, index), inner, visitor, keep)


def _is_leaf(value: Any, keep: Callable[[Any], bool] | None) -> bool:
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return all(_is_leaf(entry, keep) and not (keep is not None and keep(entry)) for entry in value)


def set_element(root_dict: dict[str, Any], path: OBJ_PATH, value: Any) -> None:
    """Put a leaf where its path says, making the dicts and lists on the way."""
    inner: Any = root_dict
    for step, following in itertools.pairwise(path):
        result: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            _extend(inner, step, None)
            if inner[step] is None:
                inner[step] = result
        else:
            inner.setdefault(step, result)
        inner = inner[step]
    if isinstance(path[-1], int):
        _extend(inner, path[-1], None)
    inner[path[-1]] = value


def _extend(items: list[Any], index: int, filler: Any) -> None:
    items.extend([filler] * (index + 1 - len(items)))


def get_element(root_dict: Mapping[str, Any], path: OBJ_PATH, default_value: Any = None) -> Any:
    """The leaf that a path leads to, or the default."""
    found: Any = root_dict
    for step in path:
        if isinstance(step, int):
            if not isinstance(found, list) or len(found) <= step:
                return default_value
        elif not isinstance(found, Mapping) or step not in found:
            return default_value
        found = found[step]
    return found


def print_tensor(path: OBJ_PATH, value: Any, print_fun: Callable[[str], Any] = print) -> None:
    """A leaf in words: a visitor for `traverse_state_dict`."""
    what = f"Tensor size: {tuple(value.shape)}" if isinstance(value, Tensor) else f"Type: {type(value)}"
    print_fun(f"{path} {what}")
