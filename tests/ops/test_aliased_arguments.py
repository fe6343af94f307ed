"""In-place and out= ops whose arguments look at the memory that is written: PyTorch's answer or PyTorch's refusal,
whatever was called before."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

# f(module, written, index, values); index and values have the length of `written`, lie in 0..2 and are integers.
OPS = {
    "index_put_": lambda T, x, i, v: x.index_put_((i,), v),
    "index_put_ accumulate": lambda T, x, i, v: x.index_put_([i], v, accumulate=True),
    "setitem": lambda T, x, i, v: x.__setitem__(i, v),
    "setitem of two": lambda T, x, i, v: x.view(2, 3).__setitem__((i[:3] % 2, i[3:]), v[:3]),
    "setitem under a mask": lambda T, x, i, v: x.__setitem__(x > 1, v[0]),
    "fill_": lambda T, x, i, v: x.fill_(v[0]),
    "index_add_": lambda T, x, i, v: x.index_add_(0, i, v),
    "index_copy_": lambda T, x, i, v: x.index_copy_(0, i, v),
    "index_fill_": lambda T, x, i, v: x.index_fill_(0, i, 5),
    "index_fill_ tensor": lambda T, x, i, v: x.index_fill_(0, i, v[0]),
    "index_reduce_": lambda T, x, i, v: x.index_reduce_(0, i, v, "prod"),
    "scatter_": lambda T, x, i, v: x.scatter_(0, i, v),
    "scatter_ number": lambda T, x, i, v: x.scatter_(0, i, 7),
    "scatter_add_": lambda T, x, i, v: x.scatter_add_(0, i, v),
    "scatter_reduce_": lambda T, x, i, v: x.scatter_reduce_(0, i, v, "amax"),
    "put_": lambda T, x, i, v: x.put_(i, v),
    "masked_fill_": lambda T, x, i, v: x.masked_fill_(x > 1, v[0]),
    "add_": lambda T, x, i, v: x.add_(v),
    "addcmul_": lambda T, x, i, v: x.addcmul_(v, i),
    "copy_": lambda T, x, i, v: x.copy_(v),
    "add out": lambda T, x, i, v: T.add(v, i, out=x),
    "where out": lambda T, x, i, v: T.where(T.tensor([True, False] * 3), v, i, out=x),
    "take out": lambda T, x, i, v: T.take(v, i, out=x),
    "gather out": lambda T, x, i, v: T.gather(v, 0, i, out=x),
    "index_select out": lambda T, x, i, v: T.index_select(v, 0, i, out=x),
    "cat out": lambda T, x, i, v: T.cat([i[:3], v[:3]], out=x),
    "stack out": lambda T, x, i, v: T.stack((i[:3], v[:3]), out=x.view(2, 3)),
}
# Disjoint calls between the others show whether a plan made for one is replayed for another.
WAYS = (
    "fresh",
    "index",
    "values",
    "part of index",
    "part of values",
    "beside index",
    "beside values",
    "fresh",
    "index",
    "values",
)


def outcome(T, f, way):
    whole = T.tensor([2, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0])
    x, index, values = whole[:6], T.tensor([0, 1, 2, 0, 1, 2]), T.tensor([10, 11, 12, 13, 14, 15])
    other = whole[1:7] if way.startswith("part") else whole[6:] if way.startswith("beside") else x
    if way.endswith("index"):
        index = other
    elif way.endswith("values"):
        values = other
    try:
        f(T, x, index, values)
    except RuntimeError:
        return "refused"
    return whole.tolist()


@pytest.mark.parametrize("name", OPS)
def test_written_memory_among_the_arguments(name):
    for way in WAYS:
        assert outcome(rl, OPS[name], way) == outcome(torch, OPS[name], way), way


def test_masked_scatter_reads_its_source_first():
    x = rl.tensor([5, 6, 7, 8])
    x.masked_scatter_(rl.tensor([False, True, True, True]), x)
    assert x.tolist() == [5, 5, 6, 7]


def test_arguments_with_gaps_in_the_written_memory_are_copied():
    whole = rl.arange(8)
    x, values = whole[::2], whole[1::2]
    x.index_put_((rl.tensor([0, 1, 2, 3]),), values)
    assert whole.tolist() == [1, 1, 3, 3, 5, 5, 7, 7]
