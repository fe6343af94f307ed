"""Every op record of PyTorch under the transforms: `python -m tests.func.sweep`.

    vmap    over two examples made of a sample (all tensors batched, then only the first) equals a Python loop
    jvp     forward mode equals PyTorch's (of singular and eigenvectors: what their free signs leave)
    pull    vmap of vjp equals a loop over vjp: batched derivative rules

Enters: names of records. Leaves: "pass", "none" (nothing to check: the op is missing, not differentiable, or its
result's shape depends on data) or the reason of the failure.

    python -m tests.func.sweep --only 'linalg.*,fft.*' --check vmap,jvp -v
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
from rushlight.func import jvp, vjp, vmap
from tests.parity.checks import UNDEFINED, NotApplicable, samples, seeded
from tests.parity.compare import Different, compare, leaves
from tests.parity.convert import Missing, function, thing
from tests.parity.records import RECORDS

REFUSED = (
    "cannot be batched",
    "needs the elements of a tensor",
    "without a derivative",
    "is a random operation",
    "inside vmap",
)


# Tensors read as numbers (where an example's number is wanted), and a change of size, which no batch can share.
NOT_DIFFERENTIATED = {
    "scatter_reduce": (
        "PyTorch's tangent of a product without the old values is not that of finite differences; ours is"
    ),
    "nn.functional.linear_cross_entropy": "PyTorch's tangent of the form in chunks is 0, which finite differences deny",
    "nn.functional.max_unpool1d": "several elements go to one place, and which of them stays is not defined",
    "nn.functional.max_unpool2d": "as max_unpool1d",
    "nn.functional.max_unpool3d": "as max_unpool1d",
}
ROUGH = ("cov", "logcumsumexp")   # float32 weights among float64 inputs; sums in logarithms
NOT_BATCHED = ("narrow", "linspace", "logspace", "resize_", "resize_as_")


def tensors_in(tree: Any, kind: type) -> list[Any]:
    """The tensors of a sample's arguments, from left to right."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, kind)]


def filled(tree: Any, values: list[Any], kind: type) -> Any:
    """The same arguments with other tensors."""
    rest = iter(values)

    def build(x: Any) -> Any:
        if isinstance(x, kind):
            return next(rest)
        if isinstance(x, (list, tuple)):
            result = [build(item) for item in x]
            return type(x)(result) if type(x) in (list, tuple) else result
        if isinstance(x, dict):
            return {key: build(value) for key, value in x.items()}
        return x

    return build(tree)


def is_float(t: Any) -> bool:
    return t.is_floating_point() or t.is_complex()


def pure(fn: Callable, tree: Any, kind: type) -> Callable:
    """The op as a function of the tensors of a sample."""

    def call(*values: Any) -> Any:
        args, kwargs = filled(tree, list(values), kind)
        return fn(*args, **kwargs)

    return call


def prepared(record: Any, check: str, dtype: torch.dtype) -> list[tuple[Any, Any]]:
    """Samples as (PyTorch's arguments, ours); those either library refuses are left out."""
    if dtype not in record.supported_dtypes("cpu"):
        raise NotApplicable
    found = []
    for sample in samples(record, dtype, check, requires_grad=dtype is torch.float64):
        tree = ((sample.input, *sample.args), sample.kwargs)
        flat = tensors_in(tree, torch.Tensor)
        if not flat or any(t.layout is not torch.strided for t in flat):
            continue
        found.append((tree, thing(tree)))
    if not found:
        raise NotApplicable
    return found[:2]


def only_tensors(fn: Callable) -> Callable:
    """Results as a flat tuple of tensors."""

    def call(*values: Any) -> tuple:
        return tuple(t for t in leaves(fn(*values)) if isinstance(t, rl.Tensor))

    return call


def check_vmap(record: Any) -> None:
    """vmap against a loop."""
    dtype = torch.float32 if torch.float32 in record.supported_dtypes("cpu") else torch.int64
    ours = function(record.op)
    seen = 0
    if record.name in NOT_BATCHED:
        raise NotApplicable
    for _, tree in prepared(record, "gradient", dtype):
        fn = only_tensors(pure(ours, tree, rl.Tensor))
        flat = [t.detach() for t in tensors_in(tree, rl.Tensor)]
        examples = [flat, [t * 0.9 if is_float(t) else t for t in flat]]
        for chosen in ([True] * len(flat), [k == 0 for k in range(len(flat))]):
            seen += one_vmap(record, fn, examples, chosen)
    if not seen:
        raise NotApplicable


def one_vmap(record: Any, fn: Callable, examples: list[list[Any]], chosen: list[bool]) -> bool:
    mixed = [examples[0], [e if c else first for e, c, first in zip(examples[1], chosen, examples[0], strict=True)]]
    try:
        wanted = [seeded(fn, *[t.clone() for t in e]) for e in mixed]
        if not wanted[0] or any(a.shape != b.shape for a, b in zip(*wanted, strict=True)):
            return False
    except Exception:   # noqa: BLE001  not this check's business
        return False
    stacked = [rl.stack(pair) if c else pair[0].clone() for c, *pair in zip(chosen, *mixed, strict=True)]
    dims = tuple(0 if c else None for c in chosen)
    values = not UNDEFINED.match(record.name)
    try:
        got = seeded(vmap(fn, in_dims=dims), *stacked)
    except (RuntimeError, NotImplementedError) as error:
        if "is a random operation" in str(error):
            got, values = seeded(vmap(fn, in_dims=dims, randomness="different"), *stacked), False
        elif any(text in str(error) for text in REFUSED):
            return False
        elif "is not possible in place" in str(error) and not all(chosen):
            return False
        else:
            raise
    for k, (w, g) in enumerate(zip(zip(*wanted, strict=True), got, strict=True)):
        same(rl.stack(list(w)), g, f"output {k}, batched {chosen}", values)
    return True


def same(want: Any, got: Any, where: str, values: bool = True, slack: float = 60.0) -> None:
    """Both ours: compare through PyTorch's side."""
    compare(torch_of(want), got, where, values=values, slack=slack)


def torch_of(t: Any) -> torch.Tensor:
    from tests.parity.convert import back

    return back(t.detach())


def differentiable(record: Any, check: str) -> list[tuple[Any, Any]]:
    if not record.supports_autograd and not record.supports_forward_ad:
        raise NotApplicable
    return prepared(record, check, torch.float64)


def vector_pairs(values: Any, left: Any, right: Any) -> tuple:
    """The products of the columns that belong to one value, u_k v_k^H: the signs (phases) of vectors,
    free in each library, cancel."""
    count = values.shape[-1]
    return values, left[..., :, None, :count] * right.conj()[..., None, :, :count]


# Factors whose vectors are defined up to a sign or phase, by what is defined.
WITHOUT_PHASES: dict[str, Callable] = {
    "svd": lambda u, s, v: vector_pairs(s, u, v),
    "linalg.svd": lambda u, s, vh: vector_pairs(s, u, vh.mH),
    "svd_lowrank": lambda u, s, v: vector_pairs(s, u, v),
    "pca_lowrank": lambda u, s, v: vector_pairs(s, u, v),
    "linalg.eig": lambda values, vectors: vector_pairs(values, vectors, vectors),
    "linalg.eigh": lambda values, vectors: vector_pairs(values, vectors, vectors),
}


def without_phases(record: Any, op: Callable) -> Callable:
    """The op, its vectors replaced by what is defined of them."""
    known = WITHOUT_PHASES.get(record.name)
    return op if known is None else lambda *args, **kwargs: known(*op(*args, **kwargs))


def check_jvp(record: Any) -> None:
    """Forward mode against PyTorch's."""
    if record.name in NOT_DIFFERENTIATED and record.variant_test_name in ("", "prod", "chunked", "chunked_none"):
        raise NotApplicable
    ours, seen = function(record.op), 0
    for tree, own in differentiable(record, "gradient"):
        flat = [t.detach() for t in tensors_in(tree, torch.Tensor)]
        mine = [t.detach() for t in tensors_in(own, rl.Tensor)]
        at = [k for k, t in enumerate(tensors_in(tree, torch.Tensor)) if is_float(t) and t.requires_grad]
        if not at:
            continue
        torch.manual_seed(3)
        directions = [torch.randn_like(flat[k]) for k in at]
        try:
            want = torch_jvp(
                pure(without_phases(record, on_its_manifold(record, record.op)), tree, torch.Tensor),
                flat,
                at,
                directions,
            )
        except Exception:   # noqa: BLE001  PyTorch has no derivative here
            continue
        call = only_tensors(pure(without_phases(record, on_its_manifold(record, ours, function)), own, rl.Tensor))
        got = seeded(
            jvp, partial_call(call, mine, at), tuple(mine[k] for k in at), tuple(thing(d) for d in directions)
        )[1]
        kept = [w for w in want if isinstance(w, torch.Tensor)]
        if len(kept) != len(got):
            raise Different(f"{len(kept)} tangents wanted, got {len(got)}")
        for k, (w, g) in enumerate(zip(kept, got, strict=True)):
            if is_float(w):
                compare(w, g, f"tangent {k}", slack=5e5 if record.name in ROUGH else 5e3)
                seen += 1
    if not seen:
        raise NotApplicable


def on_its_manifold(record: Any, op: Callable, convert: Callable = lambda f: f) -> Callable:
    """The op as the record differentiates it: of symmetric or triangular inputs where only those are meant."""
    try:
        outer = convert(record.gradcheck_wrapper)
    except (Missing, AttributeError):   # it uses names of PyTorch that are not public
        raise NotApplicable from None
    return lambda *args, **kwargs: outer(op, *args, **kwargs)


def partial_call(fn: Callable, flat: list[Any], at: list[int]) -> Callable:
    """fn of the tensors at `at`, the others fixed."""

    def call(*values: Any) -> Any:
        full = [t.clone() for t in flat]
        for k, v in zip(at, values, strict=True):
            full[k] = v * 1   # a copy, so that in-place ops are welcome
        return fn(*full)

    return call


def torch_jvp(fn: Callable, flat: list[Any], at: list[int], directions: list[Any]) -> list[Any]:
    def call(*values: Any) -> tuple:
        return tuple(t for t in leaves(partial_call(fn, flat, at)(*values)) if isinstance(t, torch.Tensor))

    primals = tuple(flat[k] for k in at)
    return list(seeded(torch.func.jvp, call, primals, tuple(directions))[1])


def check_pull(record: Any) -> None:
    """vmap of vjp against a loop."""
    if not record.supports_autograd:
        raise NotApplicable
    ours, seen = function(record.op), 0
    for _, own in differentiable(record, "gradient")[:1]:
        mine = [t.detach() for t in tensors_in(own, rl.Tensor)]
        at = [k for k, t in enumerate(tensors_in(own, rl.Tensor)) if is_float(t) and t.requires_grad]
        if not at:
            continue
        call = partial_call(only_tensors(pure(on_its_manifold(record, ours, function), own, rl.Tensor)), mine, at)

        def pulled(*values: Any, call: Callable = call) -> tuple:
            out, pull = vjp(lambda *x: tuple(o for o in call(*x) if is_float(o)), *values)
            result = pull(tuple(rl.ones_like(o) for o in out))
            return result if isinstance(result, tuple) else (result,)

        primals = [mine[k] for k in at]
        examples = [primals, [t * 0.9 for t in primals]]
        try:
            wanted = [seeded(pulled, *e) for e in examples]
        except Exception:   # noqa: BLE001
            continue
        try:
            got = seeded(vmap(pulled), *[rl.stack(pair) for pair in zip(*examples, strict=True)])
        except RuntimeError as error:
            if any(text in str(error) for text in REFUSED):
                continue
            raise
        for k, (w, g) in enumerate(zip(zip(*wanted, strict=True), got, strict=True)):
            same(rl.stack(list(w)), g, f"gradient {k}", slack=5e4)
        seen += 1
    if not seen:
        raise NotApplicable


CHECKS: dict[str, Callable] = {"vmap": check_vmap, "jvp": check_jvp, "pull": check_pull}


def outcome(name: str, check: str) -> str:
    """"pass", "none" or the reason of the failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHECKS[check](RECORDS[name])
    except (NotApplicable, Missing):
        return "none"
    except AttributeError as error:
        return "none" if "module 'rushlight" in str(error) else f"AttributeError: {error}"
    except Exception as error:   # noqa: BLE001  a report must survive every failure
        return f"{type(error).__name__}: {error}"
    return "pass"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.func.sweep")
    parser.add_argument("--only", default="*", help="glob patterns over record names, separated by commas")
    parser.add_argument("--check", default=",".join(CHECKS))
    parser.add_argument("-v", action="store_true", help="print every failure")
    options = parser.parse_args()
    chosen = [name for name in RECORDS if any(fnmatchcase(name, p) for p in options.only.split(","))]
    counts: dict[str, Counter] = {check: Counter() for check in options.check.split(",")}
    for name in chosen:
        for check, count in counts.items():
            found = outcome(name, check)
            count[found if found in ("pass", "none") else "fail"] += 1
            if options.v and found not in ("pass", "none"):
                print(f"{name} {check}: {found[:300]}", flush=True)
    for check, count in counts.items():
        print(f"{check}: {count['pass']} passed, {count['fail']} failed, {count['none']} not applicable")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
