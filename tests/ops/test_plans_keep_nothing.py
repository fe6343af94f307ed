"""Plans outlive calls; the tensors they were made for do not."""

import gc
import weakref

import pytest

import rushlight as rl

F = rl.nn.functional
# f(n): the arguments of a call whose lengths depend on n, so that each call is planned anew.
CALLS = {
    "x[idx]": lambda n: ((rl.arange(50.0), rl.arange(n)), lambda x, i: x[i]),
    "x[idx, idx]": lambda n: ((rl.ones(50, 50), rl.arange(n), rl.arange(n)), lambda x, i, j: x[i, j]),
    "x[mask]": lambda n: ((rl.ones(n), rl.ones(n) > 0), lambda x, m: x[m]),
    "x[idx] = v": lambda n: ((rl.zeros(50), rl.arange(n), rl.ones(n)), lambda x, i, v: x.__setitem__(i, v)),
    "index_put": lambda n: (
        (rl.zeros(50), rl.arange(n), rl.ones(n)),
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
    ),
    "index_add": lambda n: ((rl.zeros(50), rl.arange(n), rl.ones(n)), lambda x, i, v: x.index_add(0, i, v)),
    "take": lambda n: ((rl.ones(50), rl.arange(n)), rl.take),
    "gather": lambda n: ((rl.ones(50), rl.arange(n)), lambda x, i: rl.gather(x, 0, i)),
    "scatter": lambda n: ((rl.zeros(50), rl.arange(n), rl.ones(n)), lambda x, i, v: x.scatter(0, i, v)),
    "index_select": lambda n: ((rl.ones(50, 2), rl.arange(n)), lambda x, i: x.index_select(0, i)),
    "where": lambda n: ((rl.ones(n) > 0, rl.ones(n), rl.zeros(n)), rl.where),
    "embedding": lambda n: ((rl.arange(n), rl.ones(50, 3)), F.embedding),
    "embedding_bag": lambda n: ((rl.arange(n).view(1, n), rl.ones(50, 3)), F.embedding_bag),
    "cat": lambda n: ((rl.ones(n), rl.ones(n + 1)), lambda a, b: rl.cat([a, b])),
    "stack": lambda n: ((rl.ones(n), rl.ones(n)), lambda a, b: rl.stack([a, b])),
    "matmul": lambda n: ((rl.ones(n, 40), rl.ones(40, n)), rl.matmul),
    "linear": lambda n: ((rl.ones(n, 5), rl.ones(3, 5), rl.ones(3)), F.linear),
    "conv1d": lambda n: ((rl.ones(1, 2, n + 3), rl.ones(2, 2, 3)), F.conv1d),
    "sum": lambda n: ((rl.ones(n, 3),), lambda x: x.sum(0)),
    "sort": lambda n: ((rl.ones(n),), rl.sort),
    "topk": lambda n: ((rl.ones(n),), lambda x: x.topk(1)),
    "cumsum": lambda n: ((rl.ones(n),), lambda x: x.cumsum(0)),
    "softmax": lambda n: ((rl.ones(n, 3),), lambda x: x.softmax(0)),
    "nll_loss": lambda n: ((rl.ones(n, 3), rl.zeros(n, dtype=rl.int64)), F.nll_loss),
    "cross_entropy": lambda n: ((rl.ones(n, 3), rl.zeros(n, dtype=rl.int64), rl.ones(3)), F.cross_entropy),
    "bincount": lambda n: ((rl.arange(n),), rl.bincount),
    "searchsorted": lambda n: ((rl.arange(n), rl.arange(3)), rl.searchsorted),
    "solve": lambda n: ((rl.eye(n), rl.ones(n, 1)), rl.linalg.solve),
    "fft": lambda n: ((rl.ones(n),), rl.fft.fft),
    "max_pool": lambda n: ((rl.ones(1, n + 1),), lambda x: F.max_pool1d(x, 2)),
    "pad": lambda n: ((rl.ones(n),), lambda x: F.pad(x, (1, 2))),
    "repeat_interleave": lambda n: ((rl.ones(n), rl.ones(n, dtype=rl.int64)), rl.repeat_interleave),
    "foreach": lambda n: ((rl.ones(n), rl.ones(n)), lambda a, b: rl._foreach_add([a], [b])),
    "scatter_reduce": lambda n: (
        (rl.zeros(50), rl.arange(n), rl.ones(n)),
        lambda x, i, v: x.scatter_reduce(0, i, v, "amax"),
    ),
    "masked_scatter": lambda n: ((rl.zeros(n), rl.ones(n) > 0, rl.ones(n)), lambda x, m, v: x.masked_scatter(m, v)),
    "grid_sample": lambda n: (
        (rl.ones(1, 1, 4, 4), rl.zeros(1, n, n, 2)),
        lambda x, g: F.grid_sample(x, g, align_corners=False),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_die_after_their_calls(name):
    marks = []
    for n in range(2, 12):
        given, call = CALLS[name](n)
        call(*given)
        marks += [weakref.ref(t) for t in given]
        del given
    if any(mark() is not None for mark in marks):
        gc.collect()
    assert not [tuple(mark().shape) for mark in marks if mark() is not None]


def test_plans_of_an_endless_stream_of_shapes_are_bounded():
    x = rl.ones(10_000)
    overload = rl.ops.aten.flip.default
    for n in range(1, 9000):
        x[:n].flip(0)
    assert overload.plan_count <= 8193
