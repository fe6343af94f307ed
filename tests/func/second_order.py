"""Second derivatives of every op record in the four orders of modes: `python -m tests.func.second_order`.

A function of the op is made scalar (a weighted sum of the sines of its results), and the product of its Hessian with a
direction is taken by

    fr      forward over reverse, jvp of grad        rf      reverse over forward, grad of jvp
    rr      reverse over reverse, grad of grad       ff      forward over forward, jvp of jvp (one number)
    fb      jvp of a batch of vjps, as in hessian    bf      a batch of jvps of grad

All must be the same, and PyTorch's where PyTorch has one. Enters: names of records. Leaves: "pass", "none" (nothing to
compare: the op is missing or not differentiable) or the reason of the failure.

    python -m tests.func.second_order --only 'linalg.*,fft.*'
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import torch

import rushlight as rl
from tests.func.sweep import REFUSED, differentiable, filled, is_float, on_its_manifold, tensors_in, without_phases
from tests.parity.checks import NotApplicable, seeded
from tests.parity.compare import leaves
from tests.parity.convert import Missing, back, function, thing
from tests.parity.records import RECORDS

BATCHED = ("fb", "bf")
ORDERS = ("fr", "rr", "rf", "ff", "fb", "bf")


def scalar(lib: Any, result: Any) -> Any:
    """A weighted sum of the sines of all floating point results."""
    total = 0
    for t in leaves(result):
        if not isinstance(t, lib.Tensor) or not is_float(t):
            continue
        t = lib.view_as_real(t.resolve_conj()) if t.is_complex() else t
        weights = 1 + lib.arange(t.numel(), dtype=t.dtype).reshape(t.shape) / max(t.numel(), 1)
        total = total + (t.sin() * weights).sum()
    if isinstance(total, int):
        raise NotApplicable
    return total


def function_of(lib: Any, op: Callable, tree: Any, flat: list[Any], at: list[int]) -> Callable:
    """The scalar function of the tensors at `at`."""

    def call(*values: Any) -> Any:
        full = [t.clone() for t in flat]
        for k, v in zip(at, values, strict=True):
            full[k] = v * 1
        args, kwargs = filled(tree, full, lib.Tensor)
        return scalar(lib, op(*args, **kwargs))

    return call


def dot(lib: Any, a: Any, b: Any) -> Any:
    """The real inner product of two lists of tensors."""
    parts = [(x.conj() * y).sum() if x.is_complex() else (x * y).sum() for x, y in zip(a, b, strict=True)]
    return sum(p.real if p.is_complex() else p for p in parts)


def product(lib: Any, order: str, f: Callable, x: tuple, v: tuple) -> list[Any]:
    """The Hessian of f at x times v, by `order`; for "ff" the number v H v."""
    everything = tuple(range(len(x)))
    slope = lib.func.grad(f, argnums=everything)
    if order == "fr":
        return list(lib.func.jvp(slope, x, v)[1])
    if order == "fb":
        return list(lib.func.jvp(lib.func.jacrev(f, argnums=everything), x, v)[1])
    if order == "bf":
        both = tuple(lib.stack([t, t * 2]) for t in v)
        return [t[0] for t in lib.func.vmap(lambda *u: lib.func.jvp(slope, x, u)[1])(*both)]
    if order == "rr":
        return list(lib.func.grad(lambda *y: dot(lib, slope(*y), v), argnums=everything)(*x))
    along = lambda *y: lib.func.jvp(f, y, v)[1]   # noqa: E731
    if order == "rf":
        return list(lib.func.grad(along, argnums=everything)(*x))
    return [lib.func.jvp(along, x, v)[1]]


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same to about ten digits, for sums of terms as large as the largest element."""
    if a.shape != b.shape:
        return False
    size = max(a.abs().nan_to_num(0, 0, 0).max().item(), 1.0) if a.numel() else 1.0
    return bool(torch.allclose(a, b, rtol=1e-6, atol=1e-7 * size, equal_nan=True))


# Where PyTorch has NaN for the curvature of a norm at 0, forward mode here has the subgradient's, 0.
NOT_DEFINED = ("linalg.norm.subgradients_at_zero",)


def check(name: str, tries: int = 2) -> None:
    """One record; raises AssertionError for the orders that differ."""
    record = RECORDS[name]
    ours, seen, wrong = function(record.op), 0, []
    if name in NOT_DEFINED:
        raise NotApplicable
    for number, (tree, own) in enumerate(differentiable(record, "gradient")[:tries]):
        marked = tensors_in(tree, torch.Tensor)
        at = [k for k, t in enumerate(marked) if is_float(t) and t.requires_grad]
        flat, mine = [t.detach() for t in marked], [t.detach() for t in tensors_in(own, rl.Tensor)]
        if not at or all(flat[k].numel() == 0 for k in at):
            continue
        torch.manual_seed(3)
        x = tuple(flat[k] for k in at)
        v = tuple(torch.randn_like(t) for t in x)
        theirs = function_of(torch, without_phases(record, on_its_manifold(record, record.op)), tree, flat, at)
        f = function_of(rl, without_phases(record, on_its_manifold(record, ours, function)), own, mine, at)
        if theirs(*x).dtype is not torch.float64:
            continue
        wanted = oracle(theirs, x, v)
        if wanted:
            got, refused = products(f, tuple(mine[k] for k in at), tuple(thing(t) for t in v), wanted)
            wrong += [f"{number} {line}" for line in [*refused, *differences(wanted, got, v)]]
            seen += 1
    if wrong:
        raise AssertionError("; ".join(wrong))
    if not seen:
        raise NotApplicable


def oracle(f: Callable, x: tuple, v: tuple) -> dict[str, list[Any]]:
    """PyTorch's products, by the orders it has."""
    found = {}
    for order in ORDERS[:4]:
        try:
            found[order] = seeded(product, torch, order, f, x, v)
        except NotApplicable:
            raise
        except Exception:   # noqa: BLE001  PyTorch lacks this one
            continue
    return found


def products(f: Callable, x: tuple, v: tuple, wanted: dict) -> tuple[dict[str, list[Any]], list[str]]:
    """Our products, and what was refused that PyTorch has; of batches, what was refused for no reason of theirs."""
    got, refused = {}, []
    for order in ORDERS:
        try:
            got[order] = [back(t.detach()) for t in seeded(product, rl, order, f, x, v)]
        except Exception as error:   # noqa: BLE001
            private, told = ("rushlight.masked",), (*REFUSED, "is not implemented", "rushlight.masked")
            excused = private if order in wanted else told
            if (order in wanted or order in BATCHED) and not any(text in str(error) for text in excused):
                refused.append(f"{order} raises {type(error).__name__}: {str(error)[:150]}")
    return got, refused


def differences(wanted: dict, got: dict, v: tuple) -> list[str]:
    """Which orders are not what they should be. Where PyTorch's own orders contradict each other,
    ours are only compared with each other."""
    agreed = [wanted[o] for o in ("rr", "fr", "rf") if o in wanted]
    right = agreed[0] if agreed and all(all(map(close, agreed[0], other)) for other in agreed[1:]) else None
    right = right or got.get("rr") or got.get("fr")
    if right is None:
        return []
    number = dot(torch, right, v)
    return [
        f"{order}: {short(found)}, not {short([number] if order == 'ff' else right)}"
        for order, found in got.items()
        if not (close(found[0], number) if order == "ff" else all(map(close, right, found)))
    ]


def short(values: list[Any]) -> str:
    """The first elements of each."""
    parts = [(torch.view_as_real(t) if t.is_complex() else t).flatten()[:3].tolist() for t in values]
    return " ".join(str([round(n, 5) for n in part]) for part in parts)


def outcome(name: str, tries: int = 2) -> str:
    """"pass", "none" or the reason of the failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(name, tries)
    except (NotApplicable, Missing):
        return "none"
    except AttributeError as error:
        return "none" if "module 'rushlight" in str(error) else f"AttributeError: {error}"
    except Exception as error:   # noqa: BLE001  a report must survive every failure
        return f"{type(error).__name__}: {error}"
    return "pass"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.func.second_order")
    parser.add_argument("--only", default="*", help="glob patterns over record names, separated by commas")
    options = parser.parse_args()
    counts: Counter = Counter()
    for name in RECORDS:
        if any(fnmatchcase(name, p) for p in options.only.split(",")):
            found = outcome(name)
            counts[found if found in ("pass", "none") else "fail"] += 1
            if found not in ("pass", "none"):
                print(f"{name}: {found[:700]}", flush=True)
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['none']} not applicable")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
