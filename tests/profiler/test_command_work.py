"""Flops and bytes of calls, as `rushlight profile` counts them from plans, against what the sizes say."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

import rushlight
from rushlight import _extras, nn
from rushlight.loops.expr import arg, cast, fma
from rushlight.nn import functional as F
from rushlight.profiler.command.counting import flops_of
from rushlight.profiler.command.events import Events
from rushlight.profiler.command.findings import OpRow
from rushlight.profiler.command.peaks import Peaks
from rushlight.profiler.command.verdicts import Verdicts

M, K, N = 24, 32, 40
SHAPES = 1


def rows(call: Callable[[], Any]) -> dict[str, OpRow]:
    """The ops that a function calls, with their work."""
    _extras.profile_start(SHAPES)
    try:
        call()
    finally:
        recording = _extras.profile_stop()
    return {row.name: row for row in Verdicts(Events(recording), Peaks(1e11, 1e10)).rows()}


def tensor(*sizes: int, dtype: Any = rushlight.float32, grad: bool = False) -> Any:
    """Small numbers."""
    return rushlight.ones(sizes, dtype=dtype).requires_grad_(grad)


A, B, BIAS = tensor(M, K), tensor(K, N), tensor(N)
IMAGE, FILTERS = tensor(2, 3, 10, 12), tensor(5, 3, 3, 3)
INDEX, TABLE = rushlight.zeros(7, dtype=rushlight.int64), tensor(100, 16)
HEADS = tensor(2, 4, 16, 8)
f4, f8 = 4, 8

# what is called -> (the op's name, flops, bytes)
CASES: dict[str, tuple[Callable[[], Any], str, int | None, int | None]] = {
    "add": (lambda: A + A, "aten::add", M * K, 3 * f4 * M * K),
    "add a number": (lambda: A + 1, "aten::add", M * K, 2 * f4 * M * K),
    "multiply and add": (lambda: rushlight.add(A, A, alpha=3), "aten::add", 2 * M * K, 3 * f4 * M * K),
    "a row that is repeated": (lambda: A * tensor(K), "aten::mul", M * K, f4 * (2 * M * K + K)),
    "a row that was expanded": (lambda: A * tensor(K).expand(M, K), "aten::mul", M * K, f4 * (2 * M * K + K)),
    "in place": (lambda: tensor(M, K).mul_(A), "aten::mul_", M * K, 3 * f4 * M * K),
    "double precision": (
        lambda: tensor(M, dtype=rushlight.float64).sqrt(), "aten::sqrt", M, 2 * f8 * M,
    ),
    "integers": (lambda: INDEX + 1, "aten::add", 0, 2 * f8 * 7),
    "compare": (lambda: A > 0, "aten::gt", 0, (f4 + 1) * M * K),
    "sum": (lambda: A.sum(), "aten::sum", M * K, f4 * (M * K + 1)),
    "sum of rows": (lambda: A.sum(1), "aten::sum", M * K, f4 * (M * K + M)),
    "mean": (lambda: A.mean(1), "aten::mean", M * K + M, f4 * (M * K + M)),
    "mm": (lambda: rushlight.mm(A, B), "aten::mm", 2 * M * N * K, f4 * (M * K + K * N + M * N)),
    "bmm": (
        lambda: rushlight.bmm(tensor(3, M, K), tensor(3, K, N)), "aten::bmm", 6 * M * N * K,
        3 * f4 * (M * K + K * N + M * N),
    ),
    "addmm": (
        lambda: rushlight.addmm(BIAS, A, B), "aten::addmm", 2 * M * N * K + M * N, f4 * (M * K + K * N + M * N + N),
    ),
    "linear": (
        lambda: F.linear(A, tensor(N, K), BIAS), "aten::linear", 2 * M * N * K + M * N,
        f4 * (M * K + K * N + M * N + N),
    ),
    "convolution": (
        lambda: F.conv2d(IMAGE, FILTERS, padding=1), "aten::conv2d", 2 * 2 * 10 * 12 * 5 * 27,
        f4 * (2 * 3 * 120 + 5 * 27 + 2 * 5 * 120),
    ),
    "view": (lambda: A.t(), "aten::t", 0, 0),
    "reshape of what lies densely": (lambda: A.reshape(K, M), "aten::reshape", 0, 0),
    "copy": (lambda: A.clone(), "aten::clone", 0, 2 * f4 * M * K),
    "rows of a table": (lambda: TABLE.index_select(0, INDEX), "aten::index_select", 0, f4 * 2 * 7 * 16 + f8 * 7),
    "zeros": (lambda: rushlight.zeros(M, K), "aten::zeros", 0, f4 * M * K),
    "memory as it was": (lambda: rushlight.empty(M, K), "aten::empty", 0, 0),
    "sort": (lambda: A.sort(), "aten::sort", 0, (2 * f4 + f8) * M * K),
    "running sum": (lambda: A.cumsum(1), "aten::cumsum", M * K, 2 * f4 * M * K),
}


@pytest.mark.parametrize("case", CASES)
def test_work_is_what_the_sizes_say(case: str) -> None:
    call, name, flops, moved = CASES[case]
    found = rows(call)[name]
    assert (found.flops, found.bytes) == (flops, moved)


def test_a_fused_multiply_add_is_two_and_what_is_shared_is_computed_once() -> None:
    x, y, z = (arg(k, "f32") for k in range(3))
    assert flops_of([fma(x, y, z)]) == 2
    assert flops_of([x * y + 1, x * y - z]) == 3
    assert flops_of([cast(x, "i64") + cast(y, "i64")]) == 0


def test_named_functions_cost_what_their_kernels_compute() -> None:
    found = rows(lambda: A.exp())["aten::exp"]
    assert 8 * M * K < found.flops < 60 * M * K and found.flops % (M * K) == 0
    assert found.bytes == 2 * f4 * M * K


def test_a_fused_op_reads_its_rows_once() -> None:
    found = rows(lambda: A.softmax(1))["aten::softmax"]
    assert found.bytes == 2 * f4 * M * K
    assert 10 * M * K < found.flops < 60 * M * K


def test_attention_counts_its_products_and_a_causal_one_what_it_sees() -> None:
    whole = rows(lambda: F.scaled_dot_product_attention(HEADS, HEADS, HEADS))
    causal = rows(lambda: F.scaled_dot_product_attention(HEADS, HEADS, HEADS, is_causal=True))
    name = "aten::scaled_dot_product_attention"
    assert whole[name].flops == 2 * 2 * 4 * 16 * 16 * (8 + 8)
    assert causal[name].flops == 2 * 2 * 4 * (16 * 17 // 2) * (8 + 8)


def test_backward_has_rows_of_its_own_with_twice_the_products() -> None:
    weight = tensor(N, K, grad=True)
    x = tensor(M, K, grad=True)
    found = rows(lambda: F.linear(x, weight).relu().sum().backward())
    products = [row for name, row in found.items() if name.endswith("mmBackward0") or name.startswith("Mm")]
    assert sum(row.flops for row in products) == 2 * 2 * M * N * K
    assert found["ReluBackward0"].bytes == f4 * (2 * M * N + 1)      # the gradient of a sum is one number, expanded


def test_a_body_costs_what_its_calls_cost() -> None:
    model = nn.Sequential(nn.Linear(K, N), nn.ReLU(), nn.Linear(N, M))
    found = rows(lambda: model(A))
    assert found["aten::linear"].count == 2
    assert found["aten::linear"].flops == 2 * M * N * K + M * N + 2 * M * N * M + M * M


def test_an_unknown_cost_is_null_and_never_a_guess() -> None:
    found = rows(lambda: rushlight.linalg.svd(A))
    assert any(row.flops is None for row in found.values())


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("case", ["mm", "bmm", "convolution", "grouped", "transposed"])
def test_products_count_as_pytorchs_counter_does(case: str) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    def program(library: Any) -> None:
        functional = library.nn.functional
        image = library.ones(2, 4, 9, 7)
        {
            "mm": lambda: library.mm(library.ones(M, K), library.ones(K, N)),
            "bmm": lambda: library.bmm(library.ones(3, M, K), library.ones(3, K, N)),
            "convolution": lambda: functional.conv2d(image, library.ones(6, 4, 3, 3), stride=2),
            "grouped": lambda: functional.conv2d(image, library.ones(6, 2, 3, 3), groups=2),
            "transposed": lambda: functional.conv_transpose2d(image, library.ones(4, 5, 3, 3), stride=2),
        }[case]()

    with FlopCounterMode(display=False) as counter:
        program(torch)
    ours = sum(row.flops or 0 for row in rows(lambda: program(rushlight)).values())
    assert ours == counter.get_total_flops()
