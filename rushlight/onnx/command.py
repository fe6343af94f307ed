"""`python -m rushlight onnx FILE`: what an ONNX file takes, gives and calls, and whether it runs here.

Enters: a file's name. Leaves: its inputs, outputs and operators by count; with --run its results' shapes for random
inputs, with --time what a call takes, beside ONNX Runtime where that is installed. The status is 1 where an operator is
not supported.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C, ops
from ..autograd.grad_mode import no_grad
from . import sessions
from .importing.checking import all_nodes, unsupported
from .importing.loading import read, translated
from .kinds import ELEMENTS, STRING, Kind
from .model import Model

MOST_RUNS, SECONDS = 50, 2.0


def show(chosen: argparse.Namespace) -> int:
    """Print what a file is. 0: it can run, 1: it cannot, 2: it cannot be read."""
    try:
        model = read(chosen.file)
        missing = unsupported(model)
        for line in described(model, missing):
            print(line)
        if missing:
            return 1
        if chosen.run or chosen.time:
            run(chosen, model)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        print(f"{chosen.file}: {error}", file=sys.stderr)
        return 2
    return 0


def described(model: Model, missing: Sequence[str]) -> list[str]:
    """A page about a model."""
    opsets = {"": model.opset, **model.opsets}
    versions = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in opsets.items())
    lines = [f"IR {model.ir_version}, {versions}; written by {' '.join(model.producer).strip() or 'nobody says'}"]
    held = model.graph.tensors
    lines += [f"input   {v.name}: {v.kind}" for v in model.graph.inputs if v.name not in held]
    lines += [f"output  {v.name}: {v.kind}" for v in model.graph.outputs]
    elements = sum(t.numel() for t in held.values() if hasattr(t, "numel"))
    lines.append(f"weights {len(held)} tensors, {elements:,} elements")
    counts = Counter(f"{n.domain}.{n.op}" if n.domain else n.op for n, _ in all_nodes(model))
    lines.append(f"nodes   {sum(counts.values())}: " + ", ".join(f"{op} {n}" for op, n in counts.most_common()))
    lines += [f"missing {line}" for line in missing]
    return lines


def sizes_of(words: Sequence[str], model: Model) -> dict[str, int]:
    """Elements of dims that vary by their names, of the others under ''. Refuses what no input has."""
    known = {n for v in model.graph.inputs if v.kind is not None for n in v.kind.shape or () if isinstance(n, str)}
    found = {"": 1}
    for word in words:
        name, _, number = word.rpartition("=")
        if not number.isdecimal() or (name and name not in known):
            names = ", ".join(sorted(known)) or "none"
            raise ValueError(f"--size: expected a number, or NAME=NUMBER with one of {names}, got {word!r}")
        found[name] = int(number)
    return found


def random_inputs(model: Model, sizes: Mapping[str, int]) -> dict[str, Any]:
    """A tensor for each input: normal numbers, small integers; dims that vary have the elements that `sizes` says."""
    found = {}
    generator = _C.Generator().manual_seed(0)
    for v in model.graph.inputs:
        if v.name in model.graph.tensors:
            continue
        kind: Kind = v.kind or Kind("tensor")
        if kind.form == "optional":
            found[v.name] = None
            continue
        if kind.form != "tensor" or kind.number in (0, STRING):
            raise TypeError(f"onnx: random values for input {v.name!r} ({kind}) cannot be made; run it from Python")
        shape = [n if isinstance(n, int) else sizes.get(n, sizes[""]) for n in kind.shape or ()]
        dtype = ELEMENTS[kind.number].dtype
        drawn = ops.aten.randn(shape, generator=generator)
        found[v.name] = drawn.to(dtype) if dtype.is_floating_point else drawn.abs().to(dtype)
    return found


def run(chosen: argparse.Namespace, model: Model) -> None:
    """Run, and time, a model on random inputs."""
    loaded = translated(model, {})
    inputs = random_inputs(model, sizes_of(chosen.size, model))
    with no_grad():
        result = loaded(**inputs)
        for name, value in zip(loaded.results, result if isinstance(result, tuple) else (result,), strict=True):
            shown = f"{value.dtype}{list(value.shape)}" if isinstance(value, _C.Tensor) else type(value).__name__
            print(f"gives   {name}: {shown}")
        if not chosen.time:
            return
        from ..compiler.driver import compile as compiled  # noqa: PLC0415 - loaded to time alone

        fast = compiled(loaded)
        fast(**inputs)
        print(f"time    {median(lambda: loaded(**inputs)):.3f} ms, compiled {median(lambda: fast(**inputs)):.3f} ms",
              end="")
    if sessions.is_installed():
        session = sessions.session(chosen.file)
        feeds = {name: sessions._array(name, v) for name, v in inputs.items() if v is not None}
        print(f", ONNX Runtime {median(lambda: session.run(None, feeds)):.3f} ms", end="")
    print()


def median(call: Callable[[], Any]) -> float:
    """Milliseconds of a call."""
    taken: list[float] = []
    begin = time.perf_counter()
    while len(taken) < 3 or (len(taken) < MOST_RUNS and time.perf_counter() - begin < SECONDS):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)

