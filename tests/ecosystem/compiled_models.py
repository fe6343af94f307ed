"""The models of the ecosystem's cases, compiled: equal to eager forward and backward, and where their graphs break.

    python -m rushlight run tests/ecosystem/compiled_models.py transformers_models inductor [case ...]

Every `model(...)` that a file of cases (see cases/) writes is checked the first time it is called in a mode: compiled
whole, or with breaks where that is impossible. Prints a line per model: how long compiling took, and why a graph broke.
"""

from __future__ import annotations

import os
import re
import sys
import time
import types
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")

import torch


def tensors(value: object, seen: set[int]) -> list[torch.Tensor]:
    """All tensors in a model's result."""
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (
        vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, type) else ())
    return [t for v in inner for t in tensors(v, seen)]


def outcome(model: torch.nn.Module, call: object, args: tuple, kwargs: dict, state: dict) -> tuple:
    """The result of a call, its tensors, and gradients of the sum of them."""
    model.load_state_dict(state)
    model.zero_grad()
    torch.manual_seed(3)
    result = call(*args, **kwargs)
    found = tensors(result, set())
    wanted = [t.float().sum() for t in found if t.requires_grad] if torch.is_grad_enabled() else []
    if wanted:
        sum(wanted).backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return type(result), [t.detach().clone() for t in found], grads


def assert_same(now: tuple, expected: tuple) -> None:
    assert now[0] is expected[0], f"a {now[0].__name__}, expected a {expected[0].__name__}"
    assert set(now[2]) == set(expected[2]), "other parameters have gradients"
    pairs = [*zip(now[1], expected[1], strict=True), *((now[2][name], expected[2][name]) for name in expected[2])]
    for a, b in pairs:
        scale = max(1.0, float(b.float().abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a / scale, b / scale, equal_nan=True, rtol=5e-3, atol=5e-3)


def checked(model: torch.nn.Module, args: tuple, kwargs: dict, backend: str) -> str:
    """What compiling a model came to."""
    state = {name: t.clone() for name, t in model.state_dict().items()}
    model(*args, **kwargs)      # what models prepare at their first call is no part of the graph
    expected = outcome(model, model, args, kwargs, state)
    torch.compiler.reset()
    started, reason = time.perf_counter(), ""
    try:
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        now = outcome(model, compiled, args, kwargs, state)
    except torch._dynamo.exc.Unsupported as error:
        reason = f"; breaks: {str(error).partition('the graph breaks: ')[2].splitlines()[0]}"
        torch.compiler.reset()
        compiled = torch.compile(model, backend=backend)
        now = outcome(model, compiled, args, kwargs, state)
    took = time.perf_counter() - started
    assert_same(now, expected)
    assert_same(outcome(model, compiled, args, kwargs, state), expected)
    model.load_state_dict(state)
    model.zero_grad()
    return f"equal, {took:.1f} s{reason}"


def main(module: str, backend: str, only: list[str]) -> None:
    path = Path(__file__).parent / "cases" / f"{module}.py"
    seen: set[tuple] = set()

    def call(model: torch.nn.Module, *args: object, **kwargs: object) -> object:
        key = type(model).__name__, model.training, torch.is_grad_enabled()
        if key not in seen:
            seen.add(key)
            try:
                said = checked(model, args, kwargs, backend)
            except Exception as error:      # noqa: BLE001 - the other models are checked all the same
                said = f"WRONG: {type(error).__name__}: {error}"
            print(f"    {key[0]} ({'training' if key[1] else 'evaluation'}): {said}", flush=True)
        return model(*args, **kwargs)

    source = re.sub(r"(?<![\w.])model\(", "_checked_call(model, ", path.read_text(encoding="utf-8"))
    scope = types.ModuleType("cases")
    scope.__dict__.update(_checked_call=call, __file__=str(path))
    sys.modules["cases"] = scope
    exec(compile(source, str(path), "exec"), scope.__dict__)
    for name, function in list(vars(scope).items()):
        if name.startswith("case_") and (not only or name[5:] in only):
            print(name[5:], flush=True)
            seen.clear()
            torch.manual_seed(0)
            try:
                function()
            except Exception as error:      # noqa: BLE001 - what a case does with its model is not the question here
                print(f"    the case ended: {type(error).__name__}: {str(error)[:100]}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
