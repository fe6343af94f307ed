"""Public classes and functions say they come from the modules PyTorch names, and can be found there."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight

# PyTorch keeps these in private modules, or in C++: ours say where programs find them.
PRIVATE = "torch._"


def _definitions() -> dict[str, tuple[object, object]]:
    """Public name -> (PyTorch's class or function, ours)."""
    from public_names import ours, torch_modules, torch_names

    found = {}
    for module, names in torch_names().items():
        here = ours(module)
        for name in names if here is not None else ():
            theirs, mine = getattr(torch_modules()[module], name, None), getattr(here, name, None)
            if (
                callable(theirs)
                and hasattr(mine, "__module__")
                and isinstance(getattr(theirs, "__module__", None), str)
                and mine is not None
                and not hasattr(mine, "_absent_reason")
            ):
                found[f"{module}.{name}"] = theirs, mine
    return found


def test_definitions_name_the_modules_pytorch_names() -> None:
    pytest.importorskip("torch")
    wrong = []
    for name, (theirs, mine) in _definitions().items():
        expected = theirs.__module__
        if not expected.startswith("torch") or expected.startswith(PRIVATE) or name in DIFFER:
            continue
        if getattr(mine, "__module__", None) != "rushlight" + expected[len("torch") :]:
            wrong.append(f"{name}: {expected} in PyTorch, {getattr(mine, '__module__', None)} here")
    assert not wrong, "\n".join(wrong)


# Ours is another thing than PyTorch's, and says so.
DIFFER = {
    "torch.types.Storage",  # an alias of UntypedStorage here, a protocol of its own there
    "torch.futures.Future",
    "torch.Future",
    "torch.autograd.variable",
    "torch.JITException",
    "torch.fork",
    "torch.wait",
    "torch.ThroughputBenchmark",
    "torch.thread_safe_generator",
    "torch.multiprocessing.Pool",
}


def test_definitions_are_found_where_they_say() -> None:
    pytest.importorskip("torch")
    lost = []
    for name, (_, mine) in _definitions().items():
        module, path = mine.__module__, getattr(mine, "__qualname__", None)
        if isinstance(mine, type) and module.startswith("rushlight") and "<locals>" not in path:
            found: object = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part, None)
            if found is not mine:
                lost.append(f"{name} is not {module}.{path}")
    assert not lost, "\n".join(lost)


def test_schedulers_say_the_package() -> None:
    parameters = [rushlight.nn.Parameter(rushlight.ones(1))]
    scheduler = rushlight.optim.lr_scheduler.MultiStepLR(rushlight.optim.SGD(parameters, 0.1), [2])
    assert scheduler.__module__ == rushlight.optim.lr_scheduler.__name__ == "rushlight.optim.lr_scheduler"
    assert pickle.loads(pickle.dumps(type(scheduler))) is type(scheduler)


def test_modules_without_a_file_hold_what_stands_elsewhere() -> None:
    core = importlib.import_module("rushlight.masked.maskedtensor.core")
    assert core.MaskedTensor is rushlight.masked.MaskedTensor
    windows = importlib.import_module("rushlight.signal.windows.windows")
    assert windows.hann is rushlight.signal.windows.hann


def test_everything_is_called_torch_under_run(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import pickle, sys
        import torch
        from torch import nn
        from torch.optim import lr_scheduler
        layer = nn.Linear(2, 2)
        scheduler = lr_scheduler.MultiStepLR(torch.optim.Adam(layer.parameters()), [2])
        print(scheduler.__module__, lr_scheduler.__name__, nn.Linear.__module__, torch.optim.Adam.__module__,
            nn.MultiheadAttention.__module__)
        print(torch.Tensor.__module__, torch.add.__module__, nn.functional.relu.__module__,
            torch.nn.functional.__name__, torch.cdist.__module__)
        print(layer.weight.type(), torch.ones(1).storage().type(), torch.FloatTensor, torch.FloatStorage,
            torch.typename(torch.ones(1)))
        print(torch.float32, torch.device("cpu"), torch.Size([1]), torch.strided, torch.contiguous_format,
            repr(torch.max(torch.ones(1), 0))[:22])
        print(type(pickle.loads(pickle.dumps(layer))) is nn.Linear,
            pickle.loads(pickle.dumps(nn.functional.relu)) is nn.functional.relu)
        print(b"rushlight" in pickle.dumps([layer, nn.functional.relu, torch.add, scheduler]),
            sys.modules["torch.nn.modules.linear"] is sys.modules["rushlight.nn.modules.linear"])
        import rushlight.compat
        rushlight.compat.uninstall()
        print(nn.Linear.__module__, rushlight.nn.__name__, torch.float32, "torch" in sys.modules)
    """))
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(program)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines() == [
        (
            "torch.optim.lr_scheduler torch.optim.lr_scheduler torch.nn.modules.linear torch.optim.adam"
            " torch.nn.modules.activation"
        ),
        "torch torch torch.nn.functional torch.nn.functional torch.functional",
        (
            "torch.FloatTensor torch.FloatStorage <class 'torch.FloatTensor'> <class 'torch.FloatStorage'>"
            " torch.FloatTensor"
        ),
        "torch.float32 cpu torch.Size([1]) torch.strided torch.contiguous_format torch.return_types.max",
        "True True",
        "False True",
        "rushlight.nn.modules.linear rushlight.nn rushlight.float32 False",
    ], done.stderr


def test_graphs_say_the_name_that_was_called() -> None:
    torch = pytest.importorskip("torch")
    fx = importlib.import_module("rushlight.fx")
    importlib.import_module("torch.fx")
    wrong = []
    for name in rushlight.op.published(""):
        if not hasattr(torch, name) or name.startswith("_"):
            continue
        lines = []
        for function, library in ((getattr(rushlight, name), fx), (getattr(torch, name), torch.fx)):
            graph = library.Graph()
            lines.append(graph.call_function(function, (graph.placeholder("x"),)).format_node())
        if lines[0] != lines[1] and "torch._" not in lines[1]:
            wrong.append(lines)
    assert not wrong, "\n".join(map(str, wrong))
