"""PyTorch's records of its optimizers (`optim_db`) run on both libraries.

Enters: a record and a way to run it (flags, dtype). Leaves: a list of differences, in words, of parameters, state and
groups after several steps over parameters of several shapes and layouts. Refuses nothing:
what cannot be built is a difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

import rushlight as rl
import rushlight.optim
from tests.parity import convert

RECORDS = {record.name: record for record in optim_db}
SHAPES = ((3, 4), (5, 2), (7, 6), (33, 17))
STEPS = 6


def options(record: Any) -> list[dict[str, Any]]:
    """The keyword arguments of the record's inputs; rates that are tensors included."""
    return [dict(given.kwargs) for given in record.optim_inputs_func("cpu")]


def start(dtype: torch.dtype, record: Any) -> list[torch.Tensor]:
    """Parameters before training: matrices, and where the optimizer takes them also vectors,
    single numbers and channels last."""
    torch.manual_seed(3)
    result = [torch.randn(shape, dtype=dtype) for shape in SHAPES]
    if record.name != "Muon":
        empty = 2 if record.name == "Adafactor" else 0   # it divides by the number of elements
        result += [torch.randn(9, dtype=dtype), torch.randn((), dtype=dtype), torch.randn(empty, 3, dtype=dtype),
                 torch.randn(2, 3, 4, 4, dtype=dtype).to(memory_format=torch.channels_last),
                 torch.randn(4, 6, dtype=dtype).t()]
    return result


def gradients(params: list[torch.Tensor], step: int, is_sparse: bool, same_layout: bool) -> list[torch.Tensor | None]:
    """The gradients of a step; one parameter sometimes has none, two have another layout than their parameter.

    PyTorch's fused kernels pair elements by their place in memory, so that layouts must agree there (2.13).
    """
    torch.manual_seed(100 + step)
    result = [torch.randn_like(p) * 0.3 for p in params]
    if not same_layout:
        result[6:] = [g.contiguous() for g in result[6:]]
    if step == 2:
        result[1] = None
    return [g if g is None or not is_sparse else sparse(g) for g in result]


def sparse(g: torch.Tensor) -> torch.Tensor:
    g = g * (torch.rand(g.shape[:1] + (1,) * (g.dim() - 1)) < 0.5) if g.dim() else g
    return g.to_sparse(1) if g.dim() else g


def ours(x: Any) -> Any:
    if isinstance(x, torch.optim.Optimizer):
        raise convert.Missing(type(x).__name__)
    return convert.thing(x, {})


def parameter(library: Any, t: Any) -> Any:
    return library.nn.Parameter(t)


def train(
    record: Any, kwargs: dict[str, Any], dtype: torch.dtype = torch.float32, is_sparse: bool = False
) -> tuple[Any, Any]:
    """Both optimizers after a few steps on the same gradients."""
    first = start(dtype, record)
    if is_sparse:
        first = [p for p in first if p.dim() and p.numel()]
    theirs = [parameter(torch, t.clone()) for t in first]
    mine = [parameter(rl, ours(t)) for t in first]
    a = record.optim_cls(theirs, **kwargs)
    b = getattr(rl.optim, record.optim_cls.__name__)(mine, **{k: ours(v) for k, v in kwargs.items()})
    for step in range(STEPS):
        grads = gradients(first, step, is_sparse, bool(kwargs.get("fused")))
        for p, q, g in zip(theirs, mine, grads, strict=True):
            p.grad = None if g is None else g.clone()
            q.grad = None if g is None else ours(g)
        if record.step_requires_closure:
            a.step(lambda: sum((p.detach() ** 2).real.sum() for p in theirs))
            b.step(lambda: sum((p.detach() ** 2).real.sum() for p in mine))
        else:
            a.step()
            b.step()
    return a, b


def differences(a: Any, b: Any, where: str = "", loose: float = 1.0) -> Iterator[str]:
    """What differs between two trees of theirs and ours: containers, numbers, tensors."""
    if isinstance(a, torch.Tensor):
        if not isinstance(b, rl.Tensor):
            yield f"{where}: a tensor against {type(b).__name__}"
        elif str(a.dtype).split(".")[1] != str(b.dtype).split(".")[1] or tuple(a.shape) != tuple(b.shape):
            yield f"{where}: {a.dtype} {tuple(a.shape)} against {b.dtype} {tuple(b.shape)}"
        else:
            yield from far_apart(a.detach(), convert.back(b.detach()), where, loose)
    elif isinstance(a, dict):
        if set(a) != set(b):
            yield f"{where}: keys {sorted(map(str, a))} against {sorted(map(str, b))}"
        else:
            for key in a:
                yield from differences(a[key], b[key], f"{where}.{key}", loose)
    elif isinstance(a, (list, tuple)):
        if type(a) is not type(b) or len(a) != len(b):
            yield f"{where}: {a!r} against {b!r}"
        else:
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                yield from differences(x, y, f"{where}[{i}]", loose)
    elif isinstance(a, float) and isinstance(b, float):
        if abs(a - b) > 1e-5 * max(abs(a), 1):
            yield f"{where}: {a} against {b}"
    elif a != b:
        yield f"{where}: {a!r} against {b!r}"


def far_apart(a: torch.Tensor, b: torch.Tensor, where: str, loose: float) -> Iterator[str]:
    a, b = (t.to_dense() if t.is_sparse else t for t in (a, b))
    near = {torch.float64: 1e-10, torch.complex128: 1e-10, torch.bfloat16: 2e-2, torch.float16: 4e-3}.get(
        a.dtype, 2e-5
    ) * loose
    try:
        torch.testing.assert_close(b, a, rtol=near, atol=near)
    except AssertionError as error:
        yield f"{where}: {' '.join(str(error).split())[:160]}"


def check(
    record: Any, flags: dict[str, Any], dtype: torch.dtype = torch.float32, is_sparse: bool = False, loose: float = 1.0
) -> list[str]:
    """Differences over all inputs of a record."""
    found = []
    for kwargs in options(record):
        kwargs = {**kwargs, **flags}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                a, b = train(record, kwargs, dtype, is_sparse)
            except Exception as error:   # a difference like any other
                found.append(f"{kwargs}: {type(error).__name__}: {str(error)[:200]}")
                continue
        for name, x, y in (("params", [p for g in a.param_groups for p in g["params"]],
                            [p for g in b.param_groups for p in g["params"]]),
                           ("state", a.state_dict(), b.state_dict())):
            found += [f"{kwargs}: {text}" for text in differences(x, y, name, loose)]
    return found


def error_differences(record: Any) -> list[str]:
    """Inputs that PyTorch refuses and Rushlight does not, or refuses otherwise."""
    found = []
    for given in record.optim_error_inputs_func("cpu", torch.float32):
        bad = given.optimizer_error_input
        params = our_params(bad.params)
        kwargs = {k: ours(v) for k, v in bad.kwargs.items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer = getattr(rl.optim, record.optim_cls.__name__)(params, **kwargs)
                if given.error_on is OptimizerErrorEnum.STEP_ERROR:
                    optimizer.step()
        except Exception as error:
            if not isinstance(error, given.error_type):
                found.append(f"{bad.desc}: {type(error).__name__} ({error}), not {given.error_type.__name__}")
        else:
            found.append(f"{bad.desc}: accepted")
    return found


def our_params(params: Any) -> Any:
    """Parameters of an input, with gradients, groups and names."""
    memo: dict[int, Any] = {}

    def one(p: Any) -> Any:
        if isinstance(p, torch.Tensor):
            if id(p) not in memo:
                result = convert.tensor(p.detach(), {})
                if p.requires_grad:
                    result = rl.nn.Parameter(result)
                if p.grad is not None:
                    result.grad = ours(p.grad)
                memo[id(p)] = result
            return memo[id(p)]
        if isinstance(p, dict):
            return {k: one(v) for k, v in p.items()}
        if isinstance(p, (list, tuple)):
            return type(p)(one(x) for x in p)
        return p

    return one(params)
