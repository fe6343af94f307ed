"""torch_xla.stablehlo: models that leave as StableHLO, are called through XLA, and are kept in folders.

Enters: exported programs, or models and example arguments; folders that `save` wrote. Leaves: a `StableHLOGraphModule`.
The functions of a folder take the model's tensors as their first arguments, so that the text stays small. Refuses:
programs that write to their arguments; folders with missing, cut or foreign files.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _C
from ..base.digest import digest
from ..export import ExportedProgram, export
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..mlir.stablehlo import module_of
from ..mlir.stablehlo.programs import prepared
from ..mlir.types import tensor_type
from ..serialization import load as _load, save as _save
from ..serialization.sources import replaced
from ..utils import _pytree as pytree
from . import client, stored
from .portable import artifact_of, refined, text_of

FORMAT = "rushlight.stablehlo 1"
METHOD = "forward"
NOTE, BYTECODE, TEXT = (f"functions/{METHOD}.{ending}" for ending in ("meta", "bytecode", "mlir"))
TENSORS = "data.pt"


@dataclasses.dataclass
class StableHLOExportOptions:
    """How a model is saved. `include_human_readable_text`: beside the portable artifact, which is read again."""

    include_human_readable_text: bool = True


@dataclasses.dataclass
class Argument:
    """One argument of a function: a tensor of the model by its name, or the user's by its position."""

    name: str | None
    position: int | None
    dtype: str
    shape: list[int | None]      # None: varies


@dataclasses.dataclass
class Result:
    """One result: the new value of a tensor of the model, or what the user gets."""

    name: str | None
    dtype: str


@dataclasses.dataclass
class Function:
    """What a function takes and gives."""

    arguments: list[Argument]
    results: list[Result]
    in_tree: str
    out_tree: str
    fixed: dict[str, Any]        # leaves of the arguments that are no tensors, by position
    returned: list[Any]          # leaves of the result: [it] where it is no tensor, else None


class StableHLOGraphModule:
    """A program as StableHLO, with the tensors of its model; calling it runs it through XLA."""

    def __init__(self, text: str, function: Function, tensors: Mapping[str, Any]) -> None:
        self._text, self._function, self._tensors = text, function, dict(tensors)
        self._programs: dict[Any, Any] = {}

    def get_stablehlo_text(self, method_name: str = METHOD) -> str:
        """The module as text."""
        _check_method(method_name)
        return self._text

    def get_stablehlo_bytecode(self, method_name: str = METHOD) -> bytes:
        """The module as StableHLO's portable artifact, which later versions read."""
        _check_method(method_name)
        return artifact_of(self._text)

    def __call__(self, *args: Any, method_name: str = METHOD, **kwargs: Any) -> Any:
        """The program's results."""
        _check_method(method_name)
        return self.evaluate(method_name, args, kwargs)

    def evaluate(self, method_name: str, args: tuple, kwargs: Mapping[str, Any] | None = None) -> Any:
        """The same with the arguments as a tuple."""
        _check_method(method_name)
        leaves = self._leaves(args, dict(kwargs or {}))
        given = [self._tensors[a.name] if a.name is not None else _checked(leaves[a.position], a)
                 for a in self._function.arguments]
        key = tuple(tuple(t.shape) for t in given)
        if key not in self._programs:
            self._programs[key] = stored.executable_of(self._for_sizes(key))
        made = client.run(self._programs[key], [client.value_of(t).buffer for t in given])
        found = []
        for buffer, result in zip(made, self._function.results, strict=True):
            t = client.Value(buffer, _dtype(result.dtype)).tensor()
            if result.name is None:
                found.append(t)
            else:
                self._tensors[result.name] = t
        left = iter(found)
        return pytree.tree_unflatten([next(left) if v is None else v[0] for v in self._function.returned],
                                     pytree.treespec_loads(self._function.out_tree))

    def _leaves(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        leaves, tree = pytree.tree_flatten((args, kwargs))
        wanted = pytree.treespec_loads(self._function.in_tree)
        if tree != wanted:
            raise ValueError(f"StableHLOGraphModule: expected {wanted.num_leaves} arguments in the structure that the"
                             f" program was exported with, got {tree.num_leaves} in another")
        for at, value in self._function.fixed.items():
            if leaves[int(at)] != value:
                raise ValueError(f"StableHLOGraphModule: argument {at} is {value!r} in the program, got"
                                 f" {leaves[int(at)]!r}")
        return leaves

    def _for_sizes(self, shapes: Sequence[tuple[int, ...]]) -> str | bytes:
        """The module where all sizes are known."""
        if all(None not in a.shape for a in self._function.arguments):
            return self._text
        return refined(self._text, [tensor_type(_dtype(a.dtype), shape) for a, shape in
                                    zip(self._function.arguments, shapes, strict=True)])

    def save(self, stablehlo_dir: str | os.PathLike[str], options: StableHLOExportOptions | None = None) -> None:
        """Write the folder: portable artifact, text, signature, and the model's tensors."""
        folder = os.fspath(stablehlo_dir)
        os.makedirs(os.path.join(folder, "functions"), exist_ok=True)
        _save(self._tensors, os.path.join(folder, TENSORS))
        _write(folder, BYTECODE, self.get_stablehlo_bytecode())
        if (options or StableHLOExportOptions()).include_human_readable_text:
            _write(folder, TEXT, self._text.encode())
        digests = {name: digest(_read(folder, name), 32).hex() for name in (BYTECODE, TENSORS)}
        note = {"format": FORMAT, "files": digests, "function": dataclasses.asdict(self._function)}
        _write(folder, NOTE, json.dumps(note, indent=1).encode())

    @classmethod
    def load(cls, stablehlo_dir: str | os.PathLike[str]) -> StableHLOGraphModule:
        """What `save` wrote."""
        folder = os.fspath(stablehlo_dir)
        try:
            note = json.loads(_read(folder, NOTE))
            if note["format"] != FORMAT:
                raise ValueError(f"its format is {note['format']!r}, and {FORMAT!r} is read")
            for name in (BYTECODE, TENSORS):
                if digest(_read(folder, name), 32).hex() != note["files"][name]:
                    raise ValueError(f"{name} is not what was saved: it was cut or changed")
            given = note["function"]
            function = Function(**{**given, "arguments": [Argument(**a) for a in given["arguments"]],
                                   "results": [Result(**r) for r in given["results"]]})
            text, tensors = text_of(_read(folder, BYTECODE)), _load(os.path.join(folder, TENSORS))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"StableHLOGraphModule.load: there is no file {error.filename}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(f"StableHLOGraphModule.load: {folder} holds no saved program: {error}") from None
        return cls(text, function, tensors)


def _check_method(name: str) -> None:
    if name != METHOD:
        raise ValueError(f"StableHLOGraphModule: the one method is {METHOD!r}, got {name!r}")


def _checked(t: Any, wanted: Argument) -> Any:
    """An argument that the program takes."""
    if not isinstance(t, _C.Tensor):
        raise TypeError(f"StableHLOGraphModule: argument {wanted.position} must be a tensor, got {type(t).__name__}")
    fits = len(wanted.shape) == t.ndim and all(n in (None, m) for n, m in zip(wanted.shape, t.shape, strict=True))
    if not fits or t.dtype is not _dtype(wanted.dtype):
        sizes = ", ".join("?" if n is None else str(n) for n in wanted.shape)
        raise ValueError(f"StableHLOGraphModule: argument {wanted.position} must be {wanted.dtype} of sizes ({sizes}),"
                         f" got {t.dtype.name} of {tuple(t.shape)}")
    return t.detach().cpu()


def _dtype(name: str) -> Any:
    found = getattr(_C, name, None)
    if found not in client.DTYPES:
        raise ValueError(f"there are no elements of type {name!r}")
    return found


def _read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def _write(folder: str, name: str, data: bytes) -> None:
    with replaced(os.path.join(folder, name)) as fd, os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)


def exported_program_to_stablehlo(
    exported_model: ExportedProgram, options: StableHLOExportOptions | None = None
) -> StableHLOGraphModule:
    """An exported program as StableHLO. What `options` say is about folders."""
    if not isinstance(exported_model, ExportedProgram):
        raise TypeError("exported_program_to_stablehlo: expected what export.export gives, got"
                        f" {type(exported_model).__name__}. Export the model first, or use"
                        " save_torch_model_as_stablehlo.")
    core = prepared(exported_model)
    arguments, kept, examples, fixed = _arguments(core)
    results, wanted, returned = _results(core)
    module = module_of(core.graph_module, examples, results=wanted)
    spec = core.call_spec
    function = Function(arguments, results, pytree.treespec_dumps(spec.in_spec), pytree.treespec_dumps(spec.out_spec),
                        fixed, returned)
    return StableHLOGraphModule(module.text(False), function, kept)


def _arguments(program: ExportedProgram) -> tuple[list[Argument], dict[str, Any], list[Any], dict[str, Any]]:
    """(arguments of the text, tensors of the model, examples for its placeholders, leaves that are fixed)."""
    arguments, kept, examples, fixed, position = [], {}, [], {}, 0
    for node, spec in zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs, strict=True):
        value, name = node.meta.get("val"), None
        if spec.kind is InputKind.USER_INPUT:
            at, position = position, position + 1
            if isinstance(spec.arg, ConstantArgument):
                node.meta["val"] = spec.arg.value
                fixed[str(at)] = spec.arg.value
                examples.append(spec.arg.value)
                continue
        else:
            name, at = spec.target, None
            if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                raise NotImplementedError(f"exported_program_to_stablehlo: input {node.name} is a {spec.kind.name},"
                                          " which a module cannot have")
            kept[name] = program.tensor_of(spec).detach()
        shape = [n if type(n) is int else None for n in value.shape]
        arguments.append(Argument(name, at, client.check_dtype(value.dtype).name, shape))
        examples.append(value)
    return arguments, kept, examples, fixed


def _results(program: ExportedProgram) -> tuple[list[Result], list[int], list[Any]]:
    """(results of the text, which of the graph's they are, leaves of what the user gets)."""
    results, wanted, returned = [], [], []
    nodes = program.graph.output_node().args[0]
    for k, (spec, node) in enumerate(zip(program.graph_signature.output_specs, nodes, strict=True)):
        name = None
        if spec.kind is OutputKind.USER_OUTPUT:
            if isinstance(spec.arg, ConstantArgument):
                returned.append([spec.arg.value])
                continue
            returned.append(None)
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            name = spec.target
        else:
            raise NotImplementedError(f"exported_program_to_stablehlo: the program writes to its argument"
                                      f" {spec.target}, which a module cannot. Return the new value.")
        results.append(Result(name, client.check_dtype(node.meta["val"].dtype).name))
        wanted.append(k)
    return results, wanted, returned


def save_as_stablehlo(
    exported_model: ExportedProgram, stablehlo_dir: str | os.PathLike[str],
    options: StableHLOExportOptions | None = None,
) -> None:
    """Write an exported program to a folder."""
    exported_program_to_stablehlo(exported_model, options).save(stablehlo_dir, options)


def save_torch_model_as_stablehlo(
    torchmodel: Any, args: tuple, path: str | os.PathLike[str], options: StableHLOExportOptions | None = None
) -> None:
    """Export a model with example arguments, and write it to a folder."""
    save_as_stablehlo(export(torchmodel, args), path, options)
