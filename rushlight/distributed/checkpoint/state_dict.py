"""`torch.distributed.checkpoint.state_dict`: state of models and optimizers under the names of the bare model.

Wrappers (DDP, compiled modules, FSDP, activation checkpointing) leave no trace in the names, and an optimizer's state
is named by parameter instead of numbered: what was saved with one arrangement of processes loads with any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ... import _C
from ..._C import Tensor
from ...nn import Module
from ...optim import Optimizer
from .. import collectives, groups
from ..tensor import DTensor
from .planner_helpers import local_box, mapped, narrowed

__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
           "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict"]

_WRAPPERS = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
_STATE, _GROUPS, _PARAMS = "state", "param_groups", "params"


@dataclass
class StateDictOptions:
    """What to get and how to set it.

    full_state_dict      tensors whole, not in parts (with cpu_offload on rank 0 alone: the others get nothing)
    cpu_offload          tensors in host memory
    ignore_frozen_params leave out parameters that do not require gradients
    keep_submodule_prefixes  with `submodules`: names as in the whole model
    strict               as in `load_state_dict`
    broadcast_from_rank0 setting: rank 0 has the whole state, and sends each rank what it needs
    flatten_optimizer_state_dict  "state.layer.weight.exp_avg" instead of nested dicts
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


# --- names ------------------------------------------------------------------------------------------------------------


def _bare(model: Module, name: str, modifiers: str) -> str:
    """A name of the model's state without its wrappers."""
    parts, kept = name.split("."), []
    module: Any = model
    renamed: dict[str, str] = {}
    for part in parts:
        is_wrapped = part in _WRAPPERS or (part == "module" and _is_data_parallel(module))
        if not is_wrapped:
            kept.append(renamed.get(part, part))
        module = getattr(module, part, None) if module is not None else None
        modify = getattr(module, modifiers, None)
        renamed = modify() if callable(modify) else {}
    return ".".join(kept)


def _is_data_parallel(module: Any) -> bool:
    return type(module).__name__ in ("DistributedDataParallel", "DataParallel")


class _Names:
    """The bare names of a model's state, and which of them are asked for."""

    def __init__(self, model: Module, options: StateDictOptions, submodules: set[Module] | None) -> None:
        self.model, self.options = model, options
        self.of_parameter: dict[Any, str] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self.of_parameter.setdefault(parameter, self.bare(name))
        self._frozen = {
            self.bare(name)
            for name, parameter in model.named_parameters(remove_duplicate=False)
            if not parameter.requires_grad
        }
        self._prefixes: tuple[str, ...] = ()
        if submodules:
            self._prefixes = tuple(
                self.bare(name) + "." for name, module in model.named_modules() if module in submodules
            )
            if not options.keep_submodule_prefixes and len(self._prefixes) != 1:
                raise ValueError(
                    f"keep_submodule_prefixes=False needs exactly one submodule, got {len(self._prefixes)}"
                )

    def bare(self, name: str) -> str:
        return _bare(self.model, name, self.options.dsd_fqn_modifiers)

    def is_wanted(self, name: str) -> bool:
        if self._prefixes and not name.startswith(self._prefixes):
            return False
        return not (self.options.ignore_frozen_params and name in self._frozen)

    def shown(self, name: str) -> str:
        if self._prefixes and not self.options.keep_submodule_prefixes:
            return name.removeprefix(self._prefixes[0])
        return name


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("StateDictOptions: broadcast_from_rank0=True needs full_state_dict=True")
    return options


def _optimizers(given: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (given,) if isinstance(given, Optimizer) else tuple(given)


# --- getting ----------------------------------------------------------------------------------------------------------


def _as_asked(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """Whole tensors, and on the host, if the options say so."""

    def change(tensor: Any) -> Any:
        if options.full_state_dict and isinstance(tensor, DTensor):
            tensor = tensor.full_tensor()
        if not options.cpu_offload or tensor.device.type == "cpu":
            return tensor
        if isinstance(tensor, DTensor):
            return DTensor.from_local(tensor.to_local().cpu(), tensor.device_mesh, tensor.placements, run_check=False,
                                      shape=tensor.size(), stride=tensor.stride())
        return tensor.cpu()

    state = mapped(state, change)
    if options.full_state_dict and options.cpu_offload and groups.is_initialized() and groups.get_rank():
        return {}
    return state


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's state, under the bare model's names."""
    options = _checked(options)
    names = _Names(model, options, submodules)
    state = {}
    for name, value in _plain_state(model).items():
        bare = names.bare(name)
        if names.is_wanted(bare):
            state[names.shown(bare)] = value
    return _as_asked(state, options)


def _plain_state(model: Module) -> dict[str, Any]:
    """`state_dict()` as the class defines it, not as a program may have replaced it by one of these functions."""
    return type(model).state_dict(model)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The optimizers' state, by the names of parameters. One that has made no step yet gets the state it would have."""
    options = _checked(options)
    names = _Names(model, options, submodules)
    state: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for optimizer in _optimizers(optimizers):
        _make_state(optimizer)
        plain = type(optimizer).state_dict(optimizer)
        name_of = _names_by_number(optimizer, names)
        for number, value in plain[_STATE].items():
            if names.is_wanted(name_of[number]):
                state[names.shown(name_of[number])] = dict(value) if isinstance(value, dict) else value
        for row in plain[_GROUPS]:
            shown = [names.shown(name_of[n]) for n in row[_PARAMS] if names.is_wanted(name_of[n])]
            rows.append({**row, _PARAMS: shown})
    # The groups' numbers are for all ranks: only tensors are made whole or taken away.
    found = _as_asked({_STATE: state, _GROUPS: rows}, options)
    if found and options.flatten_optimizer_state_dict:
        return _flattened(found)
    return found


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the model's state, the optimizers' state)."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def _names_by_number(optimizer: Optimizer, names: _Names) -> dict[int, str]:
    """Optimizers number parameters in the order of their groups."""
    parameters = [p for group in optimizer.param_groups for p in group[_PARAMS]]
    for parameter in parameters:
        if parameter not in names.of_parameter:
            raise RuntimeError(
                f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not one of the model's"
            )
    return {number: names.of_parameter[p] for number, p in enumerate(parameters)}


@contextlib.contextmanager
def _at_rest(optimizer: Optimizer) -> Iterator[None]:
    """A step taken within changes no parameter: there is nothing to learn, at no rate."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if "lr" in group:
            rate = group["lr"]
            group["lr"] = rate * 0 if isinstance(rate, Tensor) else 0.0
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if "lr" in group:
                group["lr"] = rate


def _make_state(optimizer: Optimizer) -> None:
    """State that an optimizer makes in its first step, for one that has made none."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group[_PARAMS] if p.requires_grad]
    if any(p.grad is not None for p in parameters):
        return      # within a step: the program's gradients are not to be touched
    with _at_rest(optimizer):
        for parameter in parameters:
            parameter.grad = parameter.detach().clone().zero_()
        optimizer.step(closure=None)
    optimizer.zero_grad(set_to_none=True)


_init_optim_state = _make_state      # the name that PyTorch's FSDP2 example imports


def _flattened(state: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, values in state[_STATE].items():
        for key, value in values.items():
            flat[f"{_STATE}.{name}.{key}"] = value
    for row in state[_GROUPS]:
        for name in row[_PARAMS]:
            flat.update({f"{_GROUPS}.{name}.{key}": value for key, value in row.items() if key != _PARAMS})
    return flat


def _nested(flat: dict[str, Any], optimizer: Optimizer, name_of: dict[int, str]) -> dict[str, Any]:
    """What `_flattened` was given, as far as it belongs to an optimizer."""
    state: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    number = 0
    for group in optimizer.param_groups:
        row: dict[str, Any] = {_PARAMS: []}
        for _ in group[_PARAMS]:
            name, number = name_of[number], number + 1
            row[_PARAMS].append(name)
            for key in group:
                if key != _PARAMS and f"{_GROUPS}.{name}.{key}" in flat:
                    row[key] = flat[f"{_GROUPS}.{name}.{key}"]
            prefix = f"{_STATE}.{name}."
            values = {key[len(prefix) :]: value for key, value in flat.items() if key.startswith(prefix)}
            if values:
                state[name] = values
        rows.append(row)
    return {_STATE: state, _GROUPS: rows}


# --- setting ----------------------------------------------------------------------------------------------------------


def _part_of(whole: Any, like: Any) -> Any:
    """This rank's part of a whole tensor, arranged as `like`; the tensor itself where that is whole."""
    if not isinstance(like, DTensor) or isinstance(whole, DTensor):
        return whole
    box = local_box(like)
    place = like.to_local().device
    part = narrowed(whole, box.offsets, box.sizes).contiguous()
    part = part.to(like.device_mesh.device_type if place.type == "meta" else place)
    return DTensor.from_local(part, like.device_mesh, like.placements, run_check=False, shape=like.size(),
                              stride=like.stride())


def _from_rank0(given: dict[str, Any], targets: dict[str, Any]) -> dict[str, Any]:
    """Rank 0's values for the names that every rank has, tensors one at a time."""
    rank = groups.get_rank()
    shared: list[Any] = [
        {
            name: (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else value
            for name, value in given.items()
        }
    ] if rank == 0 else [None]
    collectives.broadcast_object_list(shared, 0)
    received: dict[str, Any] = {}
    for name, what in shared[0].items():
        if not (isinstance(what, tuple) and len(what) == 2 and isinstance(what[1], _C.dtype)):
            received[name] = what
            continue
        tensor = given[name].detach().cpu().contiguous() if rank == 0 else _C.empty(what[0], None, what[1], None)
        collectives.broadcast(tensor, 0)
        received[name] = _part_of(tensor, targets.get(name))
    return received


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load what `get_model_state_dict` gave, or a bare model's own state. Returns missing and unexpected names."""
    options = _checked(options)
    names = _Names(model, options, None)
    state = _plain_state(model)
    real = {names.bare(name): name for name in state}
    targets = {bare: state[name] for bare, name in real.items()}
    given = model_state_dict
    if options.broadcast_from_rank0:
        given = _from_rank0(given, targets)
    elif options.full_state_dict:
        given = {name: _part_of(value, targets.get(name)) for name, value in given.items()}
    loaded = {real.get(name, name): value for name, value in given.items()}
    if options.ignore_frozen_params:
        loaded = {**{real[n]: targets[n] for n in real if not names.is_wanted(n)}, **loaded}
    # A model on the meta device has nothing to copy to: whole tensors, cut here, become its parameters.
    takes_over = options.full_state_dict and any(t.device.type == "meta" for t in targets.values())
    return type(model).load_state_dict(model, loaded, strict=options.strict, assign=takes_over)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load what `get_optimizer_state_dict` gave."""
    options = _checked(options)
    names = _Names(model, options, None)
    for optimizer in _optimizers(optimizers):
        _make_state(optimizer)
        name_of = _names_by_number(optimizer, names)
        given = optim_state_dict
        if options.broadcast_from_rank0:
            given = _optimizer_from_rank0(given)
        if given and _STATE not in given and _GROUPS not in given:
            given = _nested(given, optimizer, name_of)
        type(optimizer).load_state_dict(optimizer, _numbered(given, optimizer, name_of, options))


def _optimizer_from_rank0(given: dict[str, Any]) -> dict[str, Any]:
    """Rank 0's state of an optimizer, whole, on every rank."""
    if groups.get_rank() == 0 and _STATE in given:
        flat = {f"{name}\0{key}": value for name, row in given[_STATE].items() for key, value in row.items()}
        flat = _from_rank0({**flat, _GROUPS: given[_GROUPS]}, {})
    elif groups.get_rank() == 0:
        return _from_rank0(given, {})
    else:
        flat = _from_rank0({}, {})
        if _GROUPS not in flat:
            return flat
    state: dict[str, Any] = {}
    for key, value in flat.items():
        if key != _GROUPS:
            name, _, inner = key.partition("\0")
            state.setdefault(name, {})[inner] = value
    return {_STATE: state, _GROUPS: flat[_GROUPS]}


def _numbered(
    given: dict[str, Any], optimizer: Optimizer, name_of: dict[int, str], options: StateDictOptions
) -> dict[str, Any]:
    """State by name as the optimizer's own, by number."""
    parameters = [p for group in optimizer.param_groups for p in group[_PARAMS]]
    state: dict[int, Any] = {}
    for number, parameter in enumerate(parameters):
        values = given.get(_STATE, {}).get(name_of[number])
        if values is None:
            if parameter in optimizer.state and parameter.requires_grad and options.strict and given.get(_STATE):
                raise RuntimeError(f"the state to load has nothing for the parameter {name_of[number]}")
            continue
        state[number] = {
            key: _part_of(value, parameter)
            if isinstance(value, Tensor) and tuple(value.shape) == tuple(parameter.shape) and value.dim()
            else value
            for key, value in values.items()
        }
    rows, number = [], 0
    for group in optimizer.param_groups:
        numbers = range(number, number + len(group[_PARAMS]))
        number += len(group[_PARAMS])
        own = {name_of[n] for n in numbers}
        source = next((row for row in given.get(_GROUPS, ()) if own & set(row[_PARAMS])), None)
        if source is None and own and options.strict:
            raise RuntimeError(f"the state to load has no group with the parameters {sorted(own)[:3]}")
        kept = {key: value for key, value in group.items() if key != _PARAMS}
        rows.append({**kept, **{k: v for k, v in (source or {}).items() if k != _PARAMS}, _PARAMS: list(numbers)})
    return {_STATE: state, _GROUPS: rows}


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load what `get_state_dict` gave."""
    options = _checked(options)
    if _optimizers(optimizers) and (optim_state_dict or options.broadcast_from_rank0):
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    if model_state_dict or options.broadcast_from_rank0:
        return set_model_state_dict(model, model_state_dict, options=options)
    return None
