"""Modules as functions of their parameters: functional_call, stack_module_state; and debug_unwrap.

Enters: anything like an `nn.Module`: `named_parameters()`, `named_buffers()`, `_parameters`, `_buffers`, `_modules`,
and a call. Leaves: its result with other tensors in the place of its parameters and buffers; the module is as before
afterwards, also after an error. Refuses: names the module does not have (with `strict`; without, they are attributes
during the call), names of what is no tensor, and different tensors for tied weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..op import find_op


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with the given tensors instead of its own.

    parameter_and_buffer_dicts: a dict of name to tensor, or several dicts without common names. tie_weights: a replaced
    tensor also replaces those tied to it. strict: every parameter and buffer must be given, and nothing else.
    """
    replacements = merged(parameter_and_buffer_dicts)
    before = dict(replacements)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    try:
        with replaced(module, replacements, tie_weights, strict):
            return module(*args, **(kwargs or {}))
    finally:
        for d in (
            (parameter_and_buffer_dicts,)
            if isinstance(parameter_and_buffer_dicts, dict)
            else parameter_and_buffer_dicts
        ):
            d.update({name: t for name, t in replacements.items() if name in d and t is not before[name]})


def merged(dicts: Any) -> dict[str, Any]:
    """One dict of all replacements."""
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, Sequence) or not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError(
            "functional_call: expected parameter_and_buffer_dicts to be a dict, or a list or tuple of dicts, got"
            f" {type(dicts).__name__}"
        )
    result: dict[str, Any] = {}
    for d in dicts:
        again = [name for name in d if name in result]
        if again:
            raise ValueError(
                f"functional_call: {again[0]!r} appears in multiple dictionaries; the key order is ambiguous"
            )
        result.update(d)
    return result


def named_tensors(module: Any) -> dict[str, Any]:
    """Every parameter and buffer by its full name, tied ones under each of their names."""
    found: dict[str, Any] = {}
    for prefix, owner in submodules(module):
        for table in (owner._parameters, owner._buffers):
            found.update({prefix + name: t for name, t in table.items() if t is not None})
    return found


def submodules(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(prefix of its names, module) of the module and everything in it."""
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from submodules(child, f"{prefix}{name}.")


def with_ties(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Replacements for the other names of replaced tensors as well."""
    by_tensor: dict[int, list[str]] = {}
    for name, t in named_tensors(module).items():
        by_tensor.setdefault(id(t), []).append(name)
    result = dict(given)
    for names in by_tensor.values():
        chosen = [n for n in names if n in given]
        if not chosen:
            continue
        if any(given[n] is not given[chosen[0]] for n in chosen[1:]):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using"
                " tie_weights=False"
            )
        result.update(dict.fromkeys(names, given[chosen[0]]))
    return result


@contextmanager
def replaced(module: Any, given: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    """The module with other tensors in it."""
    known = named_tensors(module)
    full = with_ties(module, given) if tie_weights else given
    if strict:
        missing, unexpected = sorted(set(known) - set(full)), sorted(set(given) - set(known))
        problems = [f"Unexpected key(s): {', '.join(unexpected)}."] * bool(unexpected) + [
            f"Missing key(s): {', '.join(missing)}."
        ] * bool(missing)
        if problems:
            raise RuntimeError(
                "functional_call: in strict mode every parameter and buffer must be given, and nothing else."
                f" {' '.join(problems)}"
            )
    undo: list[tuple[Place, str, Any]] = []
    try:
        for name, t in full.items():
            place = place_of(module, name, t)
            undo.append((place, name, place.get()))
            place.set(t)
        yield
    finally:
        for place, name, before in reversed(undo):
            if place.get() is not full[name]:   # the module put another tensor there while it ran: the caller sees that
                given[name] = place.get()
            place.set(before)


class Place:
    """Where a module holds something under a name: a table of it, its own attributes, or what its class makes of it."""

    def __init__(self, table: dict[str, Any], name: str) -> None:
        self.table, self.name = table, name

    def get(self) -> Any:
        return self.table.get(self.name, MISSING)

    def set(self, value: Any) -> None:
        if value is MISSING:
            self.table.pop(self.name, None)
        else:
            self.table[self.name] = value


class Made(Place):
    """A name whose values the class of a module makes and takes, as it does for parametrized weights."""

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__({}, name)
        self.owner, self.held = owner, MISSING

    def get(self) -> Any:
        return getattr(self.owner, self.name) if self.held is MISSING else self.held

    def set(self, value: Any) -> None:
        setattr(self.owner, self.name, value)
        self.held = value


MISSING = object()


def place_of(module: Any, name: str, value: Any) -> Place:
    """Where `value` goes for a name like `layer.weight`. A name that nothing has is an attribute for the time of the
    call, which a module that does not look for it does not see."""
    owner = module
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part) if part else owner
        if not hasattr(owner, "_parameters"):
            raise TypeError(f"functional_call: {part!r} of {name!r} is a {type(owner).__name__}, no module")
    if value is not None and not isinstance(value, _C.Tensor):
        raise TypeError(f"functional_call: {value!r} is not an instance of Tensor, given for {name!r}")
    for table in (owner._parameters, owner._buffers):
        if last in table:
            return Place(table, last)
    if not last:
        raise KeyError(f"functional_call: names must not be empty, got {name!r}")
    before = getattr(owner, last, MISSING)
    if value is None or not (before is MISSING or isinstance(before, _C.Tensor)):
        raise TypeError(f"functional_call: {name!r} is not the name of a tensor of {type(owner).__name__}, but of"
                        f" {'nothing' if before is MISSING else type(before).__name__}; got {value!r} for it")
    return Made(owner, last) if isinstance(getattr(type(owner), last, None), property) else Place(vars(owner), last)


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of several modules of one class, each stacked along a new first dim,
    for vmap over an ensemble."""
    if not len(models):
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: some models are in training mode and some in eval mode. Call train() or eval() on all."
        )
    kind = type(models[0])
    if not all(type(m) is kind for m in models):
        raise RuntimeError("stack_module_state: expected models of one class.")
    params = {
        name: stack_states([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: stack_states([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()
    }
    return params, buffers


def stack_states(tensors: list[Any]) -> Any:
    """One leaf for the tensors of one name."""
    wants = tensors[0].requires_grad
    if any(t.requires_grad != wants for t in tensors):
        raise RuntimeError("stack_module_state: Expected parameters of one name to have the same requires_grad")
    if not wants:
        return find_op("stack")(tensors)
    return find_op("stack")([t.detach() for t in tensors]).requires_grad_()


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor behind a level's tensor (behind all of them with `recurse`), to look at while debugging."""
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"debug_unwrap: expected a Tensor, got {type(tensor).__name__}")
    w = tensor._wrapped
    while w is not None:
        tensor = w.value
        w = tensor._wrapped if recurse else None
    return tensor
