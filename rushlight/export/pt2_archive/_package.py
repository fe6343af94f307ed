"""Packages of compiled programs: a `.pt2` file with a program, its weights, and the machine code made of it.

Enters: an ExportedProgram; or a package. Leaves: the package; or an `AOTICompiledModel`, called as the module was. The
program is a `.pt2` program like any other (`export.load` reads it, here and in PyTorch); beside it lie what was made of
its graphs and kernels (codegen/stored/artifacts.py) and SHA-256 sums of both. Code for another processor, or by another
version of Rushlight, is left, with a warning, and made anew from the program. Refuses: packages whose sums are not
those of their contents, PyTorch's compiled libraries (nothing foreign is ever run), files without a program. Code is
code, though: load packages of those whose libraries you would load.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...codegen.stored import artifacts, graphs as stored_graphs
from ...compiler.driver import compile
from ...inductor import settings
from ...nn import Module
from ...symbols import SymInt
from ...utils import _pytree as pytree
from ..archive import load, write_archive
from ..capture import export
from ..exported_program import ExportedProgram
from ..graph_signature import InputKind
from ..values import flat_arguments
from .constants import AOTINDUCTOR_DIR
from .records import PT2ArchiveReader

__all__ = ["AOTICompiledModel", "PT2ArchiveContents", "compile_and_package", "load_package", "load_pt2"]

FORMAT = 1
FOLDER = "data/rushlight/"         # not PyTorch's own, which it would look for its libraries in
CODE, METADATA = f"{FOLDER}model.code", f"{FOLDER}model.json"
MOST_ELEMENTS = 1 << 24            # of an argument that plans are made with


def compile_and_package(program: ExportedProgram, package_path: Any = None,
                        options: Mapping[str, Any] | None = None) -> Any:
    """Compile a program for this machine, and write the package; where it is."""
    if not isinstance(program, ExportedProgram):
        raise AssertionError(
            f"aoti_compile_and_package: expected an ExportedProgram, got {type(program).__name__}. Call export first."
        )
    if program.example_inputs is None:
        raise RuntimeError(
            "aoti_compile_and_package: the program has no example inputs, which code is made for. Export it again, or "
            "load a file that holds them."
        )
    if isinstance(package_path, (str, os.PathLike)) and not os.fspath(package_path).endswith(".pt2"):
        raise AssertionError(f"aoti_compile_and_package: package_path must end with .pt2, got {package_path!r}")
    told, own = _options(options)
    if package_path is None:
        package_path = os.path.join(tempfile.mkdtemp(prefix="rushlight-"), "model.pt2")
    stream = io.BytesIO()
    write_archive(stream, program, {})
    stream.seek(0)
    code = _code_of(load(stream), told, program.example_inputs)
    metadata = {**_metadata(program), **own}
    kept = json.dumps({
        "format": FORMAT, "metadata": metadata, "code": hashlib.sha256(code).hexdigest(),
        "records": _sums(stream), "options": told,
    }).encode()
    write_archive(package_path, program, {CODE: code, METADATA: kept})
    return package_path


def _options(options: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings of the inductor, and what is to be told of the package."""
    told = dict(options or {})
    own = told.pop("aot_inductor.metadata", {})
    if told.pop("aot_inductor.package", True) is not True:
        raise NotImplementedError("aot_inductor.package=False: what is compiled is always a package (.pt2)")
    if not all(isinstance(x, str) for pair in own.items() for x in pair):
        raise TypeError(f"aot_inductor.metadata: expected texts by name, got {own!r}")
    with settings.applied(told):      # refuses unknown ones now
        return told, own


def _metadata(program: ExportedProgram) -> dict[str, str]:
    tensors = [t for t in (*program.state_dict.values(), *pytree.tree_leaves(program.example_inputs))
               if isinstance(t, Tensor)]
    devices = sorted({t.device.type for t in tensors}) or ["cpu"]
    from ...codegen.llvm.cpu import host_target  # noqa: PLC0415 - LLVM loads when code is made

    return {
        "AOTI_DEVICE_KEY": next((d for d in devices if d != "cpu"), "cpu"), "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(), "AOTI_CPU_ISA": host_target().name,
    }


def _sums(archive: Any) -> dict[str, str]:
    """SHA-256 of the records of an archive."""
    archive.seek(0)
    with PT2ArchiveReader(archive) as reader:
        return {name: hashlib.sha256(reader.read_bytes(name)).hexdigest() for name in reader.get_file_names()
                if name.startswith(("models/", "data/")) and not name.startswith(FOLDER)}


# --- code -------------------------------------------------------------------------------------------------------------


def _code_of(program: ExportedProgram, options: Mapping[str, Any], examples: tuple) -> bytes:
    """What is made of a program, run for its examples and, where sizes vary, for the smallest and largest too."""
    run = _compiled(program, options)
    with stored_graphs.noted() as graphs, no_grad():
        for args, kwargs in _calls(program, examples):
            run(*args, **kwargs)
    found = artifacts.packed(graphs) if graphs else None
    return found[0] if found is not None else b""


def _compiled(program: ExportedProgram, options: Mapping[str, Any]) -> Any:
    is_dynamic = any(isinstance(n, SymInt) for n in _sizes(program))
    told = {**options, "cache_graphs": True}      # a package is one, whatever else is to be kept
    return compile(program.module(), fullgraph=True, dynamic=True if is_dynamic else None, options=told)


def _sizes(program: ExportedProgram) -> Iterator[Any]:
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        yield from value.shape if isinstance(value, Tensor) else ()


def _calls(program: ExportedProgram, examples: tuple) -> Iterator[tuple[tuple, dict]]:
    """Copies of the examples, and of zeros of other sizes."""
    leaves, spec = pytree.tree_flatten(examples)
    yield pytree.tree_unflatten([x.detach().clone() if isinstance(x, Tensor) else x for x in leaves], spec)
    limits = {str(s): (max(low, 1), high) for s, (low, high) in program.range_constraints.items()}
    names = sorted({name for n in _sizes(program) if isinstance(n, SymInt) for name in n.expression.names})
    values = [value for _, value in _user_values(program)]
    for pick in (0, 1) if names and all(n in limits for n in names) else ():
        known = {n: limits[n][pick] for n in names}
        if None in known.values():
            continue
        sized = [_zeros(like, example, known) for like, example in zip(values, leaves, strict=True)]
        if all(not isinstance(t, Tensor) or t.numel() <= MOST_ELEMENTS for t in sized) and None not in sized:
            yield pytree.tree_unflatten(sized, spec)


def _user_values(program: ExportedProgram) -> Iterator[tuple[Any, Any]]:
    nodes = program.graph.find_nodes(op="placeholder")
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            yield node, node.meta.get("val")


def _zeros(like: Any, example: Any, known: Mapping[str, int]) -> Any:
    """An argument of other sizes; numbers and what is fixed are as in the example."""
    if not isinstance(like, Tensor) or not isinstance(example, Tensor):
        return example
    sizes = [int(n.expression.evaluate(known)) if isinstance(n, SymInt) else int(n) for n in like.shape]
    return example.detach().clone() if sizes == list(example.shape) else example.new_zeros(sizes)


# --- packages ---------------------------------------------------------------------------------------------------------


class _Loader:
    """What a package holds."""

    def __init__(self, program: ExportedProgram, metadata: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self.program, self.metadata = program, dict(metadata)
        self.run, self.guards = _compiled(program, options), program.guards()
        specs = [s for s in program.graph_signature.input_specs if s.kind is not InputKind.USER_INPUT]
        self.held = {s.target: program.tensor_of(s) for s in specs}

    def get_call_spec(self) -> list[str]:
        """The structures of arguments and results, as text."""
        spec = self.program.call_spec
        return [pytree.treespec_dumps(spec.in_spec), pytree.treespec_dumps(spec.out_spec)]

    def get_metadata(self) -> dict[str, str]:
        return dict(self.metadata)

    def get_constant_fqns(self) -> list[str]:
        return list(self.held)

    def load_constants(self, constants_map: Mapping[str, Tensor], use_inactive: bool = False,
                       check_full_update: bool = False, user_managed: bool = False,
                       allow_h2d_copy: bool = False) -> None:
        if use_inactive:
            raise NotImplementedError("load_constants(use_inactive=True): there is one set of constants")
        unknown = [name for name in constants_map if name not in self.held]
        missing = [name for name in self.held if name not in constants_map]
        if unknown:
            raise RuntimeError(f"load_constants: the model has no {unknown}. It has {list(self.held)}.")
        if check_full_update and missing:
            raise RuntimeError(f"load_constants(check_full_update=True): {missing} are not given")
        for name, value in constants_map.items():
            _check_constant(name, self.held[name], value, allow_h2d_copy)
        with no_grad():
            for name, value in constants_map.items():
                if user_managed:
                    self.held[name].data = value.detach()
                else:
                    self.held[name].copy_(value.detach())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            return self.run(*args, **kwargs)

    def boxed_run(self, flat_inputs: list[Any]) -> list[Any]:
        """Run on leaves; the list is emptied."""
        leaves = list(flat_inputs)
        flat_inputs.clear()
        args, kwargs = pytree.tree_unflatten(leaves, self.program.call_spec.in_spec)
        return pytree.tree_leaves(self(*args, **kwargs))


def _check_constant(name: str, held: Tensor, value: Any, may_move: bool) -> None:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"load_constants: {name} must be a tensor, got {type(value).__name__}")
    if value.shape != held.shape or value.dtype is not held.dtype:
        raise RuntimeError(
            f"load_constants: {name} is {held.dtype} of sizes {tuple(held.shape)}, got {value.dtype} of sizes "
            f"{tuple(value.shape)}"
        )
    if value.device != held.device and not (may_move and value.device.type == "cpu"):
        raise RuntimeError(f"load_constants: {name} is on {held.device}, got one on {value.device}")


class AOTICompiledModel:
    """A program that was compiled ahead of time, called as the module was. It computes no gradients."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = flat_arguments(self.call_spec.in_spec, args, kwargs)      # says what is wrong with their structure
        try:
            self.loader.guards.check(leaves)
        except AssertionError as error:
            raise RuntimeError(f"the program was not compiled for these arguments: {error}") from error
        return self.loader(*args, **kwargs)

    @property
    def call_spec(self) -> Any:
        """The structures of arguments and results."""
        return self.loader.program.call_spec

    def get_metadata(self) -> dict[str, str]:
        """What is known of the package: device, processor, and what its maker said."""
        return self.loader.get_metadata()

    def load_constants(self, constants_map: dict[str, Tensor], *, check_full_update: bool, user_managed: bool = False,
                       allow_h2d_copy: bool = False) -> None:
        """Other values for parameters, buffers and constants, by name; all of them where `check_full_update`. With
        `user_managed` the model uses the tensors themselves, so that writing to them is seen."""
        self.loader.load_constants(constants_map, False, check_full_update, user_managed, allow_h2d_copy)

    def get_constant_fqns(self) -> list[str]:
        """The names of parameters, buffers and constants."""
        return self.loader.get_constant_fqns()

    def __deepcopy__(self, memo: dict[int, Any] | None) -> AOTICompiledModel:
        return AOTICompiledModel(self.loader)      # as PyTorch's: what is loaded is shared


def load_package(path: Any, model_name: str = "model", run_single_threaded: bool = False, num_runners: int = 1,
                 device_index: int = -1) -> AOTICompiledModel:
    """The compiled program in a package. There is one runner, whose calls may come from any thread, so
    `run_single_threaded` has nothing to leave out."""
    if model_name != "model":
        raise RuntimeError(f"load_package: the package holds one program, 'model', got the name {model_name!r}")
    if num_runners != 1:
        raise NotImplementedError("load_package(num_runners=...): calls share one runner; leave it at 1")
    if device_index != -1:
        raise NotImplementedError("load_package(device_index=...): a program runs where it was exported for; leave -1")
    if isinstance(path, (str, os.PathLike)) and not os.path.exists(path):
        raise RuntimeError(f"load_package: there is no file {os.fspath(path)!r}")
    kept, code = _checked(path)
    if code:
        try:
            artifacts.unpacked(code)
        except ValueError as error:
            warnings.warn(f"load_package: the code in the package is made anew: {error}.", stacklevel=3)
    if hasattr(path, "seek"):
        path.seek(0)
    return AOTICompiledModel(_Loader(load(path), kept["metadata"], kept["options"]))


def _checked(path: Any) -> tuple[dict[str, Any], bytes]:
    """What a package says of itself, and its code; sums are compared."""
    if hasattr(path, "seek"):
        path.seek(0)
    with PT2ArchiveReader(path) as reader:
        names = reader.get_file_names()
        if METADATA not in names:
            held = [n for n in names if n.startswith(AOTINDUCTOR_DIR)]
            raise RuntimeError(
                "load_package: the file holds no code of Rushlight's"
                + (f", but {held[0]}, which is not run. Package the exported program again." if held else
                   ". Load programs with export.load, and package them with _inductor.aoti_compile_and_package.")
            )
        kept = json.loads(reader.read_bytes(METADATA))
        code = reader.read_bytes(CODE)
        sums = {n: hashlib.sha256(reader.read_bytes(n)).hexdigest() for n in kept.get("records", {}) if n in names}
    if kept.get("format") != FORMAT:
        raise RuntimeError(f"load_package: format {kept.get('format')} is not known; this version reads {FORMAT}")
    wrong = [n for n, told in kept["records"].items() if sums.get(n) != told]
    if hashlib.sha256(code).hexdigest() != kept["code"] or wrong:
        raise RuntimeError(f"load_package: the package is damaged: the sum of {wrong[0] if wrong else CODE} is wrong")
    return kept, code


@dataclasses.dataclass
class PT2ArchiveContents:
    """What a `.pt2` file holds."""

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, AOTICompiledModel]
    extra_files: dict[str, Any]


def load_pt2(f: Any, *, expected_opset_version: dict[str, int] | None = None, run_single_threaded: bool = False,
             num_runners: int = 1, device_index: int = -1) -> PT2ArchiveContents:
    """Everything in a `.pt2` file: the program, what was compiled of it, further files."""
    with PT2ArchiveReader(f) as reader:
        names = reader.get_file_names()
        extra = {n.removeprefix("extra/"): reader.read_bytes(n) for n in names if n.startswith("extra/")}
    programs, runners = {}, {}
    if any(n.startswith("models/") for n in names):
        if hasattr(f, "seek"):
            f.seek(0)
        programs["model"] = load(f, expected_opset_version=expected_opset_version)
    if METADATA in names:
        runners["model"] = load_package(f, "model", run_single_threaded, num_runners, device_index)
    return PT2ArchiveContents(programs, runners, extra)


def compile_module(gm: Module, args: tuple, kwargs: Mapping[str, Any] | None = None,
                   options: Mapping[str, Any] | None = None, dynamic_shapes: Any = None) -> str:
    """Export a module and package it; where the package is."""
    return compile_and_package(export(gm, args, kwargs, dynamic_shapes=dynamic_shapes), None, options)
