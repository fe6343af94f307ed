"""export: a module and example arguments, run once on fake tensors, as an ExportedProgram.

Enters: a module, arguments, which sizes may vary. Leaves: the program. Refuses: programs that look at elements while
they are traced, that change attributes, or that fix sizes declared dynamic: always naming the user's line or argument.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .._C import Tensor
from ..aot.module_state import ModuleState
from ..aot.refused import NotCaptured, user_line
from ..autograd.grad_mode import is_grad_enabled
from ..base import logs
from ..base.shape import Size
from ..dynamo.errors import UserError
from ..dynamo.record.tracing import tracing
from ..fake import DataDependentOutputException, FakeTensor, GuardOnDataDependentSymNode
from ..fx.experimental.symbolic_sizes import SYMBOLIC
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module, Parameter
from ..random import fork_rng
from ..symbols import symbolic_math
from ..utils import _pytree as pytree
from .draft_values import DraftEnv, RealValues
from .dynamic_shapes import leaf_shapes, named_arguments
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .module_calls import NotedCalls, noted_calls
from .recording import ExportTracer, Recorder, module_stack
from .regions import wrap_regions
from .sizes import Sizes
from .strict import check_strictly
from .values import argument_of, note_numbers


def export(mod: Module, args: tuple, kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
           strict: bool = False, preserve_module_call_signature: Sequence[str] = (),
           prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """The whole of `mod(*args, **kwargs)` as one graph of ATen ops.

    `dynamic_shapes` says which sizes may vary, by argument: `{"x": {0: Dim("batch", max=64)}}`, a tuple in the order of
    the arguments, or a `ShapesCollection`. All others are those of the examples. `strict` reads the program's bytecode
    first, and refuses what one run would not show: branches on elements, calls that cannot be looked into.
    `preserve_module_call_signature` names modules whose arguments and results `unflatten` shall keep the structure of.

    Arguments:
        mod: the module
        args: examples of its arguments
        kwargs: examples of its keyword arguments
        dynamic_shapes: which sizes may vary; None for none
        strict: whether the program's bytecode is read, not one run of it
        preserve_module_call_signature: names of modules whose arguments and results `unflatten` keeps
        prefer_deferred_runtime_asserts_over_guards: whether conditions on sizes are checked when the program runs

    Example:
        >>> program = rl.export.export(rl.nn.Linear(3, 2), (rl.ones(1, 3),))
        >>> program.module()(rl.ones(1, 3)).shape
        rushlight.Size([1, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(
            f"export: expected a Module, got {type(mod).__name__}. Put a function into a module's forward."
        )
    if not isinstance(args, tuple):
        raise UserError(
            f"export: expected example arguments as a tuple, got {type(args).__name__}. Write (x,) for one."
        )
    if prefer_deferred_runtime_asserts_over_guards:
        raise NotImplementedError(
            "export(prefer_deferred_runtime_asserts_over_guards=True): what the program assumes of sizes is checked "
            "when module() is called, before it runs. Leave it False."
        )
    if strict:
        check_strictly(mod, args, kwargs or {})
    result = _Export(mod, args, dict(kwargs or {}), dynamic_shapes, preserved=preserve_module_call_signature).run()
    if (log := logs.messages("torch.export")) is not None:
        log.info("exported %s: %d nodes, sizes that vary: %s", type(mod).__name__, len(result.graph.nodes),
                 result.range_constraints or "none")
    if (log := logs.messages("torch.export", logs.DEBUG)) is not None:
        log.debug("%s", result)
    return result


def export_as_example(mod: Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any,
                      preserved: Sequence[str] = ()) -> tuple[ExportedProgram, list[str]]:
    """As `export`, but what depends on elements is as for the example; which, and where, is listed."""
    sizes = Sizes(DraftEnv)
    with fork_rng():
        program = _Export(mod, args, kwargs, dynamic_shapes, sizes, RealValues(sizes.env), preserved).run()
    return program, sizes.env.taken


class _Export:
    """One export."""

    def __init__(self, mod: Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any,
                 sizes: Sizes | None = None, values: RealValues | None = None,
                 preserved: Sequence[str] = ()) -> None:
        self.mod, self.args, self.kwargs, self.values = mod, args, kwargs, values
        self.paths = _modules_by_path(mod)
        self.preserved = {path: _module_at(self.paths, path) for path in preserved}
        self.shapes = leaf_shapes(mod, args, kwargs, dynamic_shapes)
        self.sizes = sizes or Sizes()
        self.state = ModuleState([mod])
        self.tracer = ExportTracer(_constant_names(mod))
        self.tracer.env, self.tracer.snapshots = self.sizes.env, self.sizes.mode
        note = self.tracer.note_element
        self.sizes.mode.on_scalar = note if values is None else values.noting(note)
        self.inputs: list[InputSpec] = []

    def run(self) -> ExportedProgram:
        held = self.held_tensors()
        leaves = self.arguments()
        recorder = Recorder(self.tracer)
        recorder.keeps_casts = True
        recorder.values, self.sizes.mode.on_detach = self.values, recorder.detached
        self.sizes.mode.on_resize = recorder.resized
        with self.sizes.mode, symbolic_math(), tracing(), module_stack(self.tracer, self.mod), \
                noted_calls(self.tracer, self.preserved) as calls:
            result = self.traced(recorder, held, leaves)
        self.sizes.mode.on_scalar = self.sizes.mode.on_detach = None      # it lives on, with the graph
        self.sizes.mode.on_resize = None
        return self.program(result, calls)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def held_tensors(self) -> list[Any]:
        """A fake for every parameter and buffer, in the order of the module's state; each name a placeholder. What has
        several names is computed with by the last."""
        fakes: dict[int, FakeTensor] = {}
        hidden = _hidden_buffers(self.mod)
        named = [*((InputKind.PARAMETER, n, t) for n, t in self.mod.named_parameters(remove_duplicate=False)),
                 *((InputKind.BUFFER, n, t) for n, t in self.mod.named_buffers(remove_duplicate=False))]
        for kind, path, t in named:
            prefix = "p" if kind is InputKind.PARAMETER else "b"
            proxy = self.tracer.add_input(f"{prefix}_{path.replace('.', '_')}")
            persistent = None if kind is InputKind.PARAMETER else path not in hidden
            fake = fakes.get(id(t))
            if fake is None:
                fake = fakes[id(t)] = self.sizes.mode.from_tensor(t.detach(), static_shapes=True)
                fake.requires_grad_(t.requires_grad)
                if self.values is not None:
                    self.values.start(fake, t)
            self.tracer.track(fake, proxy)
            self.inputs.append(InputSpec(kind, TensorArgument(proxy.node.name), path, persistent))
        return [fakes.get(id(t), t) for t in self.state.tensors()]

    def arguments(self) -> list[Any]:
        """The leaves of the arguments as the trace sees them; each a placeholder."""
        combined = named_arguments(self.mod, self.args, self.kwargs)
        paths = [_joined(path) for path, _ in pytree.tree_flatten_with_path(combined)[0]]
        leaves = pytree.tree_leaves(combined)
        results = []
        for value, shape, name in zip(leaves, self.shapes, paths, strict=True):
            proxy = self.tracer.add_input(name)
            if self.tracer.first_argument is None:
                self.tracer.first_argument = proxy.node
            fake = self.sizes.argument(value, shape, name)
            if isinstance(fake, Tensor):
                self.tracer.track(fake, proxy)
                if self.values is not None:
                    self.values.start(fake, value)
                arg: Any = TensorArgument(proxy.node.name)
            else:
                self.tracer.sizes.note(fake, proxy, None)
                proxy.node.meta["val"] = fake
                is_symbol = isinstance(fake, SYMBOLIC)
                arg = argument_of(fake, proxy.node) if is_symbol else ConstantArgument(proxy.node.name, fake)
                if not is_symbol and not isinstance(fake, (int, float, bool, str, type(None))):
                    raise ValueError(
                        f"export: argument {name} is a {type(fake).__name__}. Arguments are tensors, numbers, strings, "
                        "None, and containers of them; register a dataclass with export.register_dataclass."
                    )
            self.inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))
            results.append(fake)
        return results

    # --- the trace ----------------------------------------------------------------------------------------------------

    def traced(self, recorder: Recorder, held: list[Any], leaves: list[Any]) -> Any:
        spec = pytree.tree_structure((self.args, self.kwargs))
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        ranks = [(leaf, leaf.ndim) for leaf in leaves if isinstance(leaf, Tensor)]
        try:
            with self.state.exchanged(held, _told_of_change):
                result = recorder.run_recorded(lambda: self.mod(*args, **kwargs))
        except NotCaptured as error:
            raise UserError(str(error).replace("compile: ", "export: ").replace("uncompiled", "out")) from error
        except (DataDependentOutputException, GuardOnDataDependentSymNode) as error:
            line = user_line(error.__traceback__)
            raise GuardOnDataDependentSymNode(
                f"export: the program needs the elements of a tensor while it is traced{f' at {line}' if line else ''}."
                " A graph cannot hold Python that depends on them: keep the choice in tensors (torch.where), or state "
                f"what holds with torch._check. ({error})", getattr(error, "names", ())
            ) from error
        self.tracer.record_checks()
        if any(leaf.ndim != rank for leaf, rank in ranks):
            raise UserError("export: the program resizes one of its arguments in place, which a graph cannot. Return a "
                            "tensor of the new sizes.")
        return result

    # --- the program --------------------------------------------------------------------------------------------------

    def program(self, result: Any, noted: NotedCalls) -> ExportedProgram:
        result = pytree.tree_map(lambda x: tuple(x) if isinstance(x, Size) else x, result)
        leaves, out_spec = pytree.tree_flatten(result)
        nodes = [self.node_of(leaf, i) for i, leaf in enumerate(leaves)]
        if any(isinstance(leaf, Tensor) and isinstance(node, Node) and isinstance(node.meta.get("val"), Tensor)
               and node.meta["val"].ndim != leaf.ndim for leaf, node in zip(leaves, nodes, strict=True)):
            raise UserError("export: the program resizes a tensor in place, which a graph cannot. Make one of the new"
                            " sizes.")
        outputs = [OutputSpec(OutputKind.USER_OUTPUT, _output_argument(leaf, node), None)
                   for leaf, node in zip(leaves, nodes, strict=True)]
        graph = self.tracer.graph
        graph.output(tuple(nodes))
        ranges = self.sizes.settle()
        graph.eliminate_dead_code(noted.is_kept)
        note_numbers(graph)
        signatures = noted.signatures()
        ambient = is_grad_enabled(), None      # a program exported in mixed precision has its own, wherever it runs
        wrap_regions(self.tracer.root, graph, self.tracer.grad_modes, self.tracer.cast_modes, ambient)
        constants = {path: t for path, (t, _) in self.tracer.constants.items()}
        at = next((i for i, s in enumerate(self.inputs) if s.kind is InputKind.USER_INPUT), len(self.inputs))
        self.inputs[at:at] = [
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), path)
            for path, (_, node) in self.tracer.constants.items()
        ]
        state = _state(self.mod)
        constants |= {n: t.detach() for n, t in self.mod.named_buffers(remove_duplicate=False)
                      if n in _hidden_buffers(self.mod)}
        in_spec = pytree.tree_structure((self.args, self.kwargs))
        names = _names_of_arguments(self.mod, self.args, self.kwargs)
        calls = [ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec, names))]
        calls += [ModuleCallEntry(path, signatures.pop(path, None)) for path in self.paths if path]
        calls += [ModuleCallEntry(path, signature) for path, signature in signatures.items()]      # further calls
        return ExportedProgram(
            GraphModule(self.tracer.root, graph), graph, ExportGraphSignature(self.inputs, outputs), state, ranges,
            calls, (self.args, self.kwargs), constants, shape_env=self.sizes.env, dim_names=self.sizes.names(),
        )

    def node_of(self, leaf: Any, position: int) -> Any:
        if isinstance(leaf, Tensor):
            return self.tracer.proxy_of(leaf).node
        if isinstance(leaf, SYMBOLIC):
            result = self.tracer.sizes.proxy(leaf)
            node = getattr(result, "node", result)
            if isinstance(node, Node):
                node.meta["val"] = leaf
            return node
        if isinstance(leaf, (int, float, bool, str, type(None))):
            return leaf
        raise UserError(
            f"export: result {position} is a {type(leaf).__name__}. Results are tensors, numbers, strings, None, and "
            "containers of them; register a dataclass with export.register_dataclass."
        )


def _told_of_change(attribute: str) -> None:
    warnings.warn(
        f"export: forward changes {attribute}, which a graph cannot repeat: it is as it was before. Keep such state in "
        "buffers.", stacklevel=2,
    )


def _output_argument(leaf: Any, node: Any) -> Any:
    return argument_of(leaf, node) if isinstance(node, Node) else ConstantArgument("", node)


def _joined(path: Sequence[Any]) -> str:
    """The name of a leaf: `d_q` for d["q"], `pair_0` for pair[0]."""
    parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
    text = "_".join(parts)
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text)


def _names_of_arguments(mod: Module, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    signature = inspect.signature(mod.forward)
    bound = signature.bind(*args, **kwargs).arguments
    names: list[str] = []
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in kwargs:
            names.append(name)
    return [*names, *kwargs]


def _modules_by_path(mod: Module) -> dict[str, Module]:
    return dict(mod.named_modules(remove_duplicate=False))


def _module_at(paths: Mapping[str, Module], path: str) -> Module:
    if path not in paths or not path:
        raise AttributeError(
            f"export(preserve_module_call_signature=...): there is no module {path!r} in the one exported. It has "
            f"{sorted(p for p in paths if p)}."
        )
    return paths[path]


def _hidden_buffers(mod: Module) -> set[str]:
    """Buffers that no state dict has."""
    return {
        f"{path}.{name}" if path else name
        for path, m in mod.named_modules(remove_duplicate=False)
        for name in m._non_persistent_buffers_set
    }


def _state(mod: Module) -> dict[str, Any]:
    """The state dict, parameters as such."""
    found = dict(mod.named_parameters(remove_duplicate=False))
    hidden = _hidden_buffers(mod)
    found |= {n: t.detach() for n, t in mod.named_buffers(remove_duplicate=False) if n not in hidden}
    return found


def _constant_names(mod: Module) -> dict[int, str]:
    """Tensors that modules hold as plain attributes: where."""
    found: dict[int, str] = {}
    for path, m in mod.named_modules():
        for name, value in m.__dict__.items():
            if isinstance(value, Tensor) and not isinstance(value, Parameter):
                found.setdefault(id(value), f"{path}.{name}" if path else name)
    return found
