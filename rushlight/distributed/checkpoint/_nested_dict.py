"""`torch.distributed.checkpoint._nested_dict`: nested state as one flat dict, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._traverse import OBJ_PATH, set_element, traverse_state_dict

__all__ = ["flatten_state_dict", "unflatten_state_dict"]

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], FLATTEN_MAPPING]:
    """({"a.b": leaf}, {"a.b": ("a", "b")}). ValueError where two leaves would have one name."""
    flat: dict[str, Any] = {}
    paths: FLATTEN_MAPPING = {}

    def take(path: OBJ_PATH, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"flatten_state_dict: {paths[name]} and {path} would both be called {name!r}")
        flat[name], paths[name] = value, path

    traverse_state_dict(state_dict, take)
    return flat, paths


def unflatten_state_dict(state_dict: Mapping[str, Any], mapping: FLATTEN_MAPPING) -> dict[str, Any]:
    """What `flatten_state_dict` was given."""
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
