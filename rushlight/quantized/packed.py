"""Packed weights: what `linear_prepack` and its like give, opaque to programs as PyTorch's are.

Enters: a subclass of `ScriptObject` with `qualified` (PyTorch's name of its class), `state()` (what a file keeps) and
`from_state()`. Leaves: objects that print, copy, compare by identity and pickle as PyTorch's objects of C++ classes do:
in a file each is a `torch.ScriptObject` whose state is its own and the name of its class. Refuses: states of classes
that nobody registered, by name.
"""

from __future__ import annotations

import copyreg
from typing import Any, ClassVar

from ..base import homes, late

classes: dict[str, type[ScriptObject]] = {}      # PyTorch's name of a class -> the class


class ScriptObject:
    """An object of a class that programs know by name only."""

    qualified: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.qualified:
            classes[cls.qualified] = cls

    def state(self) -> Any:
        """What a file keeps of the object."""
        raise NotImplementedError(f"an object of {self.qualified or 'an unknown class'} cannot be pickled")

    @classmethod
    def from_state(cls, state: Any) -> ScriptObject:
        """The object of which a file kept this."""
        raise NotImplementedError(f"objects of {cls.qualified} cannot be read from files")

    def __getstate__(self) -> tuple[Any, str]:
        return self.state(), self.qualified

    def __setstate__(self, given: Any) -> None:
        late.provided("quantized ops")("quantized")        # files may come before anyone asked for an op
        if not isinstance(given, tuple) or len(given) != 2 or given[1] not in classes:
            raise RuntimeError(f"ScriptObject: expected the state of one of {', '.join(classes)}, got {given!r:.100}")
        kind = classes[given[1]]
        made = kind.from_state(given[0])
        object.__dict__["__class__"].__set__(self, kind)
        self.__dict__.update(made.__dict__)

    @property      # type: ignore[misc]
    def __class__(self) -> type:
        """What programs and pickles see: one class for all of them, as PyTorch has it."""
        return ScriptObject

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return copyreg.__newobj__, (ScriptObject,), self.__getstate__()      # type: ignore[attr-defined]

    def __copy__(self) -> ScriptObject:
        return type(self).from_state(self.state())

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptObject:
        return type(self).from_state(self.state())

    def _type(self) -> Any:
        return self.qualified

    def _method_names(self) -> list[str]:
        return [name for name in dir(type(self)) if not name.startswith("_") and name not in ("state", "from_state")]

    def __repr__(self) -> str:
        return f"ScriptObject <{self.qualified}>"


homes.settle(ScriptObject, "")
