"""Lists and dicts that cannot be changed in place: the containers of a node's arguments.

Enters: any list or dict. Leaves: an equal one, hashable, that pickles and maps as its plain form. Refuses: mutation,
with a TypeError that says how to change a node's arguments instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ..utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]

_HELP = "To change args or kwargs of a Node, change a copy and assign that"


def _refusing(kind: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{kind!r} object does not support mutation. {_HELP}:\n    changed = list(node.args)\n    ...\n   "
            " node.args = tuple(changed)"
        )

    return refuse


class immutable_list(list):  # noqa: N801 - PyTorch's name
    """A list that refuses to change."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = (
        sort
    ) = _refusing("immutable_list")

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self),)


class immutable_dict(dict):  # noqa: N801 - PyTorch's name
    """A dict that refuses to change."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = update = setdefault = _refusing("immutable_dict")

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self.items()),)


def _flatten_list(items: list) -> tuple[list[Any], Any]:
    return list(items), None


def _unflatten_list(items: Iterable[Any], _: Any) -> immutable_list:
    return immutable_list(items)


def _flatten_dict(d: dict) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _unflatten_dict(values: Iterable[Any], keys: Any) -> immutable_dict:
    return immutable_dict(zip(keys, values, strict=True))


_pytree.register_pytree_node(immutable_list, _flatten_list, _unflatten_list)
_pytree.register_pytree_node(immutable_dict, _flatten_dict, _unflatten_dict)
