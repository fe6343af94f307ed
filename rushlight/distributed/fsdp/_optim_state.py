"""Optimizers' states of wrapped modules: by names of parameters and whole (or DTensors), and back to this process's
part."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ..collectives import all_gather_object, broadcast_object_list
from ..groups import default_group, resolve
from ..tensor import DTensor, Shard, distribute_tensor
from ._flat_unit import FlatUnit
from ._passes import passes_of
from ._wrapper_state import WrapperState, _mesh_of, cleaned
from .api import StateDictType


class _Places:
    """Where the parameters of a model are: names, the units that have them, and what an optimizer sees."""

    def __init__(self, model: Module) -> None:
        self.units: list[tuple[FlatUnit, list[str]]] = []
        self.names: dict[int, list[str]] = {}       # what an optimizer sees -> names of parameters
        self.unit_of: dict[str, tuple[FlatUnit, int]] = {}
        for path, module in model.named_modules(remove_duplicate=True):
            passes = passes_of(module) if isinstance(module, WrapperState) else None
            if passes is None or passes.unit is None:
                continue
            unit = passes.unit
            own = [cleaned(f"{path}.{name}".lstrip(".")) for name in unit.names]
            self.units.append((unit, own))
            self.unit_of.update({name: (unit, i) for i, name in enumerate(own)})
            for i, part in enumerate(unit.parts):
                self.names[id(part)] = [own[i]] if unit.keeps_names else own
        for name, p in Module.named_parameters(model):
            self.names.setdefault(id(p), [cleaned(name)])

    def names_of(self, p: Any) -> list[str]:
        """The names of what an optimizer sees as one."""
        if id(p) not in self.names:
            raise ValueError("the optimizer has a parameter that is not one of the model's")
        return self.names[id(p)]


def optim_state_dict(
    model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None
) -> dict[str, Any]:
    """An optimizer's state by names of parameters: whole tensors or DTensors, as the model's settings say."""
    chosen = WrapperState.get_state_dict_type(model)
    kind, config = chosen.state_dict_type, chosen.optim_state_dict_config
    if kind is StateDictType.LOCAL_STATE_DICT:
        raise NotImplementedError("optim_state_dict: LOCAL_STATE_DICT is not written; an optimizer's own state is that")
    is_sharded = kind is StateDictType.SHARDED_STATE_DICT
    return _collected(model, optim, optim_state_dict, is_sharded, config.offload_to_cpu,
                      getattr(config, "rank0_only", False))


def full_optim_state_dict(
    model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
) -> dict[str, Any]:
    """The same with whole tensors, on rank 0 only if asked."""
    return _collected(model, optim, None, False, True, rank0_only)


def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
    """The same with DTensors."""
    return _collected(model, optim, None, True, False, False)


def _collected(model: Module, optim: Any, given: Any, is_sharded: bool, to_host: bool, rank0_only: bool) -> dict:
    places = _Places(model)
    local = given if given is not None else optim.state_dict()
    params = [p for g in optim.param_groups for p in g["params"]]
    ids = [i for g in local["param_groups"] for i in g["params"]]
    state_of = {id(p): local["state"].get(i) for p, i in zip(params, ids)}
    state: dict[str, dict[str, Any]] = {}
    with no_grad():
        for unit, names in places.units:
            if any(id(part) in state_of for part in unit.parts):
                state.update(_of_unit(unit, names, [state_of.get(id(part)) for part in unit.parts], is_sharded))
        for p in params:
            if len(names := places.names_of(p)) == 1 and names[0] not in places.unit_of and state_of[id(p)]:
                state[names[0]] = dict(state_of[id(p)])
    groups = []
    for g in optim.param_groups:
        fields = {k: v for k, v in g.items() if k != "params"}
        groups.append({**fields, "params": [n for p in g["params"] for n in places.names_of(p)]})
    if rank0_only and default_group().rank() != 0:
        return {}
    if to_host:
        for entry in state.values():
            entry.update({k: v.to("cpu") for k, v in entry.items()
                          if isinstance(v, _C.Tensor) and not isinstance(v, DTensor)})
    order = [n for g in groups for n in g["params"] if n in state]
    return {"state": {n: state[n] for n in order}, "param_groups": groups}


def _of_unit(unit: FlatUnit, names: list[str], states: list[Any], is_sharded: bool) -> dict[str, dict[str, Any]]:
    """State of each parameter of a unit. A process may have no piece of one: all agree on what there is."""
    here = {k: (v.dtype if isinstance(v, _C.Tensor) else None, isinstance(v, _C.Tensor) and v.dim() > 0)
            for s in states if s for k, v in s.items()}
    seen: list[Any] = [here]
    if unit.size > 1:
        seen = [None] * unit.size
        all_gather_object(seen, here, group=unit.group)
    kinds = {k: v for theirs in reversed(seen) for k, v in theirs.items()}
    results: dict[str, dict[str, Any]] = {}
    for key, (dtype, is_spread) in kinds.items():
        if not is_spread:
            for i, name in enumerate(names):
                own = states[i] if unit.keeps_names else states[0]
                if own and key in own:
                    value = own[key]
                    results.setdefault(name, {})[key] = value.clone() if isinstance(value, _C.Tensor) else value
            continue
        flat = unit._buffer.new_zeros(unit.length).to(dtype)
        for i, own in enumerate(states):
            if own and key in own:
                flat[unit.piece(i) if unit.keeps_names else slice(None)].copy_(own[key])
        for name, whole in zip(names, unit.gathered(flat)):
            if is_sharded:
                whole = distribute_tensor(whole, _mesh_of(unit), [Shard(0)], src_data_rank=None)
            results.setdefault(name, {})[key] = whole if is_sharded else whole.clone()
    return results


def optim_state_dict_to_load(
    model: Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
    load_directly: bool = False, group: Any = None,
) -> dict[str, Any]:
    """A state by names of parameters as one that this process's optimizer can load."""
    if is_named_optimizer:
        raise NotImplementedError("optim_state_dict_to_load: is_named_optimizer is not written yet")
    result = _for_optimizer(optim_state_dict, model, optim)
    if load_directly:
        optim.load_state_dict(result)
    return result


def shard_full_optim_state_dict(
    full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None, optim: Any = None
) -> dict[str, Any]:
    """This process's part of whole tensors, by numbers of parameters."""
    return _for_optimizer(full_optim_state_dict, model, _known(optim, optim_input))


flatten_sharded_optim_state_dict = shard_full_optim_state_dict


def scatter_full_optim_state_dict(
    full_optim_state_dict: dict[str, Any] | None, model: Module, optim_input: Any = None, optim: Any = None,
    group: Any = None,
) -> dict[str, Any]:
    """The same where rank 0 alone has the whole tensors."""
    box = [full_optim_state_dict]
    broadcast_object_list(box, src=0, group=resolve(group))
    return _for_optimizer(box[0], model, _known(optim, optim_input))      # type: ignore[arg-type]


class _Listed:
    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.param_groups = groups


def _known(optim: Any, given: Any) -> Any:
    """Something with groups of parameters: the optimizer, or what it was made from."""
    if optim is not None:
        return optim
    if given is None:
        raise ValueError("give optim, the optimizer that the state is for")
    listed = list(given)
    return _Listed(listed if listed and isinstance(listed[0], dict) else [{"params": listed}])


def _for_optimizer(whole: dict[str, Any], model: Module, optim: Any) -> dict[str, Any]:
    places = _Places(model)
    state: dict[int, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []
    number = 0
    by_names = {frozenset(g["params"]): g for g in whole["param_groups"]}
    with no_grad():
        for place, g in enumerate(optim.param_groups):
            names = [n for p in g["params"] for n in places.names_of(p)]
            saved = by_names.get(frozenset(names))
            saved = whole["param_groups"][place] if saved is None else saved
            numbers = []
            for p in g["params"]:
                entry = _entry(p, places, whole["state"])
                if entry:
                    state[number] = entry
                numbers.append(number)
                number += 1
            groups.append({**{k: v for k, v in saved.items() if k != "params"}, "params": numbers})
    return {"state": state, "param_groups": groups}


def _entry(p: Any, places: _Places, state: dict[str, Any]) -> dict[str, Any]:
    """State of what an optimizer sees as one parameter."""
    names = places.names_of(p)
    known = [n for n in names if n in state]
    if not known:
        return {}
    if names[0] not in places.unit_of:
        return dict(state[names[0]])
    unit = places.unit_of[names[0]][0]
    results: dict[str, Any] = {}
    for key, value in state[known[0]].items():
        if not isinstance(value, _C.Tensor) or not value.dim():
            results[key] = value
            continue
        flat = unit._buffer.new_zeros(unit.length).to(value.dtype)
        for name in known:
            i = places.unit_of[name][1]
            tensor = state[name][key]
            tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            here = unit.piece(i)
            begin = unit.rank * unit.length + here.start - unit.starts[i]
            flat[here].copy_(tensor.reshape(-1)[begin : begin + here.stop - here.start])
        results[key] = flat[unit.piece(places.unit_of[names[0]][1])].clone() if unit.keeps_names else flat
    return results


def rekeyed(given: dict[str, Any], to_names: bool, model: Module, optim_input: Any, optim: Any) -> dict[str, Any]:
    """Names as keys in place of numbers, or the other way. The model need not be wrapped."""
    places = _Places(model)
    groups = _known(optim, optim_input).param_groups
    names = [places.names_of(p)[0] for g in groups for p in g["params"]]
    table: dict[Any, Any] = dict(enumerate(names)) if to_names else {n: i for i, n in enumerate(names)}
    return {
        "state": {table[k]: v for k, v in given["state"].items()},
        "param_groups": [{**g, "params": [table[k] for k in g["params"]]} for g in given["param_groups"]],
    }
