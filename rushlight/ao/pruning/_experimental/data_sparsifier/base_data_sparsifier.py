"""What sparsifiers of data share: a container of named tensors, each masked by a parametrization."""

from __future__ import annotations

import abc
import copy
import warnings
from collections import defaultdict
from typing import Any

from ....._C import Tensor
from .....autograd.grad_mode import no_grad
from .....nn import Embedding, EmbeddingBag, Module, Parameter
from .....nn.utils import parametrize
from .....op import find_op
from ...sparsifier.base_sparsifier import BaseSparsifier, listing
from ...sparsifier.utils import FakeSparsity

__all__ = ["BaseDataSparsifier"]

EMBEDDING_TYPES: set[type] = {Embedding, EmbeddingBag}
SUPPORTED_TYPES: set[type] = {Tensor, Parameter, *EMBEDDING_TYPES}


class _Container(Module):
    """Holds the data, masked."""


class BaseDataSparsifier(BaseSparsifier):
    """Masks tensors, parameters and the weights of embeddings, by name; subclasses say which entries (`update_mask`).

    `data_list` holds (name, data) pairs; `defaults` are the settings of data that names none.
    """

    def __init__(self, data_list: list[tuple[str, Any]] | None = None, **defaults: Any) -> None:
        super().__init__(defaults=defaults)
        self._container: Any = _Container()
        self.data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, data in data_list or ():
            self.add_data(name, data, **self.defaults)

    def prepare(self, model: Any, config: Any) -> None:
        """Refuses: there is no model. Use `add_data`."""
        raise NotImplementedError(f"{type(self).__name__} has no model to prepare; give it data with add_data()")

    def _extract_weight(self, data: Any) -> Any:
        return data.weight if type(data) in EMBEDDING_TYPES else data

    def add_data(self, name: str, data: Any, reuse_mask: bool = True, **config: Any) -> Tensor:
        """Take a tensor under a name, masked. A name there is keeps its settings, and with `reuse_mask` its mask."""
        if type(data) not in SUPPORTED_TYPES:
            raise AssertionError(
                f"data: expected a Tensor, a Parameter, an Embedding or an EmbeddingBag, got {type(data)}"
            )
        weight = self._extract_weight(data)
        settings = {**copy.deepcopy(self.defaults), **config}
        mask = settings.get("mask", find_op("ones_like")(weight))
        made_by = settings.get("parametrization", FakeSparsity)
        if name in self.state:
            warnings.warn(f"{name}: the data there was under this name is replaced", stacklevel=2)
            settings = {**copy.deepcopy(self.data_groups[name]), **config}
            if reuse_mask:
                if weight.shape != self.get_data(name=name).shape:
                    raise AssertionError(
                        f"{name}: to keep the old mask, the new data must have the shape"
                        f" {tuple(self.get_data(name=name).shape)}, got {tuple(weight.shape)}"
                    )
                mask = self.get_mask(name=name)
            self._delete_data(name=name)
        self._hold(name, weight, made_by(mask))
        self.data_groups[name], self.state[name]["mask"] = settings, mask
        return getattr(self._container, name)

    def _hold(self, name: str, data: Tensor, masked_by: Module) -> None:
        """Put data into the container, masked."""
        self._container.register_buffer(name, data)
        parametrize.register_parametrization(self._container, name, masked_by)

    def get_data(self, name: str, return_original: bool = True) -> Tensor:
        """The data under a name: as it was given, or masked."""
        if name not in self.data_groups:
            raise ValueError(f"no data was added under the name {name!r}")
        if not return_original:
            return getattr(self._container, name)
        if not parametrize.is_parametrized(self._container, name):
            raise ValueError(f"{name}: its mask is squashed, so the original data does not exist any more")
        return getattr(self._container.parametrizations, name).original

    def get_mask(self, name: str) -> Tensor:
        """The mask of the data under a name."""
        held = self.state.get(name)
        if held is None:
            raise ValueError(f"no data was added under the name {name!r}")
        return held["mask"]

    def state_dict(self) -> dict[str, Any]:
        """Masks as sparse tensors under "state", settings under "data_groups", the data under "_container"."""
        return {
            "state": _converted(self.state, sparse=True),
            "data_groups": self.data_groups,
            "_container": self._container.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take masks, settings and data; with `strict` they replace what is there, else what is there goes before."""
        states = _converted(state_dict["state"], sparse=False)
        data_groups = copy.deepcopy(state_dict["data_groups"])
        if strict:
            self._container = _Container()
        self._load_container_from_state(states, data_groups, copy.deepcopy(state_dict["_container"]))
        if not strict:
            states.update(self.state)
            data_groups.update(self.data_groups)
        self.__setstate__({"state": states, "data_groups": data_groups})

    def _load_container_from_state(self, states: Any, data_groups: Any, container_state_dict: Any) -> None:
        for name, state in states.items():
            masked = f"parametrizations.{name}.original"
            if data_groups.get(name) is None or not {name, masked} & set(container_state_dict):
                raise RuntimeError(f"Error loading {name}: the state holds no settings or no data for it")
            is_masked = name not in container_state_dict
            data = container_state_dict[masked if is_masked else name]
            if not is_masked:
                self._container.register_buffer(name, data)
                continue
            mask = state["mask"] if "mask" in state else find_op("ones_like")(data)
            self._hold(name, data, data_groups[name].get("parametrization", FakeSparsity)(mask))

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_container" in state:
            state = {**state, "state": _converted(state["state"], sparse=False)}
            self._container = _Container()
            self._load_container_from_state(state["state"], state["data_groups"], state.pop("_container"))
        self.__dict__.update(state)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, **self.state_dict()}

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for name, settings in self.data_groups.items():
            rest = {key: settings[key] for key in sorted(settings) if key != "data"}
            text += listing("Data Group", {"name": name, **rest})
        return text + ")"

    def squash_mask(  # type: ignore[override]
        self, *args: Any, leave_parametrized: bool = True, names: list[str] | None = None, **kwargs: Any
    ) -> None:
        """Bake the masks into the data under these names, or all; without `leave_parametrized`, drop them."""
        for name in list(self.data_groups) if names is None else names:
            parametrize.remove_parametrizations(self._container, name, leave_parametrized=leave_parametrized)

    def step(self) -> None:  # type: ignore[override]
        """Make all masks anew, unless `enable_mask_update` is off."""
        if not self.enable_mask_update:
            return
        with no_grad():
            for name, config in self.data_groups.items():
                self.update_mask(name, self.get_data(name), **config)

    @abc.abstractmethod
    def update_mask(self, name: str, data: Tensor, **kwargs: Any) -> None:  # type: ignore[override]
        """Write the mask of the data under a name; its settings come by keyword."""

    def _delete_data(self, name: str) -> None:
        self.squash_mask(names=[name], leave_parametrized=False)
        del self.data_groups[name], self.state[name]
        delattr(self._container, name)


def _converted(states: dict[str, Any], *, sparse: bool) -> dict[str, Any]:
    """A copy of the states with the masks in the other layout."""
    states = copy.deepcopy(states)
    for state in states.values():
        state["mask"] = state["mask"].to_sparse_coo() if sparse else state["mask"].to_dense()
    return states
