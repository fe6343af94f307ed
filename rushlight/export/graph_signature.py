"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, arguments; results, and values
to write back.

Enters: specs, one for each placeholder and each result. Leaves: `ExportGraphSignature`, which answers by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind",
    "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument",
    "TokenArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """What orders effects, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """An integer that the graph knows, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A real that the graph knows, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A truth that the graph knows, by the name of its node."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a class of its own."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that was fixed when the graph was made."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument | SymIntArgument | SymFloatArgument | SymBoolArgument | ConstantArgument | CustomObjArgument
    | TokenArgument
)


class InputKind(Enum):
    """Where an input comes from."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """Where an output goes."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """One input. `target` is the name in the module of what is none of the user's arguments."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError(f"InputSpec: buffer {self.target} must say whether it is persistent")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One output. `target` is what it is written to, if it is no result."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """Which outputs of a joint graph are gradients, and of what."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of a graph, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind: InputKind) -> list[InputSpec]:
        return [s for s in self.input_specs if s.kind is kind]

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind and isinstance(s.target, str)}

    @property
    def parameters(self) -> Collection[str]:
        """Names of parameters that are inputs."""
        return tuple(s.target for s in self._inputs(InputKind.PARAMETER) if isinstance(s.target, str))

    @property
    def buffers(self) -> Collection[str]:
        """Names of buffers that are inputs."""
        return tuple(s.target for s in self._inputs(InputKind.BUFFER) if isinstance(s.target, str))

    @property
    def non_persistent_buffers(self) -> Collection[str]:
        """Names of buffers that no state dict has."""
        return tuple(s.target for s in self._inputs(InputKind.BUFFER) if s.target and s.persistent is False)

    @property
    def lifted_tensor_constants(self) -> Collection[str]:
        """Names of other tensors that are inputs."""
        return tuple(s.target for s in self._inputs(InputKind.CONSTANT_TENSOR) if isinstance(s.target, str))

    @property
    def lifted_custom_objs(self) -> Collection[str]:
        """Names of objects that are inputs."""
        return tuple(s.target for s in self._inputs(InputKind.CUSTOM_OBJ) if isinstance(s.target, str))

    @property
    def user_inputs(self) -> Collection[Any]:
        """The user's arguments: names of nodes, and values that were fixed."""
        return tuple(_shown(s.arg) for s in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> Collection[Any]:
        """The results: names of nodes, and values that were fixed."""
        return tuple(
            _shown(s.arg) for s in self.output_specs if s.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        )

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Names of nodes -> parameters."""
        return {s.arg.name: s.target for s in self._inputs(InputKind.PARAMETER) if isinstance(s.target, str)}

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Names of nodes -> buffers."""
        return {s.arg.name: s.target for s in self._inputs(InputKind.BUFFER) if isinstance(s.target, str)}

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Names of nodes -> other tensors."""
        return {s.arg.name: s.target for s in self._inputs(InputKind.CONSTANT_TENSOR) if isinstance(s.target, str)}

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Names of nodes -> objects."""
        return {s.arg.name: s.target for s in self._inputs(InputKind.CUSTOM_OBJ) if isinstance(s.target, str)}

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Names of outputs -> buffers they are written to."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Names of outputs -> parameters they are written to."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Names of outputs -> arguments they are written to."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def input_tokens(self) -> Collection[str]:
        """Names of inputs that order effects."""
        return tuple(s.arg.name for s in self._inputs(InputKind.TOKEN))

    @property
    def output_tokens(self) -> Collection[str]:
        """Names of outputs that order effects."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """Which outputs are gradients; None for a forward."""
        loss = next((s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT), None)
        if loss is None:
            return None
        return ExportBackwardSignature(
            self._outputs(OutputKind.GRADIENT_TO_PARAMETER), self._outputs(OutputKind.GRADIENT_TO_USER_INPUT), loss
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """Always None: checks are nodes of the graph."""
        return None

    def replace_all_uses(self, old: str, new: str) -> None:
        """A node has another name now."""
        for spec in (*self.input_specs, *self.output_specs):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new
            if isinstance(spec, OutputSpec) and spec.kind is OutputKind.USER_INPUT_MUTATION and spec.target == old:
                spec.target = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Any:
        """A function for `GraphModule._set_replace_hook`, which keeps the names here right."""

        def replaced(old: Any, new: str, user: Any) -> None:
            if user.op == "output" or replace_inputs:
                self.replace_all_uses(old.name, new)

        return replaced

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _shown(arg: ArgumentSpec) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name
