"""Questions to a `BackendConfig`: what it maps a pattern or a module class to.

Enters: a config. Leaves: mappings, by pattern (last to first, as graphs are matched) or by class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....nn import functional as F  # noqa: N812
from ..fuser_method_mappings import _reverse2, _reverse3
from .backend_config import BackendConfig, BackendPatternConfig, Patterns, inner_format

__all__ = [
    "entry_to_pretty_str", "get_fused_module_classes", "get_fuser_method_mapping",
    "get_fusion_pattern_to_extra_inputs_getter", "get_fusion_pattern_to_root_node_getter", "get_module_to_qat_module",
    "get_pattern_to_dtype_configs", "get_pattern_to_input_type_to_index", "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module", "pattern_to_human_readable", "remove_boolean_dispatch_from_name",
]

_get_pattern_in_reversed_nested_tuple_format = inner_format


def _asked(backend_config: BackendConfig, field: str) -> Patterns:
    """A setting of each pattern that has it."""
    items = backend_config._pattern_complex_format_to_config.items()
    return Patterns((p, getattr(config, field)) for p, config in items if getattr(config, field) is not None)


def get_pattern_to_dtype_configs(backend_config: BackendConfig) -> Patterns:
    """The combinations of types of each pattern."""
    return _asked(backend_config, "dtype_configs")


def get_pattern_to_input_type_to_index(backend_config: BackendConfig) -> Patterns:
    """Which argument of each pattern is its weight, which its bias."""
    return _asked(backend_config, "_input_type_to_index")


def get_module_to_qat_module(backend_config: BackendConfig) -> Patterns:
    """The class each pattern is trained as."""
    return _asked(backend_config, "qat_module")


def get_fusion_pattern_to_root_node_getter(backend_config: BackendConfig) -> Patterns:
    """How the node with the weight is found, where it is not the last of the nodes matched."""
    return _asked(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config: BackendConfig) -> Patterns:
    """How inputs of the fused module besides the root's are found."""
    return _asked(backend_config, "_extra_inputs_getter")


def get_qat_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """All classes that patterns are trained as."""
    return tuple({c.qat_module for c in backend_config.configs if c.qat_module is not None})


def get_fused_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """All classes that fusing makes."""
    return tuple({c.fused_module for c in backend_config.configs if c.fused_module is not None})


def get_root_module_to_quantized_reference_module(backend_config: BackendConfig) -> dict[type, type]:
    """The reference class of each class with weights."""
    return {
        c.root_module: c.reference_quantized_module
        for c in backend_config.configs
        if c.root_module is not None and c.reference_quantized_module is not None
    }


def get_fuser_method_mapping(backend_config: BackendConfig) -> Patterns:
    """The fuser of each pattern that can be fused, taking the modules in the form of the pattern: last to first."""
    items = backend_config._pattern_complex_format_to_config.items()
    return Patterns(
        (p, _get_fuser_method_in_reversed_nested_tuple_format(config))
        for p, config in items
        if config.fuser_method is not None
    )


def _get_fuser_method_in_reversed_nested_tuple_format(config: BackendPatternConfig) -> Callable:
    """The fuser of a config, for modules last to first."""
    fuser = config.fuser_method
    if fuser is None:
        raise AssertionError("this config has no fuser_method")
    if config._pattern_complex_format is not None:
        return fuser
    match config.pattern:
        case (_, _):
            return _reverse2(fuser)
        case (_, _, _):
            return _reverse3(fuser)
    raise ValueError(f"fuser_method: expected a pattern of 2 or 3 elements, got {config.pattern}")


_DISPATCHED = tuple(
    f"{kind}{d}d" for kind, dims in (("fractional_max_pool", (2, 3)), ("max_pool", (1, 2, 3)),
                                     ("adaptive_max_pool", (1, 2, 3))) for d in dims
)


def remove_boolean_dispatch_from_name(p: Any) -> Any:
    """The full name of a pool that may return indices; anything else as it is."""
    return next((f"torch.nn.functional.{name}" for name in _DISPATCHED if p is getattr(F, name)), p)


def pattern_to_human_readable(p: Any) -> Any:
    """A pattern with such names in it."""
    if isinstance(p, tuple):
        return tuple(map(pattern_to_human_readable, p))
    return p if isinstance(p, str) else remove_boolean_dispatch_from_name(p)


def entry_to_pretty_str(entry: dict[str, Any]) -> str:
    """A pattern's dictionary as text, one setting on a line."""
    counts = "num_tensor_args_to_observation_type"
    lines = ["{"]
    if "pattern" in entry:
        lines.append(f"  'pattern': {pattern_to_human_readable(entry['pattern'])},")
    if "dtype_configs" in entry:
        lines.append("  'dtype_configs': [")
        for config in entry["dtype_configs"]:
            lines += ["    {", *(f"      '{key}': {value}," for key, value in config.items()), "    },"]
        lines.append("  ],")
    if counts in entry:
        lines += [f"  '{counts}': {{", *(f"    {key}: {value}," for key, value in entry[counts].items()), "  },"]
    said = ("pattern", "dtype_configs", counts)
    lines += [f"  '{key}': {value}," for key, value in entry.items() if key not in said]
    return "\n".join([*lines, "}"])


