"""Modules as state of a function: their parameters and buffers as a list,
exchanged for others while the function is traced.

Enters: the modules a function uses. Leaves: their tensors in one order (tied ones once for each name), flags that
decide what they do (training, hooks), a block in which other tensors are in their place,
and the changes a run made to their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._C import Tensor
from ..nn import Module
from .refused import NotCaptured

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ModuleState:
    """The tensors of some modules and everything in them."""

    def __init__(self, roots: Sequence[Module]) -> None:
        self.modules: list[Module] = []
        seen: set[int] = set()
        waiting = list(reversed(roots))
        while waiting:
            module = waiting.pop()
            if module is None or id(module) in seen:
                continue
            seen.add(id(module))
            self.modules.append(module)
            waiting += reversed(module._modules.values())
        self.slots = [
            (table, name)
            for m in self.modules
            for table in (m._parameters, m._buffers)
            for name, t in table.items()
            if t is not None
        ]

    def tensors(self) -> list[Tensor]:
        return [table[name] for table, name in self.slots]

    def flags(self) -> tuple:
        """What decides the course of forward besides tensors: training flags and how many hooks there are."""
        return tuple(
            [
                (
                    m.training,
                    len(m._forward_hooks)
                    + len(m._forward_pre_hooks)
                    + len(m._backward_hooks)
                    + len(m._backward_pre_hooks),
                )
                for m in self.modules
            ]
        )

    @contextmanager
    def exchanged(self, tensors: Sequence[Tensor], tell: Callable[[str], None] | None = None
                  ) -> Iterator[list[Tensor | None]]:
        """Other tensors in the place of the modules' own. The list, filled on leaving, has what stood there at the end.
        Changes of attributes are undone; `tell` hears of one, and without it they are refused."""
        before = self.tensors()
        after: list[Tensor | None] = []
        kept = [self._attributes(m) for m in self.modules]
        try:
            for (table, name), t in zip(self.slots, tensors, strict=True):
                table[name] = t
            yield after
            after += [table.get(name) for table, name in self.slots]
        finally:
            for (table, name), t in zip(self.slots, before, strict=True):
                table[name] = t
            changed = self._restore(kept)
        if changed and tell is not None:
            tell(changed)
        elif changed:
            raise NotCaptured(
                f"compile: forward changes {changed}, which a graph cannot repeat. Keep such state in buffers, or leave"
                " that part uncompiled."
            )

    def _attributes(self, module: Module) -> dict[str, Any]:
        found = {
            name: value
            for name, value in module.__dict__.items()
            if name not in ("_parameters", "_buffers", "_modules") and name not in _HOOKS
        }
        return {name: (value, _contents(value)) for name, value in found.items()}

    def _restore(self, kept: list[dict[str, Any]]) -> str:
        """Attributes as they were; the first that had changed, by name, or nothing."""
        changed = ""
        for module, before in zip(self.modules, kept, strict=True):
            own = module.__dict__
            for name in [
                n
                for n in own
                if n not in before and n not in ("_parameters", "_buffers", "_modules") and n not in _HOOKS
            ]:
                changed = changed or f"{type(module).__name__}.{name}"
                del own[name]
            for name, (value, contents) in before.items():
                if name not in own or not _is_same(own[name], value):
                    changed = changed or f"{type(module).__name__}.{name}"
                    own[name] = value
                elif contents is not None and _contents(value) != contents:
                    changed = changed or f"{type(module).__name__}.{name}"
                    _refill(value, contents)
        return changed


def _is_same(now: Any, before: Any) -> bool:
    return now is before or (type(now) is type(before) and isinstance(now, (bool, int, float, str)) and now == before)


def _contents(value: Any) -> Any:
    """What a list or dict holds, by identity."""
    if type(value) is list:
        return [(id(v), v) for v in value]
    if type(value) is dict:
        return [(k, id(v), v) for k, v in value.items()]
    return None


def _refill(value: Any, contents: list) -> None:
    value.clear()
    if type(value) is list:
        value.extend(v for _, v in contents)
    else:
        value.update((k, v) for k, _, v in contents)
