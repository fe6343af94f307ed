"""What all sparsifiers of models share: which tensors, their masks, when masks are made anew, how they are baked in."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from typing import Any

from ...._C import Tensor
from ....autograd.grad_mode import no_grad
from ....nn import Linear, Module
from ....nn.utils import parametrize
from ....op import find_op
from .utils import FakeSparsity, get_arg_info_from_tensor_fqn, module_contains_param, module_to_fqn, swap_module

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES: set[type] = {Linear}
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Masks tensors of a model; subclasses say which entries (`update_mask`).

    `defaults` are the settings of tensors whose config names none.
    """

    model: Module

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.enable_mask_update = True
        self.groups: list[dict[str, Any]] = []
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.defaults: dict[str, Any] = defaults if defaults else {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("groups", "state", "defaults")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.groups):
            rest = {key: group[key] for key in sorted(group) if key != "module"}
            text += listing(f"Group {number}", {"module": group["module"], **rest})
        return text + ")"

    def state_dict(self) -> dict[str, Any]:
        """Masks by tensor name under "state", and the settings of each tensor under "groups"; no modules."""
        groups = [{k: v for k, v in group.items() if k not in KEYS_NOT_IN_STATE_DICT} for group in self.groups]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take masks and settings for the model this sparsifier was prepared with."""
        groups = copy.deepcopy(state_dict["groups"])
        states = state_dict["state"]
        for tensor_fqn, state in states.items():
            info = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            if strict and info["module"] is None:
                raise RuntimeError(f"Error loading {tensor_fqn} into the model: it has no such module")
            masked = _masked_by(info["module"], info["tensor_name"])
            if state.get("mask") is not None:
                masked.mask = state.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(info)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(self, model: Module, SUPPORTED_MODULES: set[type] = SUPPORTED_MODULES) -> None:
        """Let the config be the weights of all modules of the supported classes, outermost first."""
        self.config: Any = []
        waiting = [model]
        while waiting:
            for _, child in waiting.pop().named_children():
                if type(child) in SUPPORTED_MODULES:
                    self.config.append({"tensor_fqn": f"{module_to_fqn(model, child)}.weight"})
                else:
                    waiting.append(child)

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Parametrize the tensors that a config names (dicts with "tensor_fqn" and settings); None: all supported."""
        self.model = model
        self.config = config
        if self.config is None:
            self.make_config_from_model(model)
        self.groups += [self._group_of(model, entry) for entry in self.config]
        self._prepare()

    def _group_of(self, model: Module, entry: Any) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise AssertionError(
                "config: expected dicts such as {'tensor_fqn': 'foo.bar.weight'}, not modules;"
                f" got {type(entry).__name__}"
            )
        if not isinstance(self.defaults, dict):
            raise AssertionError(f"defaults: expected a dict, got {type(self.defaults).__name__}")
        group = {**copy.deepcopy(self.defaults), **entry}
        tensor_fqn = group.get("tensor_fqn")
        if tensor_fqn is None:
            raise AssertionError("config: tensor_fqn is a required argument of each entry, as in 'foo.bar.weight'")
        info = get_arg_info_from_tensor_fqn(model, tensor_fqn)
        for key, found in info.items():
            if key in group and found != group[key]:
                raise AssertionError(f"config: `{key}` and `tensor_fqn` {tensor_fqn!r} say two things; they must agree")
        return {**group, **info}

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for config in self.groups:
            whole = find_op("ones_like")(getattr(config["module"], config["tensor_name"]))
            self._masked(config, config.get("mask", whole), FakeSparsity)

    def _masked(self, config: dict[str, Any], mask: Tensor, usual: type[Module]) -> None:
        """Note the mask of a group's tensor, and let the group's parametrization, or the usual one, apply it."""
        self.state[config["tensor_fqn"]]["mask"] = mask
        applied = config.get("parametrization", usual)(mask)
        parametrize.register_parametrization(config["module"], config["tensor_name"], applied)

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Bake the masks into the tensors. Settings named, for all or by module path, stay in `sparse_params`."""
        for config in self.groups:
            module = config["module"]
            parametrize.remove_parametrizations(module, config["tensor_name"], leave_parametrized=True)
            kept = [*(params_to_keep or ()), *((params_to_keep_per_layer or {}).get(config["module_fqn"]) or ())]
            if kept:
                module.sparse_params = {key: config[key] for key in kept}

    def convert(
        self,
        module: Module,
        mapping: dict[type[Module], type[Module]] | None = None,
        inplace: bool = False,
        parameterization: type[Module] = FakeSparsity,
    ) -> Module:
        """The model with its sparse modules swapped for those of the mapping, which have a `from_dense`."""
        if mapping is None:
            raise NotImplementedError("mapping: expected a dict from float to sparse module classes, got None")
        module = module if inplace else copy.deepcopy(module)
        for name, child in list(module.named_children()):
            if module_contains_param(child, parameterization) and (
                parametrize.type_before_parametrizations(child) in mapping
            ):
                module._modules[name] = swap_module(child, mapping)
            else:
                self.convert(child, mapping=mapping, inplace=True, parameterization=parameterization)
        return module

    def step(self, use_path: bool = True) -> None:
        """Make all masks anew, unless `enable_mask_update` is off."""
        if not self.enable_mask_update:
            return
        with no_grad():
            for config in self.groups:
                self.update_mask(**config)

    @abc.abstractmethod
    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Write the mask of one tensor; the settings of its group come by keyword."""


def _masked_by(module: Any, tensor_name: str) -> Any:
    """The parametrization that masks a tensor: the one there is, or a new one."""
    for found in module.parametrizations[tensor_name]:
        if isinstance(found, FakeSparsity):
            return found
    new = FakeSparsity(find_op("ones")(getattr(module, tensor_name).shape))
    parametrize.register_parametrization(module, tensor_name, new)
    return new


def listing(title: str, settings: dict[str, Any]) -> str:
    """A titled list of settings, as the printed forms of sparsifiers have them."""
    return "".join([f"\n\t{title}\n", *(f"\t    {key}: {value}\n" for key, value in settings.items())])


def mask_of(module: Any, tensor_name: str) -> Tensor:
    """The mask of a prepared tensor."""
    return getattr(module.parametrizations, tensor_name)[0].mask
