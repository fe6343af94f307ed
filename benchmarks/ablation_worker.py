"""The measuring process of an ablation: one specialised path on or off, its cases timed.

Started by harness.py as `python -m benchmarks.ablation_worker PATH=on|off THREADS [wall|cpu]`. Enters: one JSON request
per line on stdin. Leaves: one JSON answer per line. The first answer to a case says besides the time whether the path
was taken, and gives some numbers of the result. A process has one state for all its life, so that no plan of the other
state is ever met. The product has no switches for this: what chooses the path is replaced here, in every module that
holds it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from benchmarks.ablation_paths import PATHS, Instead, Path, located
from benchmarks.worker import CLOCKS, Measure, answer

SEEN = 4096     # numbers of a result that are compared, evenly spread over it


class Witness:
    """Counts the calls of functions: all ("name()"), those with an argument ("name=word"), or those that gave
    something."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, place: str) -> Callable[[], None]:
        """Count the calls of what is in a place; the answer undoes it."""
        place, _, word = place.partition("=")
        every = place.endswith("()")

        def around(function: Callable) -> Callable:
            def watched(*args: Any, **options: Any) -> Any:
                result = function(*args, **options)
                words = [str(x) for a in args for x in (a if isinstance(a, tuple) else (a,))] if word else []
                told = word in words if word else result is not None and result is not False
                self.count += every or told
                return result

            return watched

        return replace(place.removesuffix("()"), around)


def holders(value: Any) -> Iterator[tuple[Any, str]]:
    """Every module of the package, and its name for a function or class, that it imported or defines."""
    for module in [m for name, m in sys.modules.items() if name.startswith("rushlight")]:
        for name, found in list(vars(module).items()):
            if found is value:
                yield module, name


def replace(place: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    """Put `make(what is there)` in a place, "module:name" or "module:Class.name", wherever it is imported; the answer
    undoes it. Numbers are replaced in the module that is named, alone: another may hold an equal one."""
    module_name, name = located(place)
    owner: Any = importlib.import_module(module_name)
    *inside, name = name.split(".")
    for part in inside:
        owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
    before = getattr(owner, name)
    after = make(before)
    alone = inside or not callable(before)

    def exchange(old: Any, new: Any) -> None:
        # found anew each time: modules that are imported meanwhile hold what was there then
        for holder, own in [(owner, name)] if alone else list(holders(old)):
            put(holder, own, new)

    exchange(before, after)
    return lambda: exchange(after, before)


def put(holder: Any, name: str, value: Any) -> None:
    """An attribute of a module, a class, or a record, which would refuse it."""
    set_ = setattr if isinstance(holder, type | ModuleType) else object.__setattr__
    set_(holder, name, value)


def stand_in(value: Any, before: Any) -> Any:
    """What is in the place of `before` while a path is off: another function, one that answers `value`, or the number
    itself."""
    if isinstance(value, Instead) and not value.place:
        return lambda *args: args[0]
    if isinstance(value, Instead):
        module_name, name = located(value.place)
        other, count = getattr(importlib.import_module(module_name), name), value.arguments
        return lambda *args: other(*args[:count])
    return (lambda *args, **options: value) if callable(before) else value


@contextmanager
def in_state(path: Path, is_on: bool) -> Iterator[Witness]:
    """Inside, plans are made with the path, or without it; the witness tells whether it is taken."""
    witness, undone = Witness(), []
    try:
        undone += [witness.watch(place) for place in path.witness]
        if not is_on:
            undone += [replace(place, lambda before, v=value: stand_in(v, before)) for place, value in path.off]
        yield witness
    finally:
        for undo in reversed(undone):
            undo()


def numbers(torch: Any, value: Any) -> list[float]:
    """Some of a result's numbers, in the order of its tensors."""
    if isinstance(value, tuple | list):
        return [x for part in value for x in numbers(torch, part)]
    if not isinstance(value, torch.Tensor):
        return []
    value = value.detach()
    flat = (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).reshape(-1).to(torch.float64)
    return flat[:: max(1, flat.numel() // SEEN)].tolist()


def first_answer(torch: Any, case: dict[str, Any], witness: Witness) -> dict[str, Any]:
    """Whether a case takes the path, and some numbers of what it gives."""
    torch.manual_seed(0)
    space: dict[str, Any] = {"torch": torch}
    witness.count = 0
    exec(compile(case["setup"], f"<setup of {case['name']}>", "exec"), space)
    result = eval(compile(case["code"], f"<{case['name']}>", "eval"), space)
    return {"taken": witness.count > 0, "numbers": numbers(torch, result)}


def serve(torch: Any, witness: Witness, clock: Callable[[], float], channel: Any) -> None:
    """Answer requests until there are no more."""
    ready: dict[str, tuple[Measure, int]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            new = request["case"]["name"] not in ready
            told = first_answer(torch, request["case"], witness) if new else {}
            reply = told | answer(torch, request, ready, clock)
        except Exception as error:  # the report names it, and the run goes on
            ready.clear()
            reply = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        print(json.dumps(reply), file=channel)


def main() -> None:
    (name, state), threads = sys.argv[1].rsplit("=", 1), int(sys.argv[2])
    clock = CLOCKS[sys.argv[3] if len(sys.argv) > 3 else "cpu"]
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep the channel clean of what libraries print
    path = next(path for path in PATHS if path.name == name)
    with own_cache() if path.fresh else nullcontext():
        work(path, state == "on", threads, clock, channel)


@contextmanager
def own_cache() -> Iterator[None]:
    """Inside, kernels are kept in a folder of this process: those of the other state have the same names, and their
    texts are to be written here."""
    with TemporaryDirectory() as folder:
        os.environ["RUSHLIGHT_CACHE"] = folder
        yield


def work(path: Path, is_on: bool, threads: int, clock: Callable[[], float], channel: Any) -> None:
    torch = importlib.import_module("rushlight")
    torch.set_num_threads(threads)
    with in_state(path, is_on) as witness:
        print(json.dumps({"version": torch.__version__}), file=channel)
        serve(torch, witness, clock, channel)


if __name__ == "__main__":
    main()
