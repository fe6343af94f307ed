"""Generic over the registry: what every op must have and do, whatever it computes.

Samples are made from the schema: tensors of sizes that broadcast, numbers for scalars, defaults for the rest. An op
whose required parameters need more than that has tests of its own.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.op import definitions, ops
from rushlight.op.pointwise import Pointwise
from rushlight.op.reduction import Reduction
from rushlight.op.registry import schemas_of
from rushlight.op.schema import TYPES, parse

sys.path.insert(0, str(Path(__file__).parents[1] / "devices"))
import reference_device  # noqa: E402

DEVICE = "regdev"


@pytest.fixture(scope="module", autouse=True)
def device() -> None:
    from rushlight.devices import register, registered

    if DEVICE not in registered():
        register(reference_device.ReferenceDevice(DEVICE))


def of_kind(kind: type) -> list[str]:
    return sorted(
        n for n, classes in definitions.items() if all(issubclass(c, kind) for c in classes) and "::" not in n
    )


POINTWISE, REDUCTIONS = of_kind(Pointwise), of_kind(Reduction)


def values(dtype: Any, seed: int, *shape: int) -> Any:
    """Elements of a type, between 0.1 and 0.9 where it has fractions."""
    count = 1
    for s in shape:
        count *= s
    base = (rl.arange(count, dtype=rl.float64) * 37 + seed * 11) % 23
    if dtype.is_floating_point or dtype.is_complex:
        return (base / 29 + 0.1).reshape(shape).to(dtype)
    return (base % 5 + 1).reshape(shape).to(dtype)


def sample(name: str, dtype: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments for the op's first schema that has tensors; None where they cannot be made up."""
    schema = parse(schemas_of(definitions[name][0])[0])
    args: list[Any] = []
    named: dict[str, Any] = {}
    shapes = ((3, 4), (4,), (3, 1))
    for p in schema.params:
        if not p.required:
            continue
        if p.type in ("Tensor", "Tensor|Scalar"):
            result: Any = values(dtype, len(args), *shapes[min(sum(isinstance(a, rl.Tensor) for a in args), 2)])
        elif p.type == "Scalar":
            result = 2
        elif p.type in ("int", "float"):
            result = 1
        elif p.type == "bool":
            result = True
        elif p.type in ("int[]", "int[]?"):
            result = (0,)
        else:
            return None
        if p.keyword_only:
            named[p.name] = result
        else:
            args.append(result)
    return (args, named) if any(isinstance(a, rl.Tensor) for a in args) else None


def call(op: Any, args: list[Any], named: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op(*args, **named)


def attempt(name: str) -> tuple[list[Any], dict[str, Any], Any] | None:
    """Arguments and result in the first dtype the op takes."""
    for dtype in (rl.float32, rl.int64, rl.bool, rl.complex64):
        result = sample(name, dtype)
        if result is None:
            return None
        try:
            return (*result, call(ops[name], *result))
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
    return None


def parts(result: Any) -> list[Any]:
    return [r for r in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(r, rl.Tensor)]


def same(a: Any, b: Any) -> bool:
    """Equal elements, NaN included."""
    return a.dtype is b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def test_every_op_has_a_docstring_and_a_schema() -> None:
    bare = [n for n, classes in definitions.items() for c in classes if not (c.__doc__ or "").strip()]
    assert not bare, bare
    for name, classes in definitions.items():
        for cls in classes:
            for text in schemas_of(cls):
                schema = parse(text)
                assert schema.params is not None and schema.returns is not None, text
                assert all(p.type in TYPES for p in schema.params), text
                assert len({p.name for p in schema.params}) == len(schema.params), text
        assert (ops[name].__doc__ or "").strip(), name


def test_no_schema_is_defined_twice() -> None:
    """Of two definitions the family that was imported first would win, and the other rest unseen."""
    known: dict[str, str] = {}
    for classes in definitions.values():
        for cls in classes:
            for schema in schemas_of(cls):
                first = known.setdefault(" ".join(schema.split()), cls.__module__)
                assert first is cls.__module__, f"{schema} stands in {first} and {cls.__module__}"


def test_every_op_can_be_resolved() -> None:
    for name, op in ops.items():
        assert op.overload_list, name
        assert op.__name__ == name.removeprefix("_functional_")


def test_most_ops_have_a_sample() -> None:
    result = [n for n in POINTWISE if attempt(n) is not None]
    assert len(result) > 0.9 * len(POINTWISE), sorted(set(POINTWISE) - set(result))


@pytest.mark.parametrize("start", range(4))
def test_in_place_and_out_equal_the_functional_form(start: int) -> None:
    wrong = []
    for name in POINTWISE[start::4]:
        found = attempt(name)
        if found is None:
            continue
        args, named, want = found
        if (
            definitions[name][0].inplace
            and name + "_" in ops
            and isinstance(want, rl.Tensor)
            and isinstance(args[0], rl.Tensor)
        ):
            target = args[0].clone()
            if want.dtype is target.dtype and want.shape == target.shape:
                got = call(ops[name + "_"], [target, *args[1:]], named)
                if got is not target or not same(target, want):
                    wrong.append(f"{name}_: {got} wanted {want}")
        if definitions[name][0].out:
            outs = [rl.empty(0, dtype=w.dtype) for w in parts(want)]
            got = call(ops[name], args, {**named, "out": tuple(outs) if isinstance(want, tuple) else outs[0]})
            for o, g, w in zip(outs, parts(got), parts(want), strict=True):
                if g is not o or not same(o, w):
                    wrong.append(f"{name}(out=): {o} wanted {w}")
            strided = [rl.zeros((*w.shape, 2), dtype=w.dtype)[..., 1] for w in parts(want)]
            call(ops[name], args, {**named, "out": tuple(strided) if isinstance(want, tuple) else strided[0]})
            wrong += [
                f"{name}(out=strided): {o} wanted {w}"
                for o, w in zip(strided, parts(want), strict=True)
                if not same(o, w)
            ]
    assert not wrong, "\n".join(wrong)


def to(x: Any, where: str) -> Any:
    return x.to(where) if isinstance(x, rl.Tensor) else x


@pytest.mark.parametrize("names", [POINTWISE[::2], POINTWISE[1::2], REDUCTIONS], ids=["even", "odd", "reductions"])
def test_meta_results_describe_real_ones(names: list[str]) -> None:
    wrong = []
    for name in names:
        found = attempt(name)
        if found is None:
            continue
        args, named, _ = found
        for layout in (lambda t: t, lambda t: t.transpose(0, -1) if t.ndim > 1 else t, lambda t: t[..., ::2]):
            inputs = [layout(a) if isinstance(a, rl.Tensor) else a for a in args]
            try:
                want = call(ops[name], inputs, named)
            except (RuntimeError, IndexError):
                continue
            got = call(
                ops[name], [to(layout(to(a, "meta")), "meta") if isinstance(a, rl.Tensor) else a for a in args], named
            )
            for w, g in zip(parts(want), parts(got), strict=True):
                if (w.shape, w.dtype, w.stride(), "meta") != (g.shape, g.dtype, g.stride(), g.device.type):
                    wrong.append(
                        f"{name}: {g.shape} {g.dtype} {g.stride()} {g.device} wanted {w.shape} {w.dtype} {w.stride()}"
                    )
    assert not wrong, "\n".join(wrong)


OTHERS: dict[str, Any] = {
    "matmul": lambda x, y: x @ y.t(), "addmm": lambda x, y: rl.addmm(x[:, 0], x, y.t()),
    "softmax": lambda x, y: x.softmax(0), "layer_norm": lambda x, y: rl.layer_norm(x, (4,)),
    "cat": lambda x, y: rl.cat([x, y], 1), "stack": lambda x, y: rl.stack([x, y]),
    "gather": lambda x, y: x.gather(1, (y > 0.5).to(rl.int64)), "sort": lambda x, y: x.sort(0),
    "topk": lambda x, y: x.topk(2, 1), "cumsum": lambda x, y: x.cumsum(1), "tril": lambda x, y: x.tril(),
    "roll": lambda x, y: x.roll(1, 0), "flip": lambda x, y: x.flip(0), "repeat": lambda x, y: x.repeat(2, 1),
    "index_select": lambda x, y: x.index_select(0, rl.tensor([0, 2], device=x.device)),
    "expand": lambda x, y: x[:1].expand(5, 4), "split": lambda x, y: x.split(2, 1),
    "unfold": lambda x, y: x.unfold(1, 2, 1),
    "einsum": lambda x, y: rl.einsum("ij,kj->ik", x, y), "mse_loss": lambda x, y: rl.nn.functional.mse_loss(x, y),
    "where": lambda x, y: rl.where(x > y, x, y), "clone": lambda x, y: x.t().clone(),
    "masked_fill": lambda x, y: x.masked_fill(y > 0.5, 0.0),
    "scatter": lambda x, y: x.scatter(1, (y > 0.5).to(rl.int64), 1.0),
    "linear": lambda x, y: rl.nn.functional.linear(x, y, y[:, 0]),
    "index_add": lambda x, y: x.index_add(0, rl.tensor([0, 1, 0], device=x.device), y),
    "logsumexp": lambda x, y: x.logsumexp(1), "diagonal": lambda x, y: x.diagonal(),
    "log_softmax": lambda x, y: x.log_softmax(1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_meta_and_device_results_of_other_kinds(name: str) -> None:
    x, y = values(rl.float32, 0, 3, 4), values(rl.float32, 3, 3, 4)
    want = OTHERS[name](x, y)
    for where in ("meta", DEVICE):
        got = OTHERS[name](x.to(where), y.to(where))
        for w, g in zip(parts(want), parts(got), strict=True):
            assert (w.shape, w.dtype, w.stride(), where) == (g.shape, g.dtype, g.stride(), g.device.type)
            if where != "meta":
                assert rl.allclose(g.to("cpu").to(rl.float64), w.to(rl.float64), atol=1e-6)


@pytest.mark.parametrize("start", range(3))
def test_pointwise_ops_on_an_out_of_tree_device(start: int) -> None:
    wrong = []
    for name in POINTWISE[start::3]:
        found = attempt(name)
        if found is None:
            continue
        args, named, want = found
        got = call(ops[name], [to(a, DEVICE) for a in args], named)
        for w, g in zip(parts(want), parts(got), strict=True):
            if g.device.type != DEVICE or not same(g.to("cpu"), w):
                wrong.append(f"{name}: {g.to('cpu')} wanted {w}")
    assert not wrong, "\n".join(wrong)


def test_reductions_on_an_out_of_tree_device() -> None:
    wrong = []
    for name in REDUCTIONS:
        found = attempt(name)
        if found is None:
            continue
        args, named, want = found
        got = call(ops[name], [to(a, DEVICE) for a in args], named)
        for w, g in zip(parts(want), parts(got), strict=True):
            if g.device.type != DEVICE or not same(g.to("cpu"), w):
                wrong.append(f"{name}: {g.to('cpu')} wanted {w}")
    assert not wrong, "\n".join(wrong)
