"""What the C++ layers and optimizers ask of Python's: how they are made, changed, called and printed.

Enters: calls from rushlight/cxx/runtime/faces.cpp and optimizers. Leaves: modules of rushlight.nn, optimizers of
rushlight.optim, texts. Refuses options that a layer cannot change once it is made.
"""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakKeyDictionary

from .. import _C, nn, optim
from ..nn.utils.rnn import PackedSequence
from ..op import find_op
from ..optim.lr_scheduler import ReduceLROnPlateau
from ..optim.rule import new_scalar

Listed = list[tuple[str, Any]]
_options: WeakKeyDictionary[nn.Module, dict[str, Any]] = WeakKeyDictionary()  # as C++ gave them last


def build(name: str, words: dict[str, Any]) -> nn.Module:
    """The layer of this name with these options."""
    module = getattr(nn, name)(**words)
    _options[module] = words
    return module


def contents(module: nn.Module) -> tuple[Listed, Listed, list[tuple[str, nn.Module, str]]]:
    """The layer's own parameters and buffers, and its parts with the name of the class that C++ knows."""
    parts = [(name, part, face_name(part)) for name, part in module._modules.items() if part is not None]
    return list(module._parameters.items()), list(module._buffers.items()), parts


def face_name(module: nn.Module) -> str:
    """The public class that a part is of or derives from."""
    return next(c.__name__ for c in type(module).__mro__ if getattr(nn, c.__name__, None) is c)


def retune(module: nn.Module, words: dict[str, Any]) -> None:
    """Take over options that were set in C++ after the layer was made; RuntimeError for one that shaped it."""
    before = _options.get(module, {})
    for name, value in words.items():
        old = before.get(name)
        if name in before and (old is value or (not isinstance(value, _C.Tensor) and old == value)):
            continue
        if name in vars(module) and name != "activation":  # transformers choose their path by it
            setattr(module, name, value)
        elif name in before:
            raise RuntimeError(
                f"{type(module).__name__}: the option {name} cannot change after the layer is made. "
                "Set it before, or call reset(), which makes the layer anew"
            )
    _options[module] = words


def replace(module: nn.Module, name: str, tensor: _C.Tensor | None) -> None:
    """Let a tensor assigned to a field of the C++ layer take the place of the registered one."""
    if name in module._buffers:
        module._buffers[name] = tensor
        return
    if tensor is None or isinstance(tensor, nn.Parameter):
        module._parameters[name] = tensor
        return
    module._parameters.pop(name, None)
    object.__setattr__(module, name, tensor)


def replace_part(module: nn.Module, name: str, part: nn.Module | list[nn.Module]) -> None:
    """Let a layer put into a holder of the C++ layer, or the layers of a list, take the place of a part."""
    if isinstance(part, list):
        items = [nn.Sequential(*item) if isinstance(item, list) else item for item in part]
        part = nn.Sequential(*items) if isinstance(module._modules[name], nn.Sequential) else nn.ModuleList(items)
    module._modules[name] = part


def reset_parameters(module: nn.Module) -> None:
    """Draw the parameters anew."""
    if not hasattr(module, "reset_parameters"):
        raise RuntimeError(f"{type(module).__name__} has no parameters that could be drawn anew")
    module.reset_parameters()


def with_indices(pool: nn.Module, input: _C.Tensor) -> tuple[_C.Tensor, _C.Tensor]:
    """What a pooling layer gives with `return_indices`."""
    before, pool.return_indices = pool.return_indices, True
    try:
        return pool(input)
    finally:
        pool.return_indices = before


def causal_mask(size: int) -> _C.Tensor:
    """The mask of a transformer that sees no later position."""
    return nn.Transformer.generate_square_subsequent_mask(size)


def packed(data: _C.Tensor, sizes: _C.Tensor, order: _C.Tensor | None, back: _C.Tensor | None) -> PackedSequence:
    """Python's packed sequence."""
    return PackedSequence(data, sizes, order, back)


def printed(module: nn.Module) -> str:
    """The layer as C++ streams print it: Python's text with C++'s values."""
    text = module.extra_repr()
    text = re.sub(r"\((-?[\d.e-]+),\)", r"\1", text)  # one dimension: the number
    text = re.sub(r"\((-?[\d.e-]+(?:, -?[\d.e-]+)+),?\)", r"[\1]", text)
    text = re.sub(r"\b(True|False)\b", lambda found: found.group().lower(), text)
    has_parts = any(part is not None for part in module._modules.values())
    return f"torch::nn::{face_name(module)}" + ("" if has_parts and not text else f"({text})")


# --- optimizers -------------------------------------------------------------------------------------------------------


def make_optimizer(name: str, groups: list[tuple[list[_C.Tensor], dict[str, Any]]]) -> optim.Optimizer:
    """The optimizer of this name over groups of parameters, each with its options."""
    listed = [{"params": params, **_said(words)} for params, words in groups]
    defaults = _said(groups[0][1]) if groups else {}  # those that follow from others are chosen by the constructor
    return getattr(optim, name)(listed, **defaults)


def add_group(optimizer: optim.Optimizer, params: list[_C.Tensor], words: dict[str, Any]) -> None:
    """One more group of parameters."""
    optimizer.add_param_group({"params": params, **_said(words)})


def set_group(optimizer: optim.Optimizer, place: int, params: list[_C.Tensor], words: dict[str, Any]) -> None:
    """Take over what was set in C++ for a group."""
    optimizer.param_groups[place].update(_said(words), params=params)


def _said(words: dict[str, Any]) -> dict[str, Any]:
    """The options that have a value; the others are the optimizer's choice."""
    return {name: value for name, value in words.items() if value is not None}


def group_options(optimizer: optim.Optimizer, place: int) -> dict[str, Any]:
    """The options of a group."""
    return {name: value for name, value in optimizer.param_groups[place].items() if name != "params"}


def state_of(optimizer: optim.Optimizer, parameter: _C.Tensor) -> dict[str, Any]:
    """What the optimizer keeps of one parameter."""
    return optimizer.state.get(parameter, {})


def set_state(optimizer: optim.Optimizer, parameter: _C.Tensor, words: dict[str, Any] | None) -> None:
    """Take over what C++ says of a parameter's state; what has no value goes, and all of it without words."""
    if words is None:
        optimizer.state.pop(parameter, None)
        return
    state = optimizer.state[parameter]
    for name, value in words.items():
        if value is None:
            state.pop(name, None)
        elif name == "step":  # a number there, a tensor here
            group = next(group for group in optimizer.param_groups if any(p is parameter for p in group["params"]))
            state[name] = state[name].fill_(value) if name in state else new_scalar(group, parameter, value)
        else:
            state[name] = value


def plateau(count: int, words: dict[str, Any]) -> ReduceLROnPlateau:
    """A scheduler over groups that carry nothing but rates."""
    groups = [{"params": [find_op("zeros")(1)], "lr": 1.0} for _ in range(count)]
    return ReduceLROnPlateau(optim.SGD(groups), **{**words, "min_lr": list(words["min_lr"])})


def plateau_step(scheduler: ReduceLROnPlateau, metric: float, rates: tuple[float, ...]) -> list[float]:
    """The rates after one more metric."""
    groups = scheduler.optimizer.param_groups
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate
    scheduler.step(metric)
    return [float(group["lr"]) for group in groups]
