"""The table of names that only refuse is the only one: what it lists refuses, and nothing else does."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight.base import refusals
from rushlight.compat import audit

PACKAGE = Path(rushlight.__file__).parent


@pytest.mark.parametrize("system", refusals.SYSTEMS, ids=lambda system: system.reason[:30])
def test_listed_names_are_there_and_refuse_with_their_reason(system):
    for module, names in system.names.items():
        for name in names:
            found = getattr(importlib.import_module(f"rushlight{module[len('torch'):]}"), name)
            assert found is refusals.stand_in(
                module, name
            ), f"{module}.{name} works: take it out of rushlight/base/refusals.txt"
            with pytest.raises(NotImplementedError, match="is not available in Rushlight"):
                found()


def _only_refuses(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
        return False
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0])


@pytest.mark.slow
def test_functions_that_only_refuse_are_listed():
    listed = {name for system in refusals.FUNCTIONS for names in system.names.values() for name in names}
    found = {
        node.name: path
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if _only_refuses(node)
    }
    for name in ("refuse_dtype", "product_of_all"):     # no public names: ops and rules of ONNX
        found.pop(name)
    found = {name: path for name, path in found.items() if "xla" not in path.parts}     # names of torch_xla
    assert set(found) == listed


@pytest.mark.parametrize("system", refusals.FUNCTIONS, ids=lambda system: system.title)
def test_listed_functions_are_there(system):
    for module, names in system.names.items():
        for name in names:
            space = audit.find(module)
            assert hasattr(space, name), f"{module}.{name}"


@pytest.mark.slow
def test_stand_ins_are_made_nowhere_else():
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    makers = [path.relative_to(PACKAGE).as_posix() for path, text in texts.items()
              if "absent" in text     # most files have no such word and need not be parsed
              and any(isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "absent"
                      for node in ast.walk(ast.parse(text)))]
    assert makers == ["base/refusals.py"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageReader.read_data", None),
        ("torch.distributed.fsdp.ShardingStrategy.FULL_SHARD", None),
        ("torch.distributed.rpc.enable_gil_profiling", "not profiled"),
        ("torch.compiler.load_compiled_function", "captured"),
        ("torch.ScriptMethod", "TorchScript"),
        ("torch.nn.Linear", None),
        ("torch.cuda.is_available", None),
        ("torch", None),
    ],
)
def test_reason_of_a_name(name, reason):
    found = audit.why_refused(name)
    assert found is None if reason is None else reason in found


def test_check_lists_refused_names(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nx = torch.relu(1)\ntorch.distributed.rpc.enable_gil_profiling(x)\n"
        "torch.compiler.load_compiled_function(x)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "check", str(program)], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert (
        "torch.distributed.rpc.enable_gil_profiling" in done.stdout
        and "torch.compiler.load_compiled_function" in done.stdout
        and "torch.relu" not in done.stdout
    )
    assert done.stdout.splitlines()[-1].startswith(
        "0 names of torch are mentioned that Rushlight does not have, and 2 "
    )
