"""What preparing, converting and fusing are told besides qconfigs: modules to leave whole, to swap, or to keep.

Enters: settings through chained setters, or dictionaries (the older form). Leaves: config objects, dictionaries.
Refuses: values of other kinds in dictionaries (ValueError).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from ..backend_config import BackendConfig
from ..qconfig_mapping import QConfigMapping
from ..quant_type import QuantType, _get_quant_type_to_str, _quant_type_from_str

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry"]

T = TypeVar("T")
ClassMap = dict[QuantType, dict[type, type]]


@dataclass
class StandaloneModuleConfigEntry:
    """How a submodule that is quantized as a model of its own is prepared; None is what its parent has."""

    qconfig_mapping: QConfigMapping | None
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: BackendConfig | None


class _CustomConfig:
    """Settings kept as attributes; the empty ones are not shown."""

    preserved_attributes: list[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({ {k: v for k, v in self.__dict__.items() if len(v) > 0} })"

    def set_preserved_attributes(self: T, attributes: list[str]) -> T:
        """Attributes of the model to keep though `forward` does not use them."""
        self.preserved_attributes = attributes     # type: ignore[attr-defined]
        return self


def _made(kind: type, given: Any, key: str) -> Any:
    """A config of a class, from itself, its dictionary, or None."""
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, dict):
        return kind.from_dict(given)     # type: ignore[attr-defined]
    raise ValueError(f"{key}: expected a {kind.__name__} or its dictionary, got {type(given)}")


def _by_name(mapping: ClassMap) -> dict[str, dict[type, type]]:
    return {_get_quant_type_to_str(kind): classes for kind, classes in mapping.items()}


class PrepareCustomConfig(_CustomConfig):
    """For `prepare_fx` and `prepare_qat_fx`. The setters return the config, to be chained."""

    def __init__(self) -> None:
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[type, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: ClassMap = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []
        self.preserved_attributes: list[str] = []

    def set_standalone_module_name(
        self, module_name: str, qconfig_mapping: QConfigMapping | None, example_inputs: tuple[Any, ...],
        prepare_custom_config: PrepareCustomConfig | None, backend_config: BackendConfig | None,
    ) -> PrepareCustomConfig:
        """A submodule, by path, that is quantized as a model of its own."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(
        self, module_class: type, qconfig_mapping: QConfigMapping | None, example_inputs: tuple[Any, ...],
        prepare_custom_config: PrepareCustomConfig | None, backend_config: BackendConfig | None,
    ) -> PrepareCustomConfig:
        """The same, for all modules of a class."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(
        self, float_class: type, observed_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> PrepareCustomConfig:
        """Modules of a class become `observed_class.from_float(module)`, which observes itself. Static only."""
        if quant_type != QuantType.STATIC:
            raise ValueError(f"set_float_to_observed_mapping: only static quantization has this, not {quant_type}")
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Submodules, by path, that tracing does not enter."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Classes of modules that tracing does not enter."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Inputs that come quantized, by position."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Outputs that stay quantized, by position."""
        self.output_quantized_indexes = indexes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """From the keys of `to_dict`, each optional."""
        given, result = prepare_custom_config_dict, cls()
        for key, setter in (("standalone_module_name", result.set_standalone_module_name),
                            ("standalone_module_class", result.set_standalone_module_class)):
            for what, mapping, inputs, custom, backend in given.get(key, []):
                setter(what, _made(QConfigMapping, mapping, key), inputs, _made(PrepareCustomConfig, custom, key),
                       _made(BackendConfig, backend, key))
        for kind, classes in given.get("float_to_observed_custom_module_class", {}).items():
            for float_class, observed_class in classes.items():
                result.set_float_to_observed_mapping(float_class, observed_class, _quant_type_from_str(kind))
        for key, field in _PREPARE_LISTS.items():
            setattr(result, field, given.get(key, []))
        return result

    def to_dict(self) -> dict[str, Any]:
        """What is set, by key."""
        result: dict[str, Any] = {}
        for key, entries in (("standalone_module_name", self.standalone_module_names),
                             ("standalone_module_class", self.standalone_module_classes)):
            if entries:
                result[key] = [
                    (what, e.qconfig_mapping.to_dict() if e.qconfig_mapping else None, e.example_inputs,
                     e.prepare_custom_config.to_dict() if e.prepare_custom_config else None, e.backend_config)
                    for what, e in entries.items()
                ]
        if self.float_to_observed_mapping:
            result["float_to_observed_custom_module_class"] = _by_name(self.float_to_observed_mapping)
        result |= {key: getattr(self, field) for key, field in _PREPARE_LISTS.items() if getattr(self, field)}
        return result


_PREPARE_LISTS = {
    "non_traceable_module_name": "non_traceable_module_names",
    "non_traceable_module_class": "non_traceable_module_classes",
    "input_quantized_idxs": "input_quantized_indexes",
    "output_quantized_idxs": "output_quantized_indexes",
    "preserved_attributes": "preserved_attributes",
}


class ConvertCustomConfig(_CustomConfig):
    """For `convert_fx`. The setters return the config, to be chained."""

    def __init__(self) -> None:
        self.observed_to_quantized_mapping: ClassMap = {}
        self.preserved_attributes: list[str] = []

    def set_observed_to_quantized_mapping(
        self, observed_class: type, quantized_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> ConvertCustomConfig:
        """Modules of a class become `quantized_class.from_observed(module)`."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """From the keys of `to_dict`, each optional."""
        result = cls().set_preserved_attributes(convert_custom_config_dict.get("preserved_attributes", []))
        for kind, classes in convert_custom_config_dict.get("observed_to_quantized_custom_module_class", {}).items():
            for observed_class, quantized_class in classes.items():
                result.set_observed_to_quantized_mapping(observed_class, quantized_class, _quant_type_from_str(kind))
        return result

    def to_dict(self) -> dict[str, Any]:
        """What is set, by key."""
        result: dict[str, Any] = {}
        if self.observed_to_quantized_mapping:
            result["observed_to_quantized_custom_module_class"] = _by_name(self.observed_to_quantized_mapping)
        if self.preserved_attributes:
            result["preserved_attributes"] = self.preserved_attributes
        return result


class FuseCustomConfig(_CustomConfig):
    """For `fuse_fx`."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """From "preserved_attributes"."""
        return cls().set_preserved_attributes(fuse_custom_config_dict.get("preserved_attributes", []))

    def to_dict(self) -> dict[str, Any]:
        """What is set, by key."""
        return {"preserved_attributes": self.preserved_attributes} if self.preserved_attributes else {}
