"""The checks themselves: an implementation that is broken on purpose must be found out.

Each mutant wraps Rushlight's function as the checks see it, wrong in one way,
and names the check and the record that must object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import rushlight as rl  # noqa: E402
from tests.parity import checks  # noqa: E402
from tests.parity.compare import Different, compare, leaves  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402


def copied(x: Any) -> Any:
    return x.clone() if isinstance(x, rl.Tensor) else x


def over_results(change: Callable[[Any], Any]) -> Callable[[Callable], Callable]:
    """A mutant that changes what is returned."""

    def mutant(fn: Callable) -> Callable:
        def broken(*args: Any, **kwargs: Any) -> Any:
            result = fn(*args, **kwargs)
            return change(result) if isinstance(result, rl.Tensor) else result
        return broken
    return mutant


def works_on_a_copy(fn: Callable) -> Callable:
    return lambda x, *args, **kwargs: fn(copied(x), *args, **kwargs)


def returns_a_copy(fn: Callable) -> Callable:
    return lambda *args, **kwargs: copied(fn(*args, **kwargs))


def writes_nothing_into_out(fn: Callable) -> Callable:
    def broken(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        if "out" in kwargs:
            for part in leaves(kwargs["out"]):
                part.zero_()
        return result
    return broken


def returns_something_else_than_out(fn: Callable) -> Callable:
    return lambda *args, **kwargs: copied(fn(*args, **kwargs)) if "out" in kwargs else fn(*args, **kwargs)


def ignores_out(fn: Callable) -> Callable:
    return lambda *args, out=None, **kwargs: fn(*args, **kwargs)


def writes_into_another_argument(fn: Callable) -> Callable:
    def broken(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        for other in args[1:]:
            if isinstance(other, rl.Tensor) and other.numel():
                other.view(-1)[0] = 0.25
        return result
    return broken


def writes_between_the_elements(fn: Callable) -> Callable:
    def broken(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return fn(*args, **kwargs)
        result = fn(*args, out=out, **kwargs)
        whole = rl.empty(0, dtype=out.dtype).set_(
            out.untyped_storage(), 0, (out.untyped_storage().nbytes() // out.element_size(),), (1,)
        )
        if whole.numel() == 2 * out.numel() and out.numel():
            whole[0] = 0.5
        return result
    return broken


def scaled_gradient(factor: float) -> Callable[[Callable], Callable]:
    class Scale(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * factor

    return over_results(lambda x: Scale.apply(x) if x.requires_grad else x)


def smallest_element_off(x: Any) -> Any:
    """The least element of many, wrong by one part in a thousand:
    far less than anything measured by the largest one."""
    if not x.is_floating_point() or x.numel() < 4:
        return x
    flat = x.reshape(-1).clone()
    sizes = rl.where(flat == 0, float("inf"), flat.abs())
    at = int(sizes.argmin())
    flat[at] = flat[at] * 1.001
    return flat.view(x.shape)


def transposed_in_memory(x: Any) -> Any:
    return x.mT.contiguous().mT if x.ndim >= 2 else x


def raising(kind: type[Exception], message: str) -> Callable[[Callable], Callable]:
    def mutant(fn: Callable) -> Callable:
        def broken(*args: Any, **kwargs: Any) -> Any:
            try:
                return fn(*args, **kwargs)
            except Exception:   # noqa: BLE001  every error becomes this one
                raise kind(message) from None
        return broken
    return mutant


MUTANTS: dict[str, tuple[Callable[[Callable], Callable], str, list[str]]] = {
    # what is broken: (how, check, records)
    "in-place forms work on a copy": (
        works_on_a_copy,
        "variants",
        ["sin", "add", "clamp", "index_fill", "cumsum", "masked_fill"],
    ),
    "in-place forms return a copy": (returns_a_copy, "variants", ["sin", "add", "tril"]),
    "out= gets zeros": (writes_nothing_into_out, "variants", ["sin", "matmul", "cat", "sort", "amax", "linalg.qr"]),
    "out= is not what is returned": (returns_something_else_than_out, "variants", ["sin", "matmul", "cat"]),
    "out= is ignored": (ignores_out, "variants", ["sin", "matmul", "amax"]),
    "out= is written past its elements": (writes_between_the_elements, "variants", ["sin", "mm"]),
    "another argument is written into": (
        writes_into_another_argument,
        "forward",
        ["add", "matmul", "nn.functional.mse_loss"],
    ),
    "views are copies": (returns_a_copy, "forward", ["transpose", "narrow", "unfold"]),
    "copies are views": (
        lambda fn: lambda x, *a, **k: x if isinstance(x, rl.Tensor) else fn(x, *a, **k),
        "forward",
        ["clone"],
    ),
    "the gradient is scaled by 1.000001": (
        scaled_gradient(1.000001),
        "gradient",
        ["sin", "matmul", "cat", "pow", "nn.functional.conv2d"],
    ),
    "the gradient is zero": (scaled_gradient(0.0), "gradient", ["exp", "sum"]),
    "the second gradient is scaled": (scaled_gradient(1.00001), "second", ["pow", "matmul"]),
    "rows and columns swap places in memory": (
        over_results(transposed_in_memory),
        "strides",
        ["sin", "add", "matmul", "softmax"],
    ),
    "the smallest element is off by 0.1%": (
        over_results(smallest_element_off),
        "forward",
        ["pow", "exp", "mul", "sinh", "cat", "gather"],
    ),
    "an element is moved": (over_results(lambda x: x.roll(1)), "forward", ["cat", "gather", "nn.functional.linear"]),
    "float64 comes back": (over_results(lambda x: x.double()), "forward", ["sin", "matmul", "softmax"]),
    "float32 comes back for float16": (
        over_results(lambda x: x.float() if x.dtype is rl.float16 else x),
        "dtypes",
        ["sin", "sum"],
    ),
    "a dimension more": (over_results(lambda x: x[None]), "forward", ["sum", "neg"]),
    "gaps are ignored": (
        lambda fn: lambda x, *a, **k: fn(x.as_strided(x.shape, x.contiguous().stride(), x.storage_offset()), *a, **k),
        "noncontiguous",
        ["sin", "sum"],
    ),
    "strides differ without data": (
        over_results(lambda x: transposed_in_memory(x) if x.is_meta else x),
        "meta",
        ["sin", "bmm"],
    ),
    "errors are of another class": (
        raising(KeyError, "dim 5 out of range, index, size 10, 0, 1, 2, 3"),
        "errors",
        ["gather", "diag"],
    ),
    "errors say nothing": (raising(RuntimeError, "something is wrong"), "errors", ["gather", "diag"]),
    "nothing is refused": (lambda fn: lambda *a, **k: None, "errors", ["gather", "diag"]),
}
CASES = [
    pytest.param(how, check, record, id=f"{name}: {record}")
    for name, (how, check, records) in MUTANTS.items()
    for record in records
]


@pytest.mark.parametrize("mutant, check, record", CASES)
def test_a_broken_implementation_is_found_out(
    mutant: Callable, check: str, record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = checks.function
    monkeypatch.setattr(checks, "function", lambda fn: mutant(right(fn)))
    with pytest.raises(Different):
        checks.CHECKS[check](RECORDS[record])


@pytest.mark.parametrize("record", ["sin", "matmul", "cat", "sort"])
@pytest.mark.parametrize("check", ["forward", "variants", "gradient"])
def test_the_harness_of_the_mutants_breaks_nothing_itself(
    check: str, record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = checks.function
    monkeypatch.setattr(checks, "function", lambda fn: over_results(lambda x: x)(right(fn)))
    checks.CHECKS[check](RECORDS[record])


@pytest.mark.parametrize("kind", ["moved", "pointwise", "accumulated"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 7.0])
def test_one_wrong_element_among_a_thousand_shows(kind: str, value: float) -> None:
    right = torch.linspace(1, 2, 1000)
    wrong = right.clone()
    wrong[713] = value
    compare(right, rl.tensor(right.tolist()), "the same", kind)
    for want, got in ((right, wrong), (wrong, right)):
        with pytest.raises(Different, match="1 of 1000 elements differ"):
            compare(want, rl.tensor(got.tolist()), "one is wrong", kind)


def test_a_small_element_counts_as_much_as_a_large_one() -> None:
    """What `pow` gives: numbers of very different size, in which a bound by the largest hides most."""
    right = torch.logspace(-20, 20, 1000)
    wrong = right * (1 + 1e-3 * (torch.arange(1000) == 3))
    with pytest.raises(Different, match="1 of 1000"):
        compare(right, rl.tensor(wrong.tolist()), "the fourth is off by 0.1%", "pointwise")


def test_an_oracle_that_refuses_everything_is_no_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that could look at nothing says so with an exception that test_op_db.py counts as a failure."""
    monkeypatch.setattr(checks.Pair, "oracle", lambda *args, **kwargs: (None, True))
    for check in ("forward", "gradient", "second", "variants", "noncontiguous", "dtypes", "meta", "errors"):
        with pytest.raises(checks.NotApplicable):
            checks.CHECKS[check](RECORDS["add" if check != "errors" else "gather"])
