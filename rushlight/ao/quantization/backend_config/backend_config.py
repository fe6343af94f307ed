"""What a backend can quantize, as data: patterns of operators, the types each may compute in, how it is observed.

Enters: patterns (a module class, a function, a method's name, or a tuple of two or three of them, first to last) and
the settings of each. Leaves: a `BackendConfig`, which preparing and converting read, and plain dictionaries of it.
Refuses: patterns of other shapes, and dictionaries that hold something else (ValueError).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ...._C import dtype as _dtype

__all__ = ["BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType"]


class ObservationType(Enum):
    """Whether the output of an operator has an observer of its own, its input's, or (with the input) none."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A type, and what an observer must promise about range and qparams before the backend takes it."""

    dtype: Any = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _constrained(given: Any) -> DTypeWithConstraints:
    return given if isinstance(given, DTypeWithConstraints) else DTypeWithConstraints(dtype=given)


@dataclass(init=False)
class DTypeConfig:
    """One combination of types that a pattern may be quantized with; dynamic where the input's qparams are found
    while the model runs."""

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Any
    is_dynamic: bool | None

    def __init__(
        self, input_dtype: Any = None, output_dtype: Any = None, weight_dtype: Any = None, bias_dtype: Any = None,
        is_dynamic: bool | None = None,
    ) -> None:
        self.input_dtype_with_constraints = _constrained(input_dtype)
        self.output_dtype_with_constraints = _constrained(output_dtype)
        self.weight_dtype_with_constraints = _constrained(weight_dtype)
        self.bias_dtype = bias_dtype
        self.is_dynamic = is_dynamic

    @property
    def input_dtype(self) -> Any:
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> Any:
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> Any:
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """From any of the keys input_dtype, output_dtype, weight_dtype, bias_dtype, is_dynamic."""
        given = [dtype_config_dict.get(key) for key in (*_TYPE_KEYS, "bias_dtype", "is_dynamic")]
        for key, value in zip(_TYPE_KEYS, given, strict=False):
            if value is not None and not isinstance(value, (_dtype, DTypeWithConstraints)):
                raise ValueError(f"{key} must be a torch.dtype or DTypeWithConstraints, not {value!r}")
        return cls(*given)

    def to_dict(self) -> dict[str, Any]:
        """What is set, under the keys of `from_dict`."""
        result = {
            key: getattr(self, f"{key}_with_constraints") for key in _TYPE_KEYS if getattr(self, key) is not None
        }
        result |= {key: getattr(self, key) for key in ("bias_dtype", "is_dynamic") if getattr(self, key) is not None}
        return result


_TYPE_KEYS = ("input_dtype", "output_dtype", "weight_dtype")
# The settings of a pattern, by their keys in dictionaries, in the order they are written there.
_FIELDS = {
    "pattern": "pattern",
    "root_module": "root_module",
    "qat_module": "qat_module",
    "reference_quantized_module_for_root": "reference_quantized_module",
    "fused_module": "fused_module",
    "fuser_method": "fuser_method",
    "root_node_getter": "_root_node_getter",
    "extra_inputs_getter": "_extra_inputs_getter",
    "num_tensor_args_to_observation_type": "_num_tensor_args_to_observation_type",
    "input_type_to_index": "_input_type_to_index",
    "pattern_complex_format": "_pattern_complex_format",
}
_MAPPINGS = ("_num_tensor_args_to_observation_type", "_input_type_to_index")


class BackendPatternConfig:
    """How one pattern is fused, observed and quantized. The setters return the config, to be chained."""

    def __init__(self, pattern: Any = None) -> None:
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: type | None = None
        self.qat_module: type | None = None
        self.reference_quantized_module: type | None = None
        self.fused_module: type | None = None
        self.fuser_method: Callable | None = None
        self._root_node_getter: Callable | None = None
        self._extra_inputs_getter: Callable | None = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        said = {k: v for k, v in self.__dict__.items() if v is not None and not (isinstance(v, (list, dict)) and not v)}
        return f"BackendPatternConfig({said})"

    def _put(self, **settings: Any) -> BackendPatternConfig:
        self.__dict__.update(settings)
        return self

    def set_pattern(self, pattern: Any) -> BackendPatternConfig:
        """A module class, function, method name, or a tuple of two or three of them in the order they run."""
        if self._pattern_complex_format is not None:
            raise ValueError("set_pattern: pattern_complex_format is set already; only one of the two may be")
        return self._put(pattern=pattern)

    def _set_pattern_complex_format(self, pattern: Any) -> BackendPatternConfig:
        """The pattern last to first, arguments nested: (relu, (add, conv, MatchAllNode))."""
        if self.pattern is not None:
            raise ValueError("_set_pattern_complex_format: pattern is set already; only one of the two may be")
        return self._put(_pattern_complex_format=pattern)

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """Where observers go."""
        return self._put(observation_type=observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """One more combination of types."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """These combinations of types and no others."""
        return self._put(dtype_configs=dtype_configs)

    def set_root_module(self, root_module: type) -> BackendPatternConfig:
        """The float class with the weight, which conversion replaces."""
        return self._put(root_module=root_module)

    def set_qat_module(self, qat_module: type) -> BackendPatternConfig:
        """The class that stands for the pattern while it is trained."""
        return self._put(qat_module=qat_module)

    def set_reference_quantized_module(self, reference_quantized_module: type) -> BackendPatternConfig:
        """The class that replaces the root module in a reference model."""
        return self._put(reference_quantized_module=reference_quantized_module)

    def set_fused_module(self, fused_module: type) -> BackendPatternConfig:
        """The class of the pattern's modules made one."""
        return self._put(fused_module=fused_module)

    def set_fuser_method(self, fuser_method: Callable) -> BackendPatternConfig:
        """`f(is_qat, *modules of the pattern)`, which makes the fused module."""
        return self._put(fuser_method=fuser_method)

    def _set_root_node_getter(self, root_node_getter: Callable) -> BackendPatternConfig:
        return self._put(_root_node_getter=root_node_getter)

    def _set_extra_inputs_getter(self, extra_inputs_getter: Callable) -> BackendPatternConfig:
        return self._put(_extra_inputs_getter=extra_inputs_getter)

    def _set_num_tensor_args_to_observation_type(self, mapping: dict[int, ObservationType]) -> BackendPatternConfig:
        return self._put(_num_tensor_args_to_observation_type=mapping)

    def _set_input_type_to_index(self, input_type_to_index: dict[str, int]) -> BackendPatternConfig:
        return self._put(_input_type_to_index=input_type_to_index)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """From the keys that `to_dict` writes, each optional."""
        given = backend_pattern_config_dict
        config = cls()
        config.observation_type = given.get("observation_type", config.observation_type)
        for entry in given.get("dtype_configs", []):
            if not isinstance(entry, (DTypeConfig, dict)):
                raise ValueError(f"dtype_configs: expected DTypeConfigs or dictionaries of them, got {type(entry)}")
            config.add_dtype_config(entry if isinstance(entry, DTypeConfig) else DTypeConfig.from_dict(entry))
        if given.get("pattern") is not None and given.get("pattern_complex_format") is not None:
            raise ValueError("from_dict: only one of 'pattern' and 'pattern_complex_format' may be given")
        for key, field in _FIELDS.items():
            setattr(config, field, given.get(key, {} if field in _MAPPINGS else None))
        return config

    def to_dict(self) -> dict[str, Any]:
        """What is set, by key."""
        result: dict[str, Any] = {
            "observation_type": self.observation_type,
            "dtype_configs": [config.to_dict() for config in self.dtype_configs],
        }
        for key, field in _FIELDS.items():
            value = getattr(self, field)
            if value is not None and not (field in _MAPPINGS and not value):
                result[key] = value
        return result


class Patterns(MutableMapping):
    """A dictionary by pattern. Functions are told apart by identity: `relu` of `nn.functional` and the top-level one
    are two operators here, though they compare equal."""

    def __init__(self, items: Iterable[tuple[Any, Any]] = ()) -> None:
        self._held: dict[Any, tuple[Any, Any]] = {}
        for pattern, value in items:
            self[pattern] = value

    @staticmethod
    def _key(pattern: Any) -> Any:
        if isinstance(pattern, tuple):
            return tuple(map(Patterns._key, pattern))
        return pattern if isinstance(pattern, str) else id(pattern)

    def __getitem__(self, pattern: Any) -> Any:
        return self._held[self._key(pattern)][1]

    def __setitem__(self, pattern: Any, value: Any) -> None:
        key = self._key(pattern)
        self._held[key] = (self._held.get(key, (pattern,))[0], value)

    def __delitem__(self, pattern: Any) -> None:
        del self._held[self._key(pattern)]

    def __iter__(self) -> Iterator[Any]:
        return (pattern for pattern, _ in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return repr(dict(self._held.values()))

    def __deepcopy__(self, memo: dict) -> Patterns:
        from copy import deepcopy  # noqa: PLC0415 - for this alone

        return Patterns((pattern, deepcopy(value, memo)) for pattern, value in self._held.values())

    def __reduce__(self) -> tuple:
        return Patterns, (list(self._held.values()),)     # identities are of this process


def inner_format(config: BackendPatternConfig) -> Any:
    """The pattern last to first, as graphs are matched: (a, b, c) is (c, (b, a))."""
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    if config.pattern is None:
        raise ValueError("BackendPatternConfig: neither 'pattern' nor 'pattern_complex_format' is set")
    match config.pattern:
        case (first, last):
            return last, first
        case (first, middle, last):
            return last, (middle, first)
        case tuple():
            raise ValueError(f"BackendPatternConfig: expected a tuple of 2 or 3 elements, got {config.pattern}")
    return config.pattern


class BackendConfig:
    """The patterns that a backend can quantize. The setters return the config, to be chained."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: Patterns = Patterns()

    def __repr__(self) -> str:
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> BackendConfig:
        """Name the backend."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Take a pattern up; its earlier config, if any, is replaced."""
        self._pattern_complex_format_to_config[inner_format(config)] = config
        return self

    def set_backend_pattern_configs(self, configs: list[BackendPatternConfig]) -> BackendConfig:
        """Take patterns up in turn."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """The configs of all patterns, as a new list."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """From "name" and "configs", a list of pattern configs or their dictionaries."""
        result = cls(backend_config_dict.get("name", ""))
        for entry in backend_config_dict.get("configs", []):
            if not isinstance(entry, (BackendPatternConfig, dict)):
                raise ValueError(f"backend_config_dict['configs']: expected dictionaries, got {type(entry)}")
            made = entry if isinstance(entry, BackendPatternConfig) else BackendPatternConfig.from_dict(entry)
            result.set_backend_pattern_config(made)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Under the keys of `from_dict`."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}
