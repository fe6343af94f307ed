"""Weak references by identity: dictionaries whose keys may be tensors, which compare elementwise.

Enters: objects as keys. Leaves: entries that vanish with their key. Refuses nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

WeakRef = weakref.ref

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRefKey"]


class WeakIdRef(weakref.ref):
    """A weak reference that hashes and compares by identity. Dead ones equal only themselves:
    identities are used again."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        a, b = self(), other() if isinstance(other, weakref.ref) else None
        return a is b if a is not None and b is not None else self is other

    def __ne__(self, other: object) -> bool:
        return not self == other


class _WeakHashRef(WeakIdRef):
    """A weak reference that hashes and compares by the key's hash."""

    __slots__ = ()

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)
        self._id = hash(key)

    __hash__ = WeakIdRef.__hash__

    def __eq__(self, other: object) -> bool:
        a, b = self(), other() if isinstance(other, weakref.ref) else None
        return hash(a) == hash(b) if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping):
    """A dict with weak keys told apart by identity."""

    def __init__(self, dict: Any = None, ref_type: type[weakref.ref] = WeakIdRef) -> None:  # noqa: A002 - its name
        self.data: Any = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def forget(key: weakref.ref) -> None:
            alive = own()
            if alive is not None:
                alive.data.pop(key, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:   # what cannot be referred to weakly is no key
            return False

    def __iter__(self) -> Iterator[Any]:
        for ref in list(self.data):   # a copy: keys may die meanwhile
            key = ref()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def keyrefs(self) -> list[weakref.ref]:
        """The references, some of which may be dead."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A second dict with the same keys and values."""
        result = type(self)(ref_type=self.ref_type)
        result.update(self)
        return result

    __copy__ = copy

    def __deepcopy__(self, memo: dict) -> WeakIdKeyDictionary:
        from copy import deepcopy  # noqa: PLC0415

        result = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            result[key] = deepcopy(value, memo)
        return result

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorRefKey, WeakTensorKeyDictionary = WeakIdRef, WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
