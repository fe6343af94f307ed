"""torch.onnx.export: a module and example arguments as an ONNX model.

Enters: what PyTorch's function takes. Leaves: an `ONNXProgram`, and a file where one is asked for. Refuses, by name:
arguments for which there is nothing here.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from .._C import Tensor
from ..base import logs
from ..dynamo.errors import UserError
from ..export import Dim, ExportedProgram, export as export_program, save as save_program
from ..nn import Module
from ..utils import _pytree as pytree
from . import report as reports, state
from .building import DEFAULT, NEWEST, OLDEST
from .converting import Wanted, converted, prepared
from .enums import OperatorExportTypes, TrainingMode
from .errors import OnnxExporterError, OnnxExporterWarning
from .program import ONNXProgram
from .quantized_models import in_floats
from .sizes import assumed, within_bounds
from .testing import assert_onnx_program
from .verification import verify_onnx_program

BFLOAT16 = 22      # the first opset that convolves these: what models of them get unless one is asked for


def export(model: Any, args: Any = (), f: Any = None, *, kwargs: dict[str, Any] | None = None,
           verbose: bool | None = None, input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None, opset_version: int | None = None, dynamo: bool = True,
           external_data: bool = True, dynamic_shapes: Any = None,
           custom_translation_table: Mapping[Any, Callable] | None = None, report: bool = False, optimize: bool = True,
           verify: bool = False, profile: bool = False, dump_exported_program: bool = False,
           artifacts_dir: str | os.PathLike[str] = ".", export_params: bool = True,
           keep_initializers_as_inputs: bool = False, dynamic_axes: Any = None,
           training: TrainingMode = TrainingMode.EVAL,
           operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX, do_constant_folding: bool = True,
           custom_opsets: Mapping[str, int] | None = None,
           export_modules_as_functions: bool | Collection[type] = False, autograd_inlining: bool = True,
           ) -> ONNXProgram | None:
    """`model(*args, **kwargs)` as an ONNX model, written to the file `f` if that is given.

    `dynamic_shapes` says which sizes may vary, as `export.export` has it, with names in the place of Dims too:
    `{"x": {0: "batch"}}`. `dynamic_axes` is the older way to say so, by names of inputs. `custom_translation_table`
    has rules for ops: functions of a builder and the op's arguments. See docs/onnx.md for every argument.

    Arguments:
        model: a module, a function, or an exported program
        args: examples of its arguments
        f: the file to write; None for none
        kwargs: examples of its keyword arguments
        verbose: whether progress is printed
        input_names: names of the inputs, in order
        output_names: names of the results, in order
        opset_version: version of ONNX's ops; None for a recent one
        dynamo: whether `export.export` reads the model; otherwise it is traced
        external_data: whether large weights go into a file of their own
        dynamic_shapes: which sizes may vary, as `export.export` has it
        custom_translation_table: rules for ops, by op
        report: whether a report is written beside the file
        optimize: whether the graph is simplified
        verify: whether ONNX Runtime's results are compared with the model's
        profile: whether the time of each part is reported
        dump_exported_program: whether the exported program is written too
        artifacts_dir: where reports go
        export_params: whether weights are in the file
        keep_initializers_as_inputs: whether weights are inputs as well
        dynamic_axes: the older way to say which sizes may vary
        training: whether the model is exported as it trains or as it evaluates
        operator_export_type: which ops may stand in the graph
        do_constant_folding: whether what depends on nothing is computed now
        custom_opsets: versions of domains that are not ONNX's own
        export_modules_as_functions: which modules become functions of the file
        autograd_inlining: whether custom functions are replaced by what they do

    Example:
        >>> model = rl.nn.Linear(3, 2)
        >>> program = rl.onnx.export(model, (rl.ones(1, 3),), "model.onnx", verbose=False)
        >>> import os
        >>> os.path.exists("model.onnx")
        True
    """
    opset = _opset(opset_version)
    _refuse(operator_export_type, export_modules_as_functions, autograd_inlining)
    clock, folder = reports.Clock(), os.fspath(artifacts_dir)
    program = found = results = None
    try:
        with state.exporting(), _mode(model, training, dynamo):
            program = _program_of(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names)
            clock.stage("capture")
            if dump_exported_program:
                os.makedirs(folder, exist_ok=True)
                save_program(program, os.path.join(folder, f"onnx_export_{reports.stamp()}.pt2"))
            if opset_version is None and any(t.dtype.code == "bf16" for t in program.state_dict.values()):
                opset = BFLOAT16
            table = dict(custom_translation_table or {})
            core = prepared(program, table, opset)
            clock.stage("decompose")
            wanted = Wanted(opset, optimize, tuple(input_names or ()), tuple(output_names or ()), rules=table)
            result = converted(core, wanted)
            result.opsets = {**(custom_opsets or {}), **result.opsets}
            clock.stage("convert")
        found = ONNXProgram(result, core)
        _tell_axes(found, dynamic_axes or {})
        _tell(found, opset, clock)
        if verbose:
            print(found)
        if verify:
            results = _verified(found)
            clock.stage("verify")
        if f is not None:
            _save(found, f, export_params, keep_initializers_as_inputs, external_data)
            clock.stage("save")
    except Exception as error:
        if report:
            reports.write(folder, found, program, clock, error, results, profile)
        raise
    if report or profile:
        reports.write(folder, found, program, clock, None, results, profile)
    if not dynamo:
        warnings.warn("onnx.export(dynamo=False): TorchScript has no exporter here; the same one was used. As there,"
                      " None is returned.", OnnxExporterWarning, stacklevel=2)
        return None
    return found


def _program_of(model: Any, args: Any, kwargs: dict[str, Any] | None, shapes: Any, axes: Any,
                names: Sequence[str] | None) -> Any:
    """The program to convert: the one that is given, or that of a module."""
    if isinstance(model, ExportedProgram):
        if shapes is not None or axes is not None:
            raise ValueError("onnx.export: an ExportedProgram has its sizes; give dynamic_shapes to export.export")
        return model
    args = args if isinstance(args, tuple) else (args,)
    return _captured(model, args, dict(kwargs or {}), shapes, axes, names or ())


def _tell(found: ONNXProgram, opset: int, clock: Any) -> None:
    """What became of a program, for those who listen."""
    if (log := logs.messages("torch.onnx")) is not None:
        log.info("exported to opset %d: %d nodes", opset, len(found.model.graph.nodes))
    if (log := logs.artifact("onnx_diagnostics")) is not None:
        for name, seconds in clock.stages.items():
            log.debug("%s took %.3f s", name, seconds)


def _opset(version: int | None) -> int:
    if version is None:
        return DEFAULT
    if not OLDEST <= version <= NEWEST:
        raise ValueError(f"onnx.export: opset_version must be from {OLDEST} to {NEWEST}, got {version}")
    return version


def _refuse(kind: Any, functions: Any, inlining: bool) -> None:
    if OperatorExportTypes(kind) is not OperatorExportTypes.ONNX:
        raise NotImplementedError(
            f"onnx.export(operator_export_type={kind}): models have ONNX's own operators only; give rules for others "
            "with custom_translation_table."
        )
    if functions:
        raise NotImplementedError("onnx.export(export_modules_as_functions=...): modules do not become functions here.")
    if not inlining:
        raise NotImplementedError(
            "onnx.export(autograd_inlining=False): autograd Functions are always exported as what their forward does."
        )


@contextlib.contextmanager
def _mode(model: Any, training: TrainingMode, dynamo: bool) -> Iterator[None]:
    """Modules as `training` wants them. PyTorch's exporter leaves them as they are, unless it is the older one."""
    training = TrainingMode(training)
    wants = training is TrainingMode.TRAINING
    if not isinstance(model, Module) or training is TrainingMode.PRESERVE or (dynamo and not wants):
        yield
        return
    before = {m: m.training for m in model.modules()}
    model.train(wants)
    try:
        yield
    finally:
        for m, was in before.items():
            m.training = was


def _captured(model: Any, args: tuple, kwargs: dict[str, Any], shapes: Any, axes: Any, names: Sequence[str]) -> Any:
    if not isinstance(model, Module):
        raise TypeError(
            f"onnx.export: expected a Module or an ExportedProgram, got {type(model).__name__}. Put a function into a "
            "module's forward."
        )
    model = in_floats(model)
    if axes is not None and shapes is not None:
        raise ValueError("onnx.export: give either dynamic_shapes or dynamic_axes")
    if axes is not None:
        shapes = _from_axes(model, args, kwargs, axes, names)
    elif shapes is not None:
        shapes = _named_dims(shapes, {})
    notes: list[str] = []
    try:
        program = export_program(model, args, kwargs, dynamic_shapes=shapes)
    except UserError:
        found = within_bounds(model, args, kwargs, shapes)
        if found is None:
            raise
        program, notes = found
    for note in [*notes, *assumed(program)]:
        warnings.warn(f"onnx.export: {note}.", OnnxExporterWarning, stacklevel=3)
    return program


def _named_dims(shapes: Any, dims: dict[str, Any]) -> Any:
    """Names of sizes as Dims; a name is the same size wherever it stands."""
    if isinstance(shapes, str):
        return dims.setdefault(shapes, Dim(shapes))
    if isinstance(shapes, dict):
        return {key: _named_dims(value, dims) for key, value in shapes.items()}
    if type(shapes) in (list, tuple):
        return type(shapes)([_named_dims(value, dims) for value in shapes])
    return shapes


def _from_axes(model: Module, args: tuple, kwargs: dict[str, Any], axes: Mapping[str, Any], names: Sequence[str]
               ) -> Any:
    """dynamic_axes as dynamic_shapes: inputs by the names they are given, else by those of forward's parameters."""
    from ..export.dynamic_shapes import named_arguments  # noqa: PLC0415 - for the older way alone

    given = named_arguments(model, args, kwargs)
    leaves, spec = pytree.tree_flatten(given)
    own = [_joined(path) for path, _ in pytree.tree_flatten_with_path(given)[0]]
    tensors = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    called = dict(zip(names, tensors, strict=False)) or {own[i]: i for i in tensors}
    dims: dict[str, Any] = {}
    shapes: list[Any] = [None] * len(leaves)
    for name, wanted in axes.items():
        if name not in called:
            continue                          # an output, whose sizes follow from those of the inputs
        pairs = wanted.items() if isinstance(wanted, Mapping) else [(d, f"{name}_dim_{d}") for d in wanted]
        rank = leaves[called[name]].ndim
        shapes[called[name]] = {d % rank: dims.setdefault(n, Dim(n)) for d, n in pairs}
    return pytree.tree_unflatten(shapes, spec)


def _tell_axes(found: ONNXProgram, axes: Mapping[str, Any]) -> None:
    """Names of `dynamic_axes` that nothing in the model has."""
    graph = found.model.graph
    inputs, outputs = [v.name for v in graph.inputs], [v.name for v in graph.outputs]
    for name in axes:
        if name not in inputs and name not in outputs:
            warnings.warn(f"onnx.export: dynamic_axes names {name!r}, and the model has the inputs"
                          f" {', '.join(inputs) or 'none'} and the results {', '.join(outputs) or 'none'}: no size"
                          " varies by it.", OnnxExporterWarning, stacklevel=3)


def _joined(path: Sequence[Any]) -> str:
    return "_".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)


def _save(found: ONNXProgram, f: Any, params: bool, as_inputs: bool, external: bool) -> None:
    if hasattr(f, "write"):
        f.write(found.serialize())
        return
    found.save(f, include_initializers=params, keep_initializers_as_inputs=as_inputs, external_data=external)


def _verified(found: ONNXProgram) -> list[Any]:
    """How far results are from the program's for the example arguments; raises where they are too far."""
    try:
        assert_onnx_program(found, rtol=1e-3, atol=1e-4)
    except AssertionError as error:
        raise OnnxExporterError(f"onnx.export(verify=True): {error}") from error
    return verify_onnx_program(found)
