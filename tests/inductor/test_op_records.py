"""PyTorch's op records as graphs of one op (and of its derivative), compiled: equal to eager mode in values,
types and shapes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import rushlight as rl  # noqa: E402
from rushlight.fake import DataDependentOutputException  # noqa: E402
from rushlight.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from rushlight.inductor import compile_graph  # noqa: E402
from tests.fake.symbolic_calls import leaves, mapped  # noqa: E402
from tests.parity.checks import NotApplicable, Pair, main_dtype, spread  # noqa: E402
from tests.parity.convert import thing  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

# What a graph of one op cannot show, and why.
APART = {
    **dict.fromkeys(["cauchy", "exponential", "geometric", "log_normal", "normal.in_place", "uniform", "bernoulli",
                     "svd_lowrank", "pca_lowrank"],
                    "its record seeds the generator while it is traced"),
    "histogramdd": "its bins are tuples of tensors that a graph lists otherwise",
    "linalg.lu": "its result's class is called by the graph",
    "to": "moves from the device that the comparison runs on",
}
# nobody said what is in them
RESHAPED = ("resize_", "empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
RANDOM = ("dropout", "rrelu", "multi_head_attention", "randn", "rand", "normal", "multinomial")
SERVED = [
    name for name in RECORDS
    if name not in APART and not name.startswith(RESHAPED) and not name.startswith(("sparse.", "jiterator",
        "nn.functional.max_unpool")) and not any(word in name for word in RANDOM)
]


def traced(fn: Any, tree: Any, with_gradients: bool) -> Any:
    """The record's call as a function of its tensors."""

    def run(*tensors: Any) -> list[Any]:
        left = iter(tensors)
        args = mapped(lambda t: next(left), tree)
        outs = [o for o in leaves(fn(args[0], *args[1], **args[2])) if isinstance(o, rl.Tensor)]
        wanted = [o for o in outs if o.requires_grad and o.is_floating_point()] if with_gradients else []
        inputs = [t for t in tensors if t.requires_grad]
        grads = rl.autograd.grad([o.sum() for o in wanted], inputs, allow_unused=True) if wanted and inputs else ()
        return outs + [g for g in grads if g is not None]

    return run


def calls_of(name: str, with_gradients: bool) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """The record's calls that eager mode takes: a function of tensors, the tensors, and what it gives."""
    record = RECORDS[name]
    torch.manual_seed(5)
    try:
        fn = Pair(record.op).ours
        samples = spread(record.sample_inputs("cpu", main_dtype(record), requires_grad=with_gradients), 2)
    except (NotApplicable, AttributeError, ValueError):
        return
    for sample in samples:
        tree: Any = thing((sample.input, list(sample.args), dict(sample.kwargs)), {})
        tensors = [t for t in leaves(tree) if isinstance(t, rl.Tensor)]
        if not tensors or any(t.layout is not rl.strided for t in tensors):
            continue
        run = traced(fn, tree, with_gradients)
        try:
            expected = [t.detach() for t in run(*tensors)]
        except (NotImplementedError, RuntimeError, TypeError):
            continue          # refused in eager mode too
        yield run, tensors, expected


def check_call(run: Any, tensors: list[Any], expected: list[Any], mode: str) -> bool:
    """Whether the call could be captured; if so it must agree."""
    try:
        graph = make_fx(run, tracing_mode=mode, _own_ops=True)(*tensors)
    except (DataDependentOutputException, NotImplementedError, RuntimeError, TypeError):
        return False          # elements decide
    given = [n.meta.get("val") for n in graph.graph.find_nodes(op="placeholder")] if mode == "symbolic" else tensors
    got = compile_graph(graph, given)(tensors)
    assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in expected]
    for a, b in zip(got, expected, strict=True):
        wide = [t.resolve_conj().to(rl.complex128) for t in (a, b)]
        assert rl.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True)
    return True


def check_record(name: str, with_gradients: bool) -> int:
    """How many of the record's calls could be captured; each must agree."""
    return sum([check_call(*call, "fake") for call in calls_of(name, with_gradients)])


def check_both(names: Sequence[str], with_gradients: bool) -> tuple[int, float]:
    """In one pass over calls: how many could be captured, each of which must agree, and with symbolic sizes
    the share that agrees of those that can be captured; printed, with what does not."""
    captured, equal, others, refused = 0, 0, [], 0
    for name in names:
        for call in calls_of(name, with_gradients):
            captured += check_call(*call, "fake")
            try:
                equal += check_call(*call, "symbolic")
            except NotImplementedError:     # elements decide, which symbolic sizes tell only when the graph is compiled
                refused += 1
            except Exception as error:
                others.append(f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0][:150]}")
    found = equal / max(1, equal + len(others))
    print(f"symbolic, {'with' if with_gradients else 'without'} gradients: {equal} of {equal + len(others)} calls equal"
          f" ({found:.1%}), {refused} refused", *others, sep="\n  ")
    return captured, found


@pytest.mark.parametrize("name", SERVED[::15])
def test_record(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_record(name, with_gradients=False)


@pytest.mark.slow
@pytest.mark.parametrize("with_gradients", [False, True])
def test_all_records(with_gradients: bool, share: Callable[[list[str], int], list[str]]) -> None:
    names = share(SERVED, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captured, equal_with_symbolic_sizes = check_both(names, with_gradients)
    assert captured > 1.4 * len(names)
    assert equal_with_symbolic_sizes >= 0.98


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_arguments_that_go_by_name_reach_the_kernel(name: str) -> None:
    """PyTorch has one signature where we have two."""
    a, b, c = rl.randn(()), rl.randn(5, 1), rl.randn(1, 5) + 3
    graph = make_fx(lambda a, b, c: getattr(rl, name)(a, b, c, value=10.0), tracing_mode="fake", _own_ops=True)(a, b, c)
    wanted = getattr(rl, name)(a, b, c, value=10.0)
    for found in (compile_graph(graph, [a, b, c])([a, b, c]), graph(a, b, c)):
        rl.testing.assert_close(found[0] if isinstance(found, (list, tuple)) else found, wanted)
    assert rl.equal(getattr(rl.ops.aten, name).default(a, b, c, value=10.0), wanted)
