"""How much `help()` says: the shares of public names whose documentation shows an example and explains its arguments.

Enters: the names to count, by group (layers, nn.functional, linalg, optimizers, torch.*, and the entries everybody
needs). Leaves: for each group how many names there are, how many have an example, and how many of their arguments are
explained; as a table, or as the dict `shares()` that benchmarks/book.py prints. It refuses nothing and runs nothing:
that the examples are right is what tests/ops/test_help.py checks.

    python -m benchmarks.help_shares [--missing]
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import rushlight as rl
from rushlight import _C, nn, optim

ENTRIES = ("compile", "export.export", "utils.data.DataLoader", "save", "load", "autocast", "onnx.export", "vmap",
           "autograd.grad", "distributed.init_process_group", "fx.symbolic_trace", "library.custom_op", "no_grad",
           "einsum", "manual_seed")
NO_LAYERS = {"Module", "Container", "DataParallel", "RNNCellBase"}


def named(path: str) -> Any:
    found: Any = rl
    for part in path.split("."):
        found = getattr(found, part)
    return found


def groups() -> dict[str, dict[str, Any]]:
    """The public names to count, by group."""
    functional = {n: v for n, v in vars_of(nn.functional) if isinstance(v, _C.Op)}
    linear = {n: v for n, v in vars_of(rl.linalg) if isinstance(v, _C.Op)}
    layers = {n: v for n, v in vars_of(nn) if isinstance(v, type) and issubclass(v, nn.Module) and n not in NO_LAYERS}
    optimizers = {n: v for n, v in vars_of(optim) if isinstance(v, type) and issubclass(v, optim.Optimizer)}
    top = {n: v for n, v in vars_of(rl) if is_function(v)}
    return {"layers": layers, "nn.functional": functional, "linalg": linear, "optimizers": optimizers, "torch.*": top,
            "entries": {name: named(name) for name in ENTRIES}}


def is_function(value: Any) -> bool:
    """Whether `value` is a function of ours or a class that is used as one."""
    return isinstance(value, _C.Op) or inspect.isroutine(value) or value in (rl.no_grad, rl.enable_grad, rl.autocast)


def vars_of(module: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(module):
        if not name.startswith("_"):
            try:
                yield name, getattr(module, name)
            except Exception:   # what only refuses has no help to count
                continue


def arguments(value: Any) -> list[str]:
    try:
        names = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in names if not name.startswith("_") and name not in ("self", "args", "kwargs")]


def explained(text: str) -> set[str]:
    """The names that stand before a colon at the head of a line."""
    return set(re.findall(r"^\s*\*{0,2}(\w+)(?: \([^)]*\))?: \S", text, re.M))


def shares() -> dict[str, dict[str, Any]]:
    """Per group: names, those with an example, their arguments, those explained, and who lacks what."""
    found = {}
    for group, values in groups().items():
        texts = {name: inspect.getdoc(value) or "" for name, value in values.items()}
        wanted = {name: arguments(value) for name, value in values.items()}
        lacking = {name: [a for a in wanted[name] if a not in explained(texts[name])] for name in values}
        bare = [name for name in values if ">>>" not in texts[name]]
        total = sum(map(len, wanted.values()))
        found[group] = {
            "names": len(values), "examples": len(values) - len(bare), "arguments": total,
            "explained": total - sum(map(len, lacking.values())), "bare": bare,
            "unexplained": {name: left for name, left in lacking.items() if left},
        }
    return found


def main(words: list[str]) -> None:
    for group, row in shares().items():
        shown, said = row["examples"] / row["names"], row["explained"] / max(row["arguments"], 1)
        print(f"{group:14} {row['examples']:4} of {row['names']:4} names have an example ({shown:.0%}),"
              f" {row['explained']:5} of {row['arguments']:5} arguments are explained ({said:.0%})")
        if "--missing" in words:
            print("   no example:", *row["bare"])
            print("   unexplained:", row["unexplained"])


if __name__ == "__main__":
    main(sys.argv[1:])
