"""The inputs of layers masked by what was seen of them.

Enters: a model, layers of it, and three functions: how inputs are gathered, reduced and made a mask. Leaves: masks
after `step`, and, after `squash_mask`, layers whose inputs are masked. Refuses layers of other models.
"""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ....._C import Tensor, int64
from .....autograd.grad_mode import no_grad
from .....nn import Module
from .....op import find_op
from ...sparsifier.base_sparsifier import listing
from ...sparsifier.utils import fqn_to_module, module_to_fqn

__all__ = ["ActivationSparsifier"]

_Function = Callable[..., Any] | None
_FUNCTIONS = ("aggregate_fn", "reduce_fn", "mask_fn")


class ActivationSparsifier:
    """Masks inputs of layers, whole or for some `features` of `feature_dim` each by itself.

    `aggregate_fn(gathered, input)` gathers, `reduce_fn(gathered)` sums up, `mask_fn(reduced, **sparse_config)` decides.
    What is given here stands for layers that are registered without their own.
    """

    def __init__(
        self, model: Module, aggregate_fn: _Function = None, reduce_fn: _Function = None, mask_fn: _Function = None,
        features: list[int] | None = None, feature_dim: int | None = None, **sparse_config: Any,
    ) -> None:
        functions = zip(_FUNCTIONS, (aggregate_fn, reduce_fn, mask_fn))
        self.model = model
        self.state: dict[str, Any] = defaultdict(dict)
        self.data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        self.defaults: dict[str, Any] = defaultdict(
            None, functions, features=features, feature_dim=feature_dim, sparse_config=sparse_config
        )

    @staticmethod
    def _safe_rail_checks(args: dict[str, Any]) -> None:
        if args["features"] is not None and args["feature_dim"] is None:
            raise AssertionError(f"feature_dim: features {args['features']} are places of a dim, and none is given")
        for key in _FUNCTIONS:
            if not callable(args[key]):
                raise AssertionError(f"{key}: expected a function, got {args[key]}")

    def register_layer(
        self, layer: Module, aggregate_fn: _Function = None, reduce_fn: _Function = None, mask_fn: _Function = None,
        features: list[int] | None = None, feature_dim: int | None = None, **sparse_config: Any,
    ) -> None:
        """Watch the inputs of a layer of the model from now on."""
        name = self._name_of(layer)
        if name in self.data_groups:
            warnings.warn(f"{name}: already attached to the sparsifier, registered anew", stacklevel=2)
            self.unregister_layer(name)
        given = {"layer": layer, "features": features, "feature_dim": feature_dim}
        given.update(zip(_FUNCTIONS, (aggregate_fn, reduce_fn, mask_fn)))
        settings = copy.deepcopy(self.defaults)
        settings.update((key, value) for key, value in given.items() if value is not None)
        settings["sparse_config"].update(sparse_config)
        self._safe_rail_checks(settings)
        self.data_groups[name] = settings
        hook = layer.register_forward_pre_hook(self._aggregate_hook(name=name))
        self.state[name]["mask"] = None
        settings.update(hook=hook, hook_state="aggregate")

    def _aggregate_hook(self, name: str) -> Callable[..., None]:
        """A hook that gathers the inputs of a layer, and begins with masks of ones."""
        settings = self.data_groups[name]
        features, dim, gather = settings["features"], settings["feature_dim"], settings["aggregate_fn"]

        def hook(module: Module, input: Any) -> None:
            gathered = self.data_groups[name].get("data")
            parts = [input[0]] if features is None else [_feature(input[0], dim, index) for index in features]
            if gathered is None:
                before = [find_op("zeros_like")(part) for part in parts]
                masks = [find_op("ones_like")(part) for part in parts]
                self.state[name]["mask"] = masks[0] if features is None else masks
            else:
                before = [gathered] if features is None else gathered
            after = [gather(old, new) for old, new in zip(before, parts)]
            self.data_groups[name]["data"] = after[0] if features is None else after

        return hook

    def get_mask(self, name: str | None = None, layer: Module | None = None) -> Any:
        """The mask of a layer, by name or itself; a list of masks where it has features."""
        if name is None:
            if layer is None:
                raise AssertionError("get_mask: expected a name or a layer, got neither")
            name = self._name_of(layer)
        if name not in self.state:
            raise ValueError(f"no layer is registered under the name {name!r}")
        mask = self.state[name].get("mask")
        if mask is None:
            raise ValueError(f"{name!r} has no mask yet: its shape is that of the first input of the layer")
        return mask

    def _name_of(self, layer: Module) -> str:
        name = module_to_fqn(self.model, layer)
        if name is None:
            raise AssertionError(f"layer: this {type(layer).__name__} is not in the model")
        return name

    def unregister_layer(self, name: str) -> None:
        """Forget a layer."""
        settings = self.data_groups.pop(name)
        settings["hook"].remove()
        del self.state[name]

    def step(self) -> None:
        """Make the masks of all layers from what was gathered, and gather anew."""
        with no_grad():
            for name, configs in self.data_groups.items():
                self.update_mask(name, configs["data"], configs)
                configs.pop("data")

    def update_mask(self, name: str, data: Any, configs: dict[str, Any]) -> None:
        """Write the mask of one layer."""
        mask = self.get_mask(name)
        pairs = [(mask, data)] if configs["features"] is None else zip(mask, data)
        for one, gathered in pairs:
            one.data = configs["mask_fn"](configs["reduce_fn"](gathered), **configs["sparse_config"])

    def _sparsify_hook(self, name: str) -> Callable[..., Tensor]:
        """A hook that masks the inputs of a layer."""
        mask = self.get_mask(name)
        features, dim = self.data_groups[name]["features"], self.data_groups[name]["feature_dim"]

        def hook(module: Module, input: Any) -> Tensor:
            data = input[0]
            if features is None:
                return data * mask
            for index, part in zip(features, mask):
                data.index_copy_(dim, _index(data, index), _feature(data, dim, index) * part)
            return data

        return hook

    def squash_mask(self, attach_sparsify_hook: bool = True, **kwargs: Any) -> None:
        """Watch no more; with `attach_sparsify_hook`, mask the inputs of the layers from now on."""
        for name, configs in self.data_groups.items():
            configs.pop("hook").remove()
            if attach_sparsify_hook:
                masking = self._sparsify_hook(name)
                configs["hook"] = configs["layer"].register_forward_pre_hook(masking)
            configs["hook_state"] = "sparsify"

    def _get_serializable_data_groups(self) -> dict[str, Any]:
        groups: dict[str, Any] = defaultdict()
        for name, config in self.data_groups.items():
            groups[name] = {key: value for key, value in config.items() if key not in ("hook", "layer")}
        return groups

    def state_dict(self) -> dict[str, Any]:
        """Masks as sparse tensors under "state", settings under "data_groups" and "defaults"; no hooks, no layers."""
        return {
            "state": _converted(self.state, sparse=True),
            "data_groups": self._get_serializable_data_groups(),
            "defaults": self.defaults,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take masks and settings, and put hooks on the layers they name."""
        self.__set_state__({key: state_dict[key] for key in ("state", "data_groups", "defaults")})

    def __get_state__(self) -> dict[str, Any]:
        return self.state_dict()

    def __set_state__(self, state: dict[str, Any]) -> None:
        state["state"] = _converted(state["state"], sparse=False)
        self.__dict__.update(state)
        hooks = {"aggregate": self._aggregate_hook, "sparsify": self._sparsify_hook}
        for name, config in self.data_groups.items():
            config["layer"] = layer = fqn_to_module(self.model, name)
            if layer is None:
                raise AssertionError(f"the model has no layer {name}, for which the state has a mask")
            config["hook"] = layer.register_forward_pre_hook(hooks[config["hook_state"]](name))

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        left_out = ("data", "hook", *_FUNCTIONS)
        for name, config in self.data_groups.items():
            rest = {key: config[key] for key in sorted(config) if key not in left_out}
            text += listing("Data Group", {"name": name, **rest})
        return text + ")"


def _index(data: Tensor, index: int) -> Tensor:
    return find_op("full")((1,), index, dtype=int64, device=data.device)


def _feature(data: Tensor, dim: int, index: int) -> Tensor:
    """One feature of the data, its dim kept."""
    return find_op("index_select")(data, dim, _index(data, index))


def _converted(states: dict[str, Any], *, sparse: bool) -> dict[str, Any]:
    """A copy of the states with the masks in the other layout."""
    states = copy.deepcopy(states)
    for state in states.values():
        mask = state["mask"]
        if isinstance(mask, list):
            state["mask"] = [one.to_sparse_coo() if sparse else one.to_dense() for one in mask]
        elif mask is not None:
            state["mask"] = mask.to_sparse_coo() if sparse else mask.to_dense()
    return states
