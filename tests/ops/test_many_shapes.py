"""One plan serves many shapes: its results are those of a plan made for the shape alone,
and new shapes do not reach Python."""

from __future__ import annotations

import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl
from rushlight import _C
from rushlight.nn import functional as F
from rushlight.op import find_op, registry
from rushlight.op.extents import Extent, Trace, generic_plan
from rushlight.op.schema import parse

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = (3, 5, 4, 1, 2, 9, 16, 17, 0, 31, 64, 65, 130, 257, 300, 1000)


def square(n, dtype=rl.float32):
    return (rl.arange(n * 8, dtype=rl.float64).reshape(n, 8) * 0.37).sin().to(dtype)


CALLS = {
    "sum rows": lambda x, n: x.sum(1),
    "sum columns": lambda x, n: x.sum(0),
    "sum all": lambda x, n: x.sum(),
    "mean, kept": lambda x, n: x.mean(0, keepdim=True),
    "max": lambda x, n: x.amax(1),
    "argmax": lambda x, n: x.argmax(1),
    "var": lambda x, n: x.var(1),
    "softmax": lambda x, n: x.softmax(1),
    "log_softmax": lambda x, n: x.log_softmax(0) if n else x,
    "layer_norm": lambda x, n: F.layer_norm(x, (8,)),
    "cumsum": lambda x, n: x.cumsum(0),
    "cat": lambda x, n: rl.cat((x, x[:1], x), 0),
    "cat wide": lambda x, n: rl.cat((x, x), 1),
    "stack": lambda x, n: rl.stack((x, x), 1),
    "index_select": lambda x, n: x.index_select(1, rl.tensor([3, 0, 3])),
    "gather": lambda x, n: x.gather(1, rl.ones(n, 2, dtype=rl.int64)),
    "index": lambda x, n: x[rl.arange(n - 1, -1, -1)],
    "index_put": lambda x, n: x.clone().index_put_((rl.arange(n),), rl.tensor(2.0)),
    "scatter_add": lambda x, n: x.scatter_add(1, rl.ones(n, 3, dtype=rl.int64), x),
    "embedding": lambda x, n: F.embedding(rl.arange(n) % 5, rl.arange(40.0).reshape(5, 8)),
    "matmul": lambda x, n: x @ rl.arange(48.0).reshape(8, 6),
    "matmul turned": lambda x, n: x.t() @ x,
    "batches": lambda x, n: x.reshape(n, 2, 4) @ x.reshape(n, 4, 2),
    "linear": lambda x, n: F.linear(x, rl.arange(80.0).reshape(10, 8), rl.ones(10)),
    "view": lambda x, n: x.contiguous().view(n, 4, 2),
    "reshape": lambda x, n: x.reshape(4, n * 2),
    "transpose": lambda x, n: x.transpose(0, 1),
    "expand": lambda x, n: x.unsqueeze(1).expand(n, 3, 8),
    "narrow": lambda x, n: x.narrow(0, n // 2, n - n // 2),
    "slice": lambda x, n: x[n // 3 :: 2],
    "select": lambda x, n: x.select(0, n - 1) if n else x,
    "split": lambda x, n: x.split(3, 1)[2],
    "as_strided": lambda x, n: x.contiguous().as_strided((max(n - 1, 0), 4), (8, 2), 1),
    "flip": lambda x, n: x.flip(0),
    "roll": lambda x, n: x.roll(1, 0),
    "tril": lambda x, n: x.tril(1),
    "pad": lambda x, n: F.pad(x, (1, 2, n % 3, 1), value=3.0),
    "pad reflect": lambda x, n: F.pad(x.unsqueeze(0), (2, 1), mode="reflect") if n else x,
    "zeros": lambda x, n: rl.zeros(n, 3),
    "full": lambda x, n: rl.full((2, n), 7),
    "arange": lambda x, n: rl.arange(n),
    "arange from": lambda x, n: rl.arange(n, 2 * n),
    "arange back": lambda x, n: rl.arange(n, -n - 1, -3),
    "sort": lambda x, n: x.sort(1).values,
    "topk": lambda x, n: x.topk(3, 1).values,
    "contiguous": lambda x, n: x.t().contiguous(),
    "repeat": lambda x, n: x.repeat(2, 1),
    "one_hot": lambda x, n: F.one_hot(rl.arange(n) % 4, 4),
    "attention": lambda x, n: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "causal": lambda x, n: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
    "cross_entropy": lambda x, n: F.cross_entropy(x, rl.arange(n) % 8, reduction="none"),
    "max_pool": lambda x, n: F.max_pool1d(x[None], 3) if n else x,
    "avg_pool": lambda x, n: F.avg_pool2d(x[None], (1, 2)) if n else x,
    "conv": lambda x, n: F.conv1d(x.t()[None], rl.arange(48.0).reshape(2, 8, 3)) if n > 2 else x,
    "interpolate": lambda x, n: F.interpolate(x[None], scale_factor=2) if n else x,
    "cdist": lambda x, n: rl.cdist(x, x[:5]),
    "cumprod": lambda x, n: x.cumprod(1),
    "nonzero": lambda x, n: (x > 0).nonzero(),
    "any": lambda x, n: (x > 0.9).any(1),
    "norm": lambda x, n: x.norm(dim=0),
    "einsum": lambda x, n: rl.einsum("ij,kj->ik", x, x),
}
LAYOUTS = {
    "dense": lambda n: square(n),
    "wider": lambda n: rl.cat((square(n), square(n)), 1)[:, 4:12],
    "turned": lambda n: square(n).t().contiguous().t(),
    "every second": lambda n: square(2 * n)[::2],
    "repeated": lambda n: square(1).expand(n, 8),
    "float64": lambda n: square(n, rl.float64),
}


def run(call, tracer):
    """The results for every layout and size, with plans made anew."""
    _C.set_tracer(tracer)
    _C.forget_plans()
    try:
        return [call(make(n), n) for make in LAYOUTS.values() for n in SIZES]
    finally:
        _C.set_tracer(registry.trace)
        _C.forget_plans()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_plans_for_one_shape(name):
    def call(x, n):
        try:
            return CALLS[name](
                x.float() if x.dtype is rl.float64 and name in ("matmul", "linear", "conv", "index_put") else x, n
            )
        except (RuntimeError, IndexError, ValueError) as error:
            return type(error), str(error)

    alone, shared = run(call, None), run(call, registry.trace)
    for a, b in zip(alone, shared, strict=True):
        if isinstance(a, tuple):
            assert a == b
        else:
            assert a.dtype is b.dtype and a.stride() == b.stride() and a.shape == b.shape
            rl.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def python_calls(name, call, sizes):
    """How often Python was asked for a plan of op `name`."""
    count = 0
    overloads = find_op(name).overload_list
    for overload in overloads:
        own = overload.definition.plan

        def counted(args, own=own):
            nonlocal count
            count += 1
            return own(args)

        overload.definition.plan = counted
    try:
        for n in sizes:
            call(square(n), n)
    finally:
        for overload in overloads:
            del overload.definition.plan
    return count


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "max",
        "index_select",
        "cat",
        "cumsum",
        "matmul",
        "view",
        "softmax",
        "transpose",
        "narrow",
        "expand",
        "gather",
    ],
)
def test_new_shapes_do_not_reach_python(name):
    calls = {
        "sum": lambda x, n: x.sum(1), "max": lambda x, n: x.max(1),
        "index_select": lambda x, n: x.index_select(0, rl.tensor([1, 0])), "cat": lambda x, n: rl.cat((x, x)),
        "cumsum": lambda x, n: x.cumsum(0), "matmul": lambda x, n: x @ x.t(), "view": lambda x, n: x.view(n * 8),
        "softmax": lambda x, n: x.softmax(1), "transpose": lambda x, n: x.transpose(0, 1),
        "narrow": lambda x, n: x.narrow(0, 1, n - 1), "expand": lambda x, n: x[None].expand(n, n, 8),
        "gather": lambda x, n: x.gather(0, rl.zeros(n, 1, dtype=rl.int64)),
    }
    call = calls[name]
    for n in range(40, 48):
        call(square(n), n)
    assert python_calls(name, call, range(48, 128)) <= 2


def test_a_shape_that_comes_back_gets_its_own_plan():
    overload = find_op("cumsum").overload_list[0]
    for n in (11, 12, 13, 14):
        square(n).cumsum(0)
    before = overload.plan_count
    square(14).cumsum(0)
    square(14).cumsum(0)
    assert overload.plan_count == before + 1


def test_an_index_out_of_range_names_this_call():
    for n in (6, 7, 8):
        square(n).index_select(0, rl.tensor([0, n - 1]))
    with pytest.raises(IndexError, match=r"index 23 .*size 23"):
        square(23).index_select(0, rl.tensor([0, 23]))
    with pytest.raises(IndexError, match=r"index -25 .*size 24"):
        square(24)[rl.tensor([-25])]


def test_refusals_name_this_call():
    for n in (6, 7, 8):
        square(n).view(n * 8)
    with pytest.raises(RuntimeError, match="71.*72"):
        square(9).view(71)
    for n in (6, 7, 8):
        rl.zeros(1).expand(n)
    with pytest.raises(RuntimeError):
        rl.zeros(1).expand(2**33, 2**33).sum()


def test_threads_with_shapes_of_their_own():
    wrong = []

    def work(n):
        x = rl.ones(n, 5000)
        for _ in range(60):
            if not rl.equal(x.sum(1), rl.full((n,), 5000.0)):
                wrong.append(n)

    for n in (2, 3, 4):
        rl.ones(n, 5000).sum(1)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(20, 28)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# --- the numbers themselves -------------------------------------------------------------------------------------------

OPERATIONS = ("+", "-", "*", "//", "%", "min", "max", "&", "|")


def formula(choices, numbers):
    """A number computed from two others in a way that `choices` decides: with branches, as rules have them."""
    stack = list(numbers)
    for kind, i, j in choices:
        a, b = stack[i % len(stack)], stack[j % len(stack)]
        name = OPERATIONS[kind % len(OPERATIONS)]
        if name in ("//", "%") and b == 0:
            continue
        if name in ("min", "max"):
            result = (min if name == "min" else max)(a, b)
        elif name == "*" and (abs(a) > 1 << 20 or abs(b) > 1 << 20):
            result = a - b
        else:
            result = {
                "+": lambda: a + b,
                "-": lambda: a - b,
                "*": lambda: a * b,
                "//": lambda: a // b,
                "%": lambda: a % b,
                "&": lambda: a & b,
                "|": lambda: a | b,
            }[name]()
        stack.append(result if result > b else result + i)
    return abs(stack[-1]) % 10007


@settings(deadline=None, max_examples=120)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=12),
    st.lists(st.integers(-50, 50), min_size=6, max_size=12),
)
def test_programs_compute_what_the_rule_does(choices, values):
    spec = parse("probe(int start, int end) -> Tensor")

    class Probe:
        def __init__(self):
            self.spec, self.name = spec, "probe"

        def plan(self, args):
            return _C.Plan(
                0, _C.device("meta"), [("new", _C.float32, (formula(choices, [*args, 3, -2]),), None, -1, 0)], []
            )

    definition = Probe()
    overload = _C.Overload(
        "probe",
        definition,
        1,
        [("start", 6, False, False, False, None, 0, True), ("end", 6, False, False, False, None, 0, True)],
    )
    for a, b in pairwise(values):
        assert overload(a, b).shape[0] == formula(choices, [a, b, 3, -2])


def test_what_asks_for_the_number_makes_it_a_condition():
    for ask in (int, hash, float, bool, lambda n: [0] * n, range, lambda n: "abcdefg"[n], lambda n: {5: 1}[n]):
        trace = Trace()
        ask(trace.given(5))
        assert len(trace.steps) == 2, ask


def test_numbers_of_an_earlier_trace_equal_nothing():
    trace = Trace()
    n = trace.given(5)
    trace.open = False
    assert n != 5 and not n == 5 and isinstance(n, Extent)


def test_rules_that_look_further_are_not_traced():
    spec = parse("probe(Tensor input) -> Tensor")

    def traced(rule):
        return generic_plan(SimpleNamespace(spec=spec, plan=rule), (rl.ones(3),))

    assert traced(lambda args: args[0].sum()) is None
    assert traced(lambda args: args[0].data_ptr()) is None
    assert traced(lambda args: args[0] + 1) is None
    assert traced(lambda args: None) is None
    assert (
        traced(
            lambda args: _C.Plan(1, args[0].device, [("new", args[0].dtype, (args[0].numel() * 2,), None, -1, 0)], [])
        )
        is not None
    )


def test_rules_that_ask_without_end_are_not_traced():
    spec = parse("probe(Tensor input) -> Tensor")

    def rule(args):
        return [n for n in range(1 << 40) if args[0].numel() < 0]

    assert generic_plan(SimpleNamespace(spec=spec, plan=rule), (rl.ones(3),)) is None


def test_temporaries_live_only_between_their_steps():
    """Four temporaries that follow each other: the most that is held at once is two of them."""
    code = 8 << 20
    cpu = _C.device("cpu")
    slots = [("new", _C.float32, (1,), None, -1, 0), *(("temp", _C.uint8, (code,), None, -1, 0) for _ in range(4))]
    held = []
    temporaries = [1, 2, 3, 4]

    def look(*tensors):
        held.append([t.data_ptr() for t in tensors])

    steps = [(look, [a, b], [], 1, 1, -1) for a, b in pairwise(temporaries)]
    _C.Plan(0, cpu, slots, steps)()
    assert held[2][1] in held[0], held   # the last one has the memory of one that was over by then


@pytest.mark.parametrize("make", [
    lambda: (rl.ones(2, 6, 4, 8).transpose(1, 2), rl.ones(2, 6, 4, 8).transpose(1, 2).transpose(-2, -1)),
    lambda: (rl.ones(64, 256)[:, ::2], rl.ones(128, 128)),
    lambda: (rl.ones(64, 256).bfloat16()[:, ::2], rl.ones(128, 64).bfloat16()),
], ids=["heads", "strided", "bfloat16"])
def test_product_of_copied_operands_plans_once(make, monkeypatch):
    """Operands that no kernel reads where they lie are copied; that they are is not found out at every call."""
    from rushlight.definitions.products.matmul import Matmul

    a, b = make()
    for _ in range(3):
        expected = a @ b
    asked = []
    plan = Matmul.plan
    monkeypatch.setattr(Matmul, "plan", lambda self, args: asked.append(args) or plan(self, args))
    assert rl.equal(a @ b, expected) and expected.float().min() == a.shape[-1]
    assert not asked
