"""A program as plans: captured without writes, compiled by the inductor, for fixed sizes or for many.

Enters: an ExportedProgram. Leaves: a `Prepared`: members for the driver, the bytes of all weights (packed ones where a
plan wants them packed), and what the arguments and results are. Refuses: programs that write to their state or
arguments, draw random numbers, return numbers, or run ops in Python: naming what.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .. import _C
from .._C import Tensor
from ..aot.capture import capture
from ..autograd.grad_mode import no_grad
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..fx.interpreter import Interpreter
from ..inductor.compile_fx import compiled_for
from ..inductor.sized import MOST_REGISTERS, PATIENCE, size, stride
from ..op.extents import COMPUTE, Extent, Trace, Untraceable
from ..symbols import SymInt
from ..utils._pytree import tree_leaves
from .driver import COMPARE, Member
from .kernels import NotFreestanding
from .layout import ALIGNMENT, lay_out

MOST_MEMBERS = 24
MOST_SIZES = 4096
HEADER = 64                        # bytes before the first weight: see headers.py


class Argument(NamedTuple):
    """A tensor that the caller gives or gets; sizes are numbers or names of dims."""

    name: str
    dtype: Any
    sizes: tuple[Any, ...]


class Prepared(NamedTuple):
    """Everything that is written out."""

    members: list[Member]
    weights: bytes
    inputs: list[Argument]
    outputs: list[Argument]
    dims: dict[str, tuple[int, int]]      # name of a dim -> its limits
    workspace: int                        # bytes, for the largest sizes


class _Weights:
    """Tensors one behind the other; equal ones once."""

    def __init__(self) -> None:
        self.data = bytearray(HEADER)
        self.places: dict[bytes, int] = {}

    def add(self, t: Tensor) -> int:
        flat = t.detach()
        if not flat.is_contiguous():
            count = 1 + sum((n - 1) * s for n, s in zip(flat.shape, flat.stride(), strict=True)) if flat.numel() else 0
            flat = flat.as_strided((count,), (1,))
        data = bytes(flat.contiguous().clone().untyped_storage()) if flat.numel() else b""
        key = hashlib.sha256(data).digest()
        if key not in self.places:
            self.data += bytes(-len(self.data) % ALIGNMENT)
            self.places[key] = len(self.data)
            self.data += data
        return self.places[key]


def prepared(program: Any) -> Prepared:
    """The plans of a program."""
    return _Preparation(program.run_decompositions({})).run()


class _Preparation:
    """One program."""

    def __init__(self, program: Any) -> None:
        self.program = program
        for spec in program.graph_signature.output_specs:
            if spec.kind is not OutputKind.USER_OUTPUT:
                raise NotFreestanding(
                    f"aot_compile: the program writes to {spec.target} ({spec.kind.name}). Take it as an argument and "
                    "return the new value."
                )
        placeholders = program.graph.find_nodes(op="placeholder")
        self.entries: list[Any] = []        # for each placeholder: ("state"|"user", index) or a fixed value
        self.state: list[Tensor] = []
        self.nodes: list[Any] = []
        for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
            if spec.kind is not InputKind.USER_INPUT:
                self.entries.append(("state", len(self.state)))
                self.state.append(program.tensor_of(spec).detach().contiguous())
            elif isinstance(spec.arg, ConstantArgument):
                self.entries.append(("fixed", spec.arg.value))
            elif isinstance(node.meta.get("val"), Tensor):
                self.entries.append(("user", len(self.nodes)))
                self.nodes.append(node)
            else:
                raise NotFreestanding(
                    f"aot_compile: argument {node.name} is a number. Make it a tensor, or fix it when exporting."
                )
        self.lifted: list[Tensor] = []
        self.symbols = self.find_symbols()
        self.weights = _Weights()

    def find_symbols(self) -> dict[str, tuple[int, int]]:
        """Symbols that are sizes of arguments, and their limits."""
        found: dict[str, tuple[int, int]] = {}
        limits = {e if isinstance(e, str) else e.sole_symbol: r for e, r in self.program.range_constraints.items()}
        for node in self.nodes:
            for n in node.meta["val"].shape:
                if not isinstance(n, SymInt):
                    continue
                name = n.expression.sole_symbol
                if name is None:
                    raise NotFreestanding(
                        f"aot_compile: a size of {node.name} is {n}; sizes that vary must be dims of their own"
                    )
                low, high = limits[name]
                if high is None:
                    raise NotFreestanding(
                        f"aot_compile: a size of {node.name} varies without limit. Give its Dim a max: plans are made "
                        "for all sizes ahead of time."
                    )
                found[name] = (max(low, 1), high)
        return found

    # --- capture ------------------------------------------------------------------------------------------------------

    def run(self) -> Prepared:
        with no_grad():
            values = {n: self.hint(n, k) for k, n in enumerate(self.symbols)}
            examples = self.examples(values)
            dims = [()] * len(self.state) + [self.moving(node) for node in self.nodes]
            captured = capture(self.function, [*self.state, *examples], wants_grad=False,
                               dynamic=bool(self.symbols), dynamic_dims=dims if self.symbols else None)
            self.check(captured)
            self.graph, self.lifted = captured.graph, [t.contiguous() for t in captured.lifted]
            self.graph.meta["static_inputs"] = [
                *range(len(self.state)), *range(len(self.state) + len(self.nodes), self.num_inputs)
            ]
            members = [self.fixed(examples)] if not self.symbols else self.sized()
        space = self.workspace(members)
        return Prepared(members, bytes(self.weights.data), self.inputs(), self.outputs(), self.named_dims(), space)

    @property
    def num_inputs(self) -> int:
        return len(self.state) + len(self.nodes) + len(self.lifted)

    def hint(self, name: str, number: int) -> int:
        """A size to trace with: no two symbols the same, none of them 0 or 1."""
        low, high = self.symbols[name]
        wanted = max(low, 2) + 3 + 2 * number
        return wanted if wanted <= high else max(low, min(high, 2 + number))

    def moving(self, node: Any) -> tuple[int, ...]:
        return tuple(d for d, n in enumerate(node.meta["val"].shape) if isinstance(n, SymInt))

    def examples(self, values: dict[str, int]) -> list[Tensor]:
        """Arguments of these sizes."""
        device = _C.device("cpu")
        result = []
        for node in self.nodes:
            like = node.meta["val"]
            sizes = [values[n.expression.sole_symbol] if isinstance(n, SymInt) else int(n) for n in like.shape]
            result.append(_C.empty(sizes, None, like.dtype, device).zero_())
        return result

    def function(self, given: list[Any]) -> list[Any]:
        state, user = given[: len(self.state)], given[len(self.state) :]
        args = [{"state": state, "user": user}[kind][at] if kind != "fixed" else at for kind, at in self.entries]
        memory = {Tensor.untyped_storage(t)._cdata for t in given}
        results = []
        for leaf in Interpreter(self.program.graph_module).run(*args):
            if not isinstance(leaf, Tensor):
                raise NotFreestanding("aot_compile: the program returns a number. Return tensors.")
            result = leaf.contiguous()
            if Tensor.untyped_storage(result)._cdata in memory:
                result = result.clone()
            memory.add(Tensor.untyped_storage(result)._cdata)
            results.append(result)
        return results

    def check(self, captured: Any) -> None:
        if captured.meta.draws:
            raise NotFreestanding("aot_compile: the program draws random numbers. Export it in eval() mode.")
        env = captured.shape_env
        for values in self.all_sizes() if env is not None and env.guards else ():
            known = dict(zip(env.hints, values.values(), strict=False))
            for guard in env.guards:
                if all(v >= 2 for v in known.values()) and guard.truth.names <= set(known) and not guard.holds(known):
                    raise NotFreestanding(
                        f"aot_compile: for sizes {values} the program is another ({guard!r} at {guard.location}). "
                        "Narrow the limits of the Dim."
                    )

    # --- members ------------------------------------------------------------------------------------------------------

    def fixed(self, examples: list[Tensor]) -> Member:
        inputs = [*self.state, *examples, *self.lifted]
        return self.member(compiled_for(self.graph, inputs, []), inputs, None, [])

    def sized(self) -> list[Member]:
        """Members until every admitted size has one that holds for it."""
        members: list[Member] = []
        for values in self.all_sizes():
            if any(self.holds(m, values) for m in members):
                continue
            if len(members) >= MOST_MEMBERS:
                raise NotFreestanding(
                    f"aot_compile: {self.symbols} would take more than {MOST_MEMBERS} plans. Narrow the limits of the "
                    "Dims."
                )
            members.append(self.for_sizes(values))
        return members

    def all_sizes(self) -> Iterator[dict[str, int]]:
        """Admitted sizes, middling ones first: what holds for them holds for most."""
        ranges = [range(low, high + 1) for low, high in self.symbols.values()]
        total = 1
        for r in ranges:
            total *= len(r)
        if total > MOST_SIZES:
            raise NotFreestanding(
                f"aot_compile: {total} combinations of sizes {self.symbols} are more than {MOST_SIZES}. Narrow the "
                "limits of the Dims."
            )
        ordered = [sorted(r, key=lambda n, r=r: abs(n - r[len(r) // 2])) for r in ranges]
        for values in itertools.product(*ordered):
            yield dict(zip(self.symbols, values, strict=True))

    def given(self, values: dict[str, int]) -> list[tuple[str, list[int]]]:
        """Numbers of a call: sizes and strides of the arguments that vary."""
        found = []
        for node, example in zip(self.nodes, self.examples(values), strict=True):
            if self.moving(node):
                found.append((node, [*map(int, example.shape), *map(int, example.stride())]))
        return found

    def workspace(self, members: Sequence[Member]) -> int:
        """Bytes of workspace for the largest sizes."""
        values = {n: high for n, (_, high) in self.symbols.items()}
        member = members[0] if not values else next(m for m in members if self.registers(m, values) is not None)
        registers = self.registers(member, values) if values else []
        total = 0
        for sizes in member.layout.bins:
            most = max([registers[n.register] if isinstance(n, Extent) else int(n) for n in sizes], default=0)
            total += -(-most // ALIGNMENT) * ALIGNMENT
        return total

    def holds(self, member: Member, values: dict[str, int]) -> bool:
        """Whether a member's conditions hold for sizes."""
        return self.registers(member, values) is not None

    def registers(self, member: Member, values: dict[str, int]) -> list[int] | None:
        """The numbers of a member for sizes; None where it does not hold for them."""
        registers = [n for _, numbers in self.given(values) for n in numbers]
        for step in member.trace.steps[len(registers) :]:
            name, *parts = step
            a, b = (p[0] if isinstance(p, tuple) else registers[p] for p in parts)
            if name in ("//", "%") and b == 0:
                return None
            result = COMPUTE[name](a, b)
            if name in COMPARE and not result:
                return None
            registers.append(int(result))
        return registers

    def for_sizes(self, values: dict[str, int]) -> Member:
        """A member for these sizes, and all others that its conditions admit."""
        examples = self.examples(values)
        inputs = [*self.state, *examples, *self.lifted]
        trace = Trace(MOST_REGISTERS, PATIENCE)
        which = [len(self.state) + k for k, node in enumerate(self.nodes) if self.moving(node)]
        numbers = {k: [trace.given(int(n)) for n in (*inputs[k].shape, *inputs[k].stride())] for k in which}
        seen = {k: n.meta["val"] for k, n in enumerate(self.graph.graph.find_nodes(op="placeholder"))}
        geometries: list[Any] = [None] * len(inputs)
        first: dict[str, Any] = {}
        try:
            for k in which:
                rank = inputs[k].ndim
                known = [*seen[k].shape, *seen[k].stride()]
                geometries[k] = (
                    [size(known[d], numbers[k][d], first, f"size {d} of input {k}") for d in range(rank)],
                    [stride(known[d], numbers[k][d]) for d in range(rank, 2 * rank)],
                )
            compiled = compiled_for(self.graph, inputs, geometries, first)
            entries = [entry for k in which for entry in self.entries_of(self.nodes[k - len(self.state)])]
            return self.member(compiled, inputs, trace, entries)
        except Untraceable as error:
            raise NotFreestanding(
                f"aot_compile: the program cannot be compiled for many sizes ({error}). Export it for one."
            ) from error
        finally:
            trace.open = False

    def entries_of(self, node: Any) -> list[Any]:
        """How the driver finds sizes and strides of an argument: from the dims of the call."""
        order = list(self.symbols)
        sizes = list(node.meta["val"].shape)

        def amount(n: Any) -> Any:
            return (lambda f: f.dim(order.index(n.expression.sole_symbol))) if isinstance(n, SymInt) else int(n)

        def step(d: int) -> Any:
            def compute(f: Any) -> str:
                total = "1"
                for n in sizes[d + 1 :]:
                    own = amount(n)
                    total = f.times(total, own(f) if callable(own) else str(own))
                return total

            return compute

        return [*map(amount, sizes), *[step(d) for d in range(len(sizes))]]

    def member(self, compiled: Any, inputs: list[Tensor], trace: Trace | None, given: Sequence[Any]) -> Member:
        if compiled.calls:
            raise NotFreestanding(f"aot_compile: these ops run in Python: {', '.join(sorted(set(compiled.calls)))}")
        for step in compiled.steps:
            if not isinstance(step.kernel, int):
                raise NotFreestanding("aot_compile: a step of the plan calls Python or a library")
        tensors = list(compiled.arguments(inputs))
        slots = list(compiled.plan.outputs)
        user = {len(self.state) + k: k for k in range(len(self.nodes))}
        returned = [len(tensors) + k for k, s in enumerate(slots) if s[0] != "temp"]
        outputs = [returned[k] for k in compiled.outputs]
        layout = lay_out(len(tensors), user, slots, compiled.steps, outputs)
        named = {o[0] if isinstance(o, tuple) else o for s in compiled.steps for o in s.operands}
        named |= {c.slot for c in layout.copies}
        weights = {k: self.weights.add(t) for k, t in enumerate(tensors) if k in named and k not in user}
        return Member(compiled.steps, layout, weights, trace, given)

    # --- what the caller sees -----------------------------------------------------------------------------------------

    def names(self) -> dict[str, str]:
        """Symbols by the names of the dims they come from."""
        taken = {n.name for n in self.nodes} | {"weights", "workspace", "inputs", "outputs", "dims"}
        found: dict[str, str] = {}
        for k, n in enumerate(self.symbols):
            name = self.program._dim_names.get(n, f"dim{k}")
            found[n] = f"dim{k}" if name in taken or name in found.values() else name
        return found

    def named_dims(self) -> dict[str, tuple[int, int]]:
        return {self.names()[n]: limits for n, limits in self.symbols.items()}

    def shown(self, n: Any) -> Any:
        if not isinstance(n, SymInt):
            return int(n)
        text = repr(n.expression)
        for symbol, name in self.names().items():
            text = text.replace(symbol, name)
        return text

    def inputs(self) -> list[Argument]:
        return [Argument(n.name, n.meta["val"].dtype, tuple(map(self.shown, n.meta["val"].shape))) for n in self.nodes]

    def outputs(self) -> list[Argument]:
        found = []
        for k, node in enumerate(tree_leaves(list(self.program.graph.output_node().args[0]))):
            value = node.meta["val"]
            found.append(Argument(f"out{k}", value.dtype, tuple(map(self.shown, value.shape))))
        return found
