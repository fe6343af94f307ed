"""ExportedProgram: a graph of ATen ops, what its inputs and outputs are, the tensors it holds, and what its arguments
must meet.

Enters: the parts, from a capture, a file or a transformation. Leaves: `module()`, which runs; the graph, which passes
read and change; `run_decompositions`. Refuses: to be called itself, and graphs whose signature does not fit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._C import Tensor
from .._decomp.core import core_rule
from .._export.verifier import SpecViolationError, load_verifier
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn import Module, Parameter
from .decompositions import decomposed, default_table
from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind
from .module_calls import ModuleCallEntry, ModuleCallSignature
from .recording import keep_name
from .sizes import Guards, ValueRange
from .unlift import unlifted
from .values import flat_arguments

__all__ = ["CallSpec", "ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


_FIXED = frozenset(
    ("graph_module", "graph", "graph_signature", "state_dict", "constants", "tensor_constants", "range_constraints",
     "module_call_graph", "call_spec", "dialect", "verifier", "verifiers")
)


class CallSpec(NamedTuple):
    """The structures of arguments and results."""

    in_spec: Any
    out_spec: Any


class ExportedProgram:
    """A whole program as one graph. `module()` makes it callable."""

    def __init__(self, root: Module | GraphModule, graph: Graph, graph_signature: ExportGraphSignature,
                 state_dict: dict[str, Any], range_constraints: Mapping[Any, ValueRange],
                 module_call_graph: list[ModuleCallEntry], example_inputs: tuple | None = None,
                 constants: dict[str, Any] | None = None, *, verifiers: Sequence[Any] | None = None,
                 shape_env: Any = None, dialect: str = "TRAINING",
                 dim_names: Mapping[str, str] | None = None) -> None:
        self._graph_module = root if isinstance(root, GraphModule) and root.graph is graph else GraphModule(root, graph)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints = dict(range_constraints)
        self._module_call_graph, self._example_inputs = list(module_call_graph), example_inputs
        self._constants = dict(constants or {})
        self._shape_env, self._dialect = shape_env, dialect
        self._dim_names = dict(dim_names or {})          # symbols by the names their Dims have
        self._verifiers = list(verifiers) if verifiers else [load_verifier(dialect)]
        self.validate()

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def graph_module(self) -> GraphModule:
        return self._graph_module

    @property
    def graph(self) -> Graph:
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Tensors that are no state: constants and buffers that are not persistent."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        return self._constants

    @property
    def range_constraints(self) -> dict[Any, ValueRange]:
        """Between which numbers each symbol lies."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple | None:
        return self._example_inputs

    @property
    def call_spec(self) -> CallSpec:
        signature = self._module_call_graph[0].signature
        assert signature is not None, "the program's own entry has a signature"
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self) -> str:
        """TRAINING as captured, ATEN once decomposed."""
        return self._dialect

    @property
    def verifier(self) -> Any:
        """What checks the graph; the first, where there are several."""
        return self._verifiers[0]

    @property
    def verifiers(self) -> list[Any]:
        return self._verifiers

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED:
            raise RuntimeError(f"ExportedProgram: {name} cannot be set; _update() makes a program with another graph")
        super().__setattr__(name, value)

    @example_inputs.setter
    def example_inputs(self, value: tuple | None) -> None:
        is_call = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict)
        if value is not None and not (is_call and isinstance(value[0], tuple)):
            raise ValueError(f"example_inputs: expected a tuple of arguments and a dict of keywords, got {value!r}")
        if value is not None:
            flat_arguments(self.call_spec.in_spec, *value)
        self._example_inputs = value

    def parameters(self) -> Iterator[Parameter]:
        for _, value in self.named_parameters():
            yield value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        for _, value in self.named_buffers():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        hidden = set(self._graph_signature.non_persistent_buffers)
        for name in self._graph_signature.buffers:
            yield name, self._constants[name] if name in hidden else self._state_dict[name]

    def tensor_of(self, spec: Any) -> Any:
        """What an input that is no argument holds."""
        if spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent):
            return self._state_dict[spec.target]
        return self._constants[spec.target]

    # --- running ------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("An ExportedProgram is no function: call the module that its module() makes.")

    def guards(self) -> Guards:
        """What arguments must meet."""
        placeholders = {n.name: n for n in self.graph.find_nodes(op="placeholder")}
        names, values = [], []
        for spec in self._graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                node = placeholders[spec.arg.name]
                names.append(spec.arg.name)
                is_fixed = isinstance(spec.arg, ConstantArgument)
                values.append(spec.arg.value if is_fixed else node.meta.get("val"))
        return Guards(names, values, self._range_constraints, self._shape_env)

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that runs the program, with its parameters and buffers; it checks arguments unless told not to."""
        return unlifted(self, check_guards)

    def run_decompositions(self, decomp_table: Mapping[Any, Callable] | None = None,
                           decompose_custom_triton_ops: bool = False) -> ExportedProgram:
        """The program without writes, its ops replaced by those of the table (default: `default_decompositions()`)."""
        if decompose_custom_triton_ops:
            raise NotImplementedError("run_decompositions: there are no Triton ops here to decompose")
        return decomposed(self, rule_of=core_rule) if decomp_table is None else decomposed(self, decomp_table)

    # --- copies and checks --------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise unless the graph and the signature belong together."""
        placeholders = self.graph.find_nodes(op="placeholder")
        if len(placeholders) != len(self._graph_signature.input_specs):
            raise SpecViolationError(
                f"ExportedProgram: the graph has {len(placeholders)} placeholders, but the signature "
                f"{len(self._graph_signature.input_specs)} inputs"
            )
        for node, spec in zip(placeholders, self._graph_signature.input_specs, strict=True):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name != node.name:
                raise SpecViolationError(
                    f"ExportedProgram: input {spec.arg.name} of the signature is {node.name} in the graph"
                )
            if spec.kind is InputKind.USER_INPUT:
                continue
            held = self._constants
            if spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent):
                held = self._state_dict
            if spec.target not in held:
                raise SpecViolationError(f"ExportedProgram: nothing is held for {spec.target} ({spec.kind.name})")
        returned = self.graph.output_node().args[0]
        if len(returned) != len(self._graph_signature.output_specs):
            raise SpecViolationError(
                f"ExportedProgram: the graph returns {len(returned)} values, but the signature has "
                f"{len(self._graph_signature.output_specs)} outputs"
            )
        self.graph.lint()
        for verifier in self._verifiers:
            verifier().check(self)

    def _update(self, graph_module: GraphModule, graph_signature: ExportGraphSignature, *,
                state_dict: dict[str, Any] | None = None, constants: dict[str, Any] | None = None,
                dialect: str | None = None,
                module_call_graph: list[ModuleCallEntry] | None = None,
                verifiers: Sequence[Any] | None = None) -> ExportedProgram:
        """The same program with another graph."""
        return ExportedProgram(
            graph_module, graph_module.graph, graph_signature,
            self._state_dict if state_dict is None else state_dict, copy.copy(self._range_constraints),
            copy.copy(module_call_graph or self._module_call_graph), self._example_inputs,
            self._constants if constants is None else constants, shape_env=self._shape_env,
            dialect=dialect or self._dialect, dim_names=self._dim_names,
            verifiers=verifiers or (None if dialect else self._verifiers),
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        result = copy.deepcopy(self._graph_module, memo)
        signature = copy.deepcopy(self._graph_signature, memo)
        for node, spec in zip(result.graph.find_nodes(op="placeholder"), signature.input_specs, strict=True):
            keep_name(node, spec.arg.name)
        result.recompile()
        return self._update(result, signature, state_dict=copy.deepcopy(self._state_dict, memo),
                            constants=copy.deepcopy(self._constants, memo))

    def _repr_html_(self) -> str:
        """What a notebook shows: the graph, drawn."""
        from ..fx.passes.drawing import graph_page  # for notebooks alone

        return graph_page(self.graph_module.graph, type(self).__name__)

    def __str__(self) -> str:
        code = self._graph_module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
        signature = str(self._graph_signature).replace("\n", "\n    ")
        ranges = f"Range constraints: {self._range_constraints}\n"
        return f"ExportedProgram:\n    {code}\nGraph signature: {signature}\n{ranges}"

    def print_readable(self) -> str:
        """Print the program as text, and return it."""
        text = str(self)
        print(text)
        return text


def default_decompositions() -> dict[Any, Callable]:
    """The table of `run_decompositions`: composites as core ATen ops. Delete entries to keep ops whole."""
    return default_table()
