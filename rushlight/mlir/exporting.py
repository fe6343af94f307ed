"""mlir.export: a model and example arguments as a module of MLIR.

Enters: a module, a function or an exported program; which dialect; which sizes may vary. Leaves: an `MlirModule`, whose
`str()` is the text, and `save` writes it. Refuses: ops that the dialect has no rule for, naming them and the user's
line; dialects that there are not.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ..export import ExportedProgram, export as export_program
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..nn import Module as NeuralModule
from ..serialization.sources import replaced
from .errors import UnsupportedOp
from .printing import Module

DIALECTS = {"stablehlo": ".stablehlo.programs", "linalg": ".linalg.programs", "torch": ".torch_dialect.programs"}
"""Where each dialect's `prepared(program)` and `module_of_program(program, weights)` are."""
WEIGHTS = ("inline", "resource")


class MlirModule:
    """A program in a dialect of MLIR. `main` takes the inputs that `input_names` lists, and returns `output_names`."""

    def __init__(self, module: Module, dialect: str, program: ExportedProgram, input_names: tuple[str, ...],
                 output_names: tuple[str, ...]) -> None:
        self.module, self.dialect, self.program = module, dialect, program
        self.input_names, self.output_names = input_names, output_names
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = self.module.text()
        return self._text

    def text(self, locations: bool = True) -> str:
        """The module as text, with or without where each operation comes from."""
        return str(self) if locations else self.module.text(False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the text to a file, whole or not at all."""
        with replaced(os.fspath(path)) as fd, open(fd, "wb", closefd=False) as file:
            file.write(str(self).encode())

    def __repr__(self) -> str:
        return f"<{self.dialect} module: ({', '.join(self.input_names)}) -> ({', '.join(self.output_names)})>"


def export(model: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None, *, dialect: str = "stablehlo",
           dynamic_shapes: Any = None, weights: str = "inline") -> MlirModule:
    """`model(*args, **kwargs)` as a module of a dialect: "stablehlo", "linalg" or "torch".

    `model`: a module, a function of tensors, or an exported program. `dynamic_shapes`: which sizes may vary, as
    `export.export` has it; they print as `?`. `weights`: where the tensors of the model stand, in the text ("inline")
    or in a section of their own ("resource").
    """
    if dialect not in DIALECTS:
        raise ValueError(f"mlir.export: dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}")
    if weights not in WEIGHTS:
        raise ValueError(f'mlir.export: weights must be "inline" or "resource", got {weights!r}')
    program = captured(model, args, kwargs, dynamic_shapes)
    chosen = importlib.import_module(DIALECTS[dialect], __package__)
    core = chosen.prepared(program)
    specs = core.graph_signature.output_specs
    lost = [str(s.target) for s in specs if s.kind is not OutputKind.USER_OUTPUT]
    if lost:
        warnings.warn(f"mlir.export: the program writes to {', '.join(lost)}. Modules keep no state: what is written "
                      "there is left out. Call eval() on the model, or return the new values.", stacklevel=2)
    module = chosen.module_of_program(core, weights)
    return MlirModule(module, dialect, core, tuple(user_inputs(core)), tuple(user_outputs(core)))


def captured(model: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> ExportedProgram:
    """The program of a model."""
    if isinstance(model, ExportedProgram):
        if dynamic_shapes is not None:
            raise ValueError("mlir.export: an ExportedProgram has its sizes; give dynamic_shapes to export.export")
        return model
    if not isinstance(model, NeuralModule):
        if not callable(model):
            raise TypeError(f"mlir.export: expected a module, a function or an ExportedProgram, got "
                            f"{type(model).__name__}")
        model = _Calls(model)
    args = args if isinstance(args, tuple) else (args,)
    return export_program(model, args, dict(kwargs or {}), dynamic_shapes=dynamic_shapes)


class _Calls(NeuralModule):
    """A function as a module."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def user_inputs(program: ExportedProgram) -> list[str]:
    """The names of the arguments of `main`."""
    nodes = program.graph.find_nodes(op="placeholder")
    return [node.name for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True)
            if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)]


def user_outputs(program: ExportedProgram) -> list[str]:
    """The names of the results of `main`."""
    return [s.arg.name for s in program.graph_signature.output_specs
            if s.kind is OutputKind.USER_OUTPUT and not isinstance(s.arg, ConstantArgument)]


def held_tensors(program: ExportedProgram) -> dict[int, tuple[str, Any]]:
    """The tensors of a program by the number of their placeholder: names and elements."""
    found = {}
    for i, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            found[i] = str(spec.target), program.tensor_of(spec).detach()
        elif spec.kind is not InputKind.USER_INPUT:
            raise UnsupportedOp(f"mlir.export: an input is a {spec.kind.name}, which a module cannot have")
    return found
