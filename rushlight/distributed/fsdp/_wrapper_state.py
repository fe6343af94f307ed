"""State dicts of wrapped modules: whole tensors under the names of the module alone, flat parts, or DTensors."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ..device_mesh import DeviceMesh
from ..groups import default_group
from ..tensor import DTensor, Shard, distribute_tensor
from ._flat_unit import FLAT, FlatUnit
from .api import StateDictSettings, StateDictType, settings

_WRAPPED = "_fsdp_wrapped_module."


def cleaned(name: str) -> str:
    """A name without the wrappers in it."""
    return name.replace(_WRAPPED, "").replace("_checkpoint_wrapped_module.", "")


class WrapperState:
    """The part of a wrapper that saves and loads."""

    _state_settings: StateDictSettings | None
    _buffer_types: list[tuple[Module, str, Any]]

    @property
    def _settings(self) -> StateDictSettings:
        return self._state_settings or settings(StateDictType.FULL_STATE_DICT)

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Say what state dicts of all wrappers in a module hold; the settings before."""
        chosen = settings(state_dict_type, state_dict_config, optim_state_dict_config)
        before = WrapperState.get_state_dict_type(module)
        for m in module.modules():
            if isinstance(m, WrapperState):
                m._state_settings = chosen
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What state dicts of the wrappers in a module hold."""
        found = [m._settings for m in module.modules() if isinstance(m, WrapperState)]
        for other in found[1:]:
            if other != found[0]:
                raise AssertionError("get_state_dict_type: wrappers in this module have different settings")
        return found[0] if found else settings(StateDictType.FULL_STATE_DICT)

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Generator[None, None, None]:
        """Inside, state dicts hold what is said."""
        before = WrapperState.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            WrapperState.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config
            )

    def _register_state_hooks(self) -> None:
        self._register_load_state_dict_pre_hook(self._before_load)      # type: ignore[attr-defined]
        self.register_load_state_dict_post_hook(_after_load)            # type: ignore[attr-defined]

    # --- saving

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The module's state, as the settings say."""
        unit: FlatUnit | None = self._unit      # type: ignore[attr-defined]
        kind = self._settings.state_dict_type
        is_local = kind is StateDictType.LOCAL_STATE_DICT
        if is_local and unit is not None and unit.keeps_names:
            raise NotImplementedError("state_dict: LOCAL_STATE_DICT does not go with use_orig_params=True")
        if unit is not None and not is_local:
            with no_grad():
                unit.gather()
        elif unit is not None:
            unit.free()
        before = set(destination) if destination is not None else set()
        result = super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)  # type: ignore[misc]
        inner = prefix + _WRAPPED
        for key in [k for k in result if k.startswith(inner) and k not in before]:
            result[prefix + key[len(inner) :]] = result.pop(key)
        if unit is not None and not is_local:
            self._keep_own(result, prefix, unit, kind)
            unit.free()
        for module, name, dtype in self._buffer_types:      # saved in the types that they had
            place = module._buffers[name].data_ptr()
            for key, value in result.items():
                if isinstance(value, Tensor) and not isinstance(value, DTensor) and value.data_ptr() == place:
                    result[key] = value.to(dtype)
        return result

    def _keep_own(self, result: Any, prefix: str, unit: FlatUnit, kind: StateDictType) -> None:
        """Whole tensors of this wrapper are copied before their memory goes."""
        config = self._settings.state_dict_config
        is_left_out = getattr(config, "rank0_only", False) and default_group().rank() != 0
        memory = unit._flat.untyped_storage().data_ptr()
        mesh = None
        for key in list(result):
            value = result[key]
            if isinstance(value, DTensor) or not hasattr(value, "untyped_storage"):
                continue
            if not value.numel() or value.untyped_storage().data_ptr() != memory:
                if is_left_out and key.startswith(prefix):
                    del result[key]
                continue
            if is_left_out:
                del result[key]
            elif kind is StateDictType.SHARDED_STATE_DICT:
                mesh = mesh or _mesh_of(unit)
                result[key] = distribute_tensor(
                    value.detach().to(unit._buffer.dtype), mesh, [Shard(0)], src_data_rank=None
                )
            else:
                copy = value.detach().to(unit._buffer.dtype, copy=True)
                result[key] = copy.to("cpu") if config.offload_to_cpu else copy

    # --- loading

    def _before_load(self, state_dict: Any, prefix: str, *_: Any) -> None:
        unit: FlatUnit | None = self._unit      # type: ignore[attr-defined]
        inner = prefix + _WRAPPED
        for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(inner)]:
            value = state_dict.pop(key)
            state_dict[inner + key[len(prefix) :]] = value
        if unit is None:
            return
        if any(k.endswith(FLAT) for k in state_dict if k.startswith(inner)):
            unit.free()
            return
        with no_grad():
            unit.gather()
            for key in [k for k in state_dict if k.startswith(inner)]:
                if isinstance(state_dict[key], DTensor):
                    state_dict[key] = state_dict[key].full_tensor()


def _after_load(module: Any, incompatible: Any) -> None:
    unit = module._unit
    if unit is not None and unit.is_whole:
        with no_grad():
            unit.write_back()
        unit.free()
    for names in incompatible:
        names[:] = [cleaned(name) for name in names]


def _mesh_of(unit: FlatUnit) -> DeviceMesh:
    group = unit.group if unit.group is not None else unit.replicas
    return DeviceMesh.from_group(group, unit.device.type)
