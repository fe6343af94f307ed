"""What the inductor does with a graph, for those who listen (base/logs.py), and the folder of TORCH_COMPILE_DEBUG.

Enters: a graph, its nodes, the units they became, and the compiled whole. Leaves: lines of the inductor's artifacts,
records of the trace, and with TORCH_COMPILE_DEBUG=1 one folder for each graph with the same texts as files. Changes
nothing of what is compiled.
"""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .. import codegen
from ..base import environment, late, logs
from ..codegen.stored.cache import source_of, source_of_handle
from .report import Line, shown
from .units import Grouping, Unit, natural_order, numbers_in
from .values import Buffer, Value

_HOME = "torch._inductor.compile_fx"


# --- graphs -----------------------------------------------------------------------------------------------------------


def begun(graph_module: Any) -> None:
    """A graph is about to be lowered."""
    if (log := logs.messages(_HOME)) is not None:
        log.info("Step 3: torchinductor compiling %s", _graph_name())
    if (log := logs.artifact("post_grad_graphs")) is not None:
        log.debug("TRACED GRAPH\n ===== AFTER POST GRAD =====\n %s", _code(graph_module))
    if (log := logs.artifact("cudagraph_static_inputs")) is not None:
        log.debug("static input idxs: %s", list(graph_module.meta.get("static_inputs", ())))
    logs.trace("inductor_post_grad_graph", payload=lambda: _code(graph_module))
    if is_kept():
        write("fx_graph_readable.py", _code(graph_module))
        write("fx_graph_transformed.py", _code(graph_module))


def _graph_name() -> str:
    number, _, kind = logs.here.graph.partition("_")
    return f"{'BACKWARDS' if kind == 'backward' else 'FORWARDS'} graph {number or 0}"


def _code(graph_module: Any) -> str:
    return graph_module.print_readable(print_output=False, include_stride=True, include_device=True)


# --- nodes and units --------------------------------------------------------------------------------------------------


class Names:
    """Buffers by names that people can follow: inputs as `arg0`, others as `buf0`."""

    def __init__(self) -> None:
        self.known: dict[Buffer, str] = {}

    def __call__(self, buffer: Buffer) -> str:
        if buffer not in self.known:
            count = sum(name.startswith("arg") == buffer.is_input for name in self.known.values())
            self.known[buffer] = f"{'arg' if buffer.is_input else 'buf'}{count}"
        return self.known[buffer]

    def value(self, value: Value) -> str:
        dtype = str(value.dtype).rpartition(".")[2]
        return f"{self(value.buffer)}: {dtype}{list(value.sizes)}" + ("" if value.is_whole else " (a view)")


def lowered(nodes: Sequence[Any]) -> None:
    """The nodes of a graph, each by itself."""
    log = logs.artifact("ir_pre_fusion", logs.INFO)
    if log is None and not is_kept():
        return
    names = Names()
    text = "\n".join(_node_text(node, names) for node in nodes)
    if log is not None:
        log.info("BEFORE FUSION\n%s", text)
    if is_kept():
        write("ir_pre_fusion.txt", text + "\n")


def _node_text(node: Any, names: Names) -> str:
    lines = [f"{node.name}: {node.form} of {node.definition.name}",
             f"{node.name}.reads = [{', '.join(map(names.value, node.inputs))}]",
             f"{node.name}.writes = [{', '.join(map(names.value, node.results))}]"]
    if node.writes:
        lines.append(f"{node.name}.changes = [{', '.join(map(names, node.writes))}]")
    return "\n".join(lines) + "\n"


def grouped(grouping: Grouping, units: Sequence[Unit]) -> None:
    """The units of a graph in the order in which they run."""
    if logs.heard() is None and not is_kept():
        return
    names = Names()
    text = "\n".join(_unit_text(unit, names) for unit in units)
    if (log := logs.artifact("fusion")) is not None:
        log.debug("%s", _fusion_text(grouping, units))
    if (log := logs.artifact("ir_post_fusion", logs.INFO)) is not None:
        log.info("AFTER FUSION\n%s", text)
    if (log := logs.artifact("schedule")) is not None:
        for place, unit in enumerate(units):
            log.debug("%d: %r %s", place, unit, _sizes(unit))
    if (log := logs.artifact("compute_dependencies")) is not None:
        log.debug("KERNELS AND THOSE THEY WAIT FOR\n%s", _waits_text(units))
    _tell_overlap(units)
    if is_kept():
        write("ir_post_fusion.txt", text + "\n")


def _sizes(unit: Unit) -> list[Any]:
    return list(unit.nodes[-1].results[0].sizes) if unit.nodes[-1].results else []


def _unit_text(unit: Unit, names: Names) -> str:
    head = f"kernel {unit.number}: {unit.form} {_sizes(unit)}"
    return "\n".join([head, *("    " + line for n in unit.nodes for line in _node_text(n, names).splitlines())]) + "\n"


def _fusion_text(grouping: Grouping, units: Sequence[Unit]) -> str:
    lines = [f"===== {len(grouping.nodes)} nodes share {len(units)} kernels ====="]
    lines += [f"fused into kernel {u.number}: {', '.join(n.name for n in u.nodes)}" for u in units if len(u.nodes) > 1]
    lines += [f"cannot fuse {node.name} ({node.definition.name}) with kernel {unit.number} {unit!r}: {why}"
              for node, unit, why in grouping.refused]
    return "\n".join(lines)


def _waits_text(units: Iterable[Unit]) -> str:
    return "\n".join(f"{u.number} {u!r}: {numbers_in(u.before) or 'nothing'}" for u in units)


def _tell_overlap(units: Sequence[Unit]) -> None:
    log, detailed = logs.artifact("overlap"), logs.artifact("overlap_scheduling")
    if log is None and detailed is None:
        return
    moved = [u.number for u in units] != [u.number for u in natural_order(units)]
    said = "collectives begin early and are waited for late" if moved else "nothing is moved: no collective overlaps"
    if log is not None:
        log.debug("order of kernels: %s (%s)", [u.number for u in units], said)
    if detailed is not None:
        detailed.debug("%s\n%s", said, _waits_text(units))


# --- code -------------------------------------------------------------------------------------------------------------


def emitted(compiled: Any, emitter: Any) -> None:
    """What a graph became."""
    if logs.heard() is None and not is_kept():
        return
    log = logs.artifact("output_code")
    if log is not None or logs.is_traced() or is_kept():
        text, path = output_text(compiled), ""
        if is_kept():
            path = write("output_code.py", text)
        if log is not None:
            log.debug("Output code: %s\n%s", logs.here.graph, text)
        logs.trace("inductor_output_code", lambda: {"filename": path or logs.here.graph}, lambda: text)
    if (log := logs.artifact("kernel_code", logs.INFO)) is not None:
        for name, text in kernels_of(compiled).items():
            log.info("Kernel %s:\n%s", name, text)
    if (log := logs.artifact("inductor_metrics", logs.INFO)) is not None:
        log.info("Graph Metrics:\n%s", _metrics_text(emitter))
    if (log := logs.artifact("perf_hints")) is not None and compiled.calls:
        log.info("ops that run in Python between kernels: %s", ", ".join(compiled.calls))
    if (log := logs.messages(_HOME)) is not None:
        log.info("Step 3: torchinductor done compiling %s", _graph_name())


def _metrics_text(emitter: Any) -> str:
    lines = [Line(unit, first, last) for unit, first, last in emitter.units]
    rows = [f"    {line.form} [{', '.join(line.ops)}]: {line.bytes}" for line in lines]
    total = sum(line.bytes for line in lines)
    return "\n".join([f"num_bytes_accessed: {total} ({shown(total)}), by kernel:", *rows])


def kernels_of(compiled: Any) -> dict[str, str]:
    """The code of every kernel of a graph, by its name: LLVM's for this machine, loops for other devices."""
    found: dict[str, str] = {}
    parts = [compiled.description.main, *([compiled.description.before] * (compiled.description.before is not None))]
    for step in (step for part in parts for step in part.steps):
        name = kernel_name(step.kernel)
        if name not in found:
            found[name] = kernel_text(step.kernel, compiled.description.device)
    return found


def _source(kernel: Any) -> Any:
    """What the kernel of a step was made of; None for functions of Python and of libraries."""
    if callable(kernel):
        return None
    return source_of(kernel) if isinstance(kernel, int) else source_of_handle(kernel[1])


def kernel_name(kernel: Any) -> str:
    """What a step runs, by name."""
    if callable(kernel):
        return f"python:{getattr(kernel, '__qualname__', repr(kernel))}"
    source = _source(kernel)
    if source is None:
        return f"library_{kernel if isinstance(kernel, int) else id(kernel[1]):x}"
    name = getattr(source, "name", type(source).__name__)
    return f"{name}_{source.digest().hex()[:6]}" if hasattr(source, "digest") else name


def kernel_text(kernel: Any, device: Any) -> str:
    """LLVM's code of a kernel, for this machine or for a GPU; its loops for other devices."""
    source = _source(kernel)
    if source is None:
        return "; a function of Python" if callable(kernel) else "; code of a library"
    if isinstance(kernel, int):
        return codegen.llvm_of(source)
    if device.type != "cuda":      # whose code nobody here knows
        return f"; loops that {device.type} runs\n{source}"
    try:
        return codegen.llvm_of(source, "nvptx64")
    except Exception as error:      # noqa: BLE001 - code that is chosen when it is launched
        return f"; no code before it is launched ({type(error).__name__}: {error}); what it is made of:\n{source}"


def output_text(compiled: Any) -> str:
    """A compiled graph as a person reads it: its steps as calls, then the code of each kernel."""
    description = compiled.description
    lines = [f"# {logs.here.graph or 'a graph'} on {description.device}: {len(description.main.steps)} steps"]
    if description.before is not None:
        lines += ["", "# computed once for many calls, of inputs that stay the same",
                  *_steps_text("prepare", description.before, ())]
    lines += ["", *_steps_text("call", description.main, description.labels)]
    for name, text in kernels_of(compiled).items():
        lines += ["", f"# --- {name}", *(f"# {line}" for line in text.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def _steps_text(name: str, part: Any, labels: Sequence[str]) -> list[str]:
    def slot(number: int) -> str:
        return "constants" if number < 0 else f"{'arg' if number < part.num_inputs else 'buf'}{number}"

    def operand(given: Any) -> str:
        return f"{slot(given[0])}[{given[1]}:]" if isinstance(given, tuple) else slot(given)

    lines = [f"def {name}({', '.join(slot(k) for k in range(part.num_inputs))}):"]
    for k, (kind, dtype, sizes, _strides, source, offset) in enumerate(part.slots):
        made = {"view": f"view of {slot(source)} from element {offset}", "arg": f"{slot(source)} itself"}
        lines.append(f"    {slot(part.num_inputs + k)} = {kind}({str(dtype).rpartition('.')[2]}, {list(sizes)})"
                     + (f"      # {made[kind]}" if kind in made else ""))
    for k, step in enumerate(part.steps):
        label = f"      # {labels[k]}" if k < len(labels) else ""
        given = ", ".join([*map(operand, step.operands), f"params={list(step.params)}", f"extent={step.extent}"])
        lines.append(f"    {kernel_name(step.kernel)}({given}){label}")
    returned = [slot(part.num_inputs + k) for k, s in enumerate(part.slots) if s[0] != "temp"]
    return [*lines, f"    return {', '.join(returned) or None}"]


# --- replays ----------------------------------------------------------------------------------------------------------


def not_replayed(compiled: Any) -> None:
    """A graph is not recorded and replayed as a whole, though that was asked for."""
    for name in ("cudagraphs", "perf_hints"):
        if (log := logs.artifact(name)) is not None:
            log.info("skipping cudagraphs due to %s (%s)", why_not_replayed(compiled), logs.here.graph or "a graph")


def why_not_replayed(compiled: Any) -> str:
    if compiled.device.type != "cuda":
        return f"{compiled.device.type} device"
    return "mutated inputs" if compiled.writes else "its times, which are written to the debug folder"


# --- TORCH_COMPILE_DEBUG ----------------------------------------------------------------------------------------------


def is_kept() -> bool:
    """Whether graphs leave their texts in a folder."""
    return environment.get("TORCH_COMPILE_DEBUG") == "1"


@functools.cache
def _run_folder(process: int) -> str:
    when = datetime.datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
    root = late.provided("dynamo settings").debug_dir_root
    return os.path.join(os.getcwd(), root, f"run_{when}-pid_{process}")


def write(name: str, text: str) -> str:
    """Leave a text in the folder of the graph that is compiled."""
    number, _, kind = logs.here.graph.partition("_")
    folder = os.path.join(_run_folder(os.getpid()), "torchinductor", f"model__{number or 0}_{kind or 'inference'}_0")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
