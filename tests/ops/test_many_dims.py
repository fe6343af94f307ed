"""Tensors of more than 64 dims: made, computed with and differentiated as PyTorch does; refused where it refuses."""

import copy
import io

import pytest

import rushlight as rl

RANK = 70


def cube(T):
    """2 x 2 x 2 elements that differ, and a great many dims of size 1."""
    return T.arange(8.0).reshape([2, 2, 2] + [1] * (RANK - 3))


def back(T):
    """A gradient through a product, a permutation and a broadcast sum."""
    x = cube(T).requires_grad_()
    (x * x.permute([1, 2, 0, *range(3, RANK)]) * 2).reshape(8).sum().backward()
    return x.grad


def nested(depth):
    result = 1.5
    for _ in range(depth):
        result = [result]
    return result


def written(T):
    x = cube(T).clone()
    x[0] = 7.0
    x[:, 1].mul_(2)
    return x.add_(1)


CALLS = {
    "zeros": lambda T: T.zeros([1] * RANK),
    "tensor": lambda T: T.tensor(nested(RANK)),
    "unsqueeze": lambda T: T.ones([1] * (RANK - 1)).unsqueeze(0),
    "view": lambda T: cube(T).exp().view(8),
    "arithmetic": lambda T: cube(T) * cube(T).transpose(0, 2) + 1,
    "broadcast": lambda T: cube(T) + T.arange(3.0).reshape(3, *[1] * (RANK + 4)),
    "permuted": lambda T: cube(T).permute(list(range(RANK))[::-1]).contiguous(),
    "expand": lambda T: T.ones(1).expand([1] * (RANK - 1) + [4]) * 2,
    "index": lambda T: cube(T)[T.tensor([1, 0]), ..., 0],
    "written": written,
    "cat": lambda T: T.cat([cube(T), cube(T)], 1),
    "stack": lambda T: T.stack([cube(T), cube(T)], -1),
    "where": lambda T: T.where(cube(T) > 3, cube(T), 0.0),
    "gather": lambda T: cube(T).gather(0, T.ones([1] * RANK, dtype=T.int64)),
    "repeat": lambda T: cube(T).repeat([2, 1, 3] + [1] * (RANK - 3)),
    "sum": lambda T: cube(T).sum(),
    "std": lambda T: cube(T).std(),
    "aminmax": lambda T: T.stack(list(cube(T).aminmax())),
    "softmax": lambda T: cube(T).softmax(1),
    "log_softmax of the last": lambda T: cube(T).transpose(0, -1).log_softmax(-1),
    "cumsum": lambda T: cube(T).cumsum(1),
    "sort": lambda T: cube(T).sort(1, descending=True).values,
    "median": lambda T: cube(T).median(0).values,
    "nonzero": lambda T: cube(T).nonzero(),
    "matmul": lambda T: cube(T) @ cube(T).transpose(-1, -2),
    "copied": lambda T: copy.deepcopy(cube(T)),
    "gradient": back,
}


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    ours, theirs = CALLS[name](rl), CALLS[name](torch)
    assert tuple(ours.shape) == tuple(theirs.shape)
    for mine, its in zip(ours.reshape(-1).tolist(), theirs.reshape(-1).tolist(), strict=True):
        assert mine == pytest.approx(its, rel=1e-6)


@pytest.mark.parametrize("call", [
    lambda x: x.amax(0), lambda x: x.amin((0, 1)), lambda x: x.aminmax(dim=-1), lambda x: x.numpy(),
], ids=["amax", "amin", "aminmax", "numpy"])
def test_refused(call):
    with pytest.raises((RuntimeError, ValueError), match="64"):
        call(cube(rl))


def test_saved_and_printed():
    x, file = cube(rl), io.BytesIO()
    rl.save(x, file)
    file.seek(0)
    assert rl.equal(rl.load(file), x) and repr(rl.zeros([1] * RANK)).count("[") == RANK


def test_the_bound_is_named():
    most = rl.zeros([1] * 128)
    for call in (lambda: rl.zeros([1] * 129), lambda: most.unsqueeze(0), lambda: rl.zeros(1).view([1] * 129)):
        with pytest.raises(RuntimeError, match=r"at most 128 dimensions are supported, got 129"):
            call()
    assert most.add(1).sum().item() == 1


@pytest.mark.parametrize("rank", [40, 64, RANK])
def test_rows_of_tensors_of_many_dims(rank):
    """Row programs are traced with sizes that stand for any: their product once passed 64 bits."""
    x = rl.arange(12.0).reshape(2, *[1] * (rank - 2), 6)
    flat = x.reshape(2, 6)
    normal, smooth = rl.nn.functional.layer_norm, rl.nn.functional.softmax
    assert rl.equal(normal(x, (6,)).reshape(2, 6), normal(flat, (6,)))
    assert rl.equal(normal(x, tuple(x.shape[1:])).reshape(2, 6), normal(flat, (6,)))
    assert rl.equal(smooth(x, -1).reshape(2, 6), smooth(flat, -1))
    assert rl.equal(smooth(x, 0).reshape(2, 6), smooth(flat, 0))
