"""Nested tensors: results against PyTorch's, and gradients against finite differences."""

import copy
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def numbers(m, *shape, seed=0):
    """The same numbers in either library."""
    return m.from_numpy(
        torch.rand(shape, generator=torch.Generator().manual_seed(seed + len(shape)), dtype=torch.float64).numpy()
    )


def names(m):
    a, b = numbers(m, 2, 3), numbers(m, 4, 3, seed=5)
    return {
        "m": m, "N": m.nested, "F": m.nn.functional, "a": a, "b": b,
        "x": m.nested.nested_tensor([a, b], layout=m.jagged), "y": m.nested.nested_tensor([a, b]),
        "W": numbers(m, 5, 3), "v": numbers(m, 3), "P": numbers(m, 2, 4, 3), "Q": numbers(m, 2, 3, 4),
        "one": numbers(m, 2, 1, 3),
        "h": m.nested.nested_tensor([numbers(m, 2, 2, 8), numbers(m, 4, 2, 8)], layout=m.jagged),
    }


def plain(r):
    """A result as comparable data."""
    if getattr(r, "is_nested", False):
        return str(r.layout).split(".")[-1], r.dim(), [plain(c) for c in r.detach().unbind()]
    if hasattr(r, "shape"):
        return (
            tuple(r.shape),
            str(r.dtype).split(".")[-1],
            torch.tensor(r.detach().tolist(), dtype=torch.float64).mul(1e6).round().tolist(),
        )
    return [plain(x) for x in r] if isinstance(r, (tuple, list)) else r


SAME = [
    "x + 1", "1 - x", "x * x", "x * v", "x * one", "x * P", "x.sum()", "x.sum(-1)", "x.sum(1)",
    "x.sum(1, keepdim=True)", "x.sum((0, 1))", "x.mean(1)", "x.mean(-1)", "x.amax(1)",
    "x.amin(1)", "x.prod(1)", "x.max()", "x.softmax(-1)", "x.softmax(1)", "F.log_softmax(x, -1)",
    "F.layer_norm(x, (3,), v, v)", "F.rms_norm(x, (3,))", "F.linear(x, W)", "x @ W.T",
    "m.matmul(x, Q)", "m.bmm(x, Q)", "x.transpose(1, 2)", "x.transpose(1, 2).sum(1)", "x.unsqueeze(-1)", "x[1]",
    "x[..., 0]", "x.unbind()", "x.view(2, -1, 3, 1)", "x.view(x.shape[0], x.shape[1], 1, 3)", "x.unflatten(-1, [3, 1])",
    "x.reshape(2, -1, 1, 3)", "x.unsqueeze(2).flatten(2, 3)", "x.clone()", "x.to(m.float32)", "m.cat([x, x], -1)",
    "x.chunk(3, -1)", "x.split([1, 2], -1)", "x.narrow(-1, 0, 2)", "m.zeros_like(x)", "m.ones_like(x)",
    "N.to_padded_tensor(x, 0.5)", "N.to_padded_tensor(x, 0.0, (2, 6, 3))",
    "N.narrow(P, 1, m.tensor([0, 1]), m.tensor([2, 3]), layout=m.jagged)",
    "N.nested_tensor_from_jagged(W, m.tensor([0, 2, 5]))", "N.nested_tensor_from_jagged(W, lengths=m.tensor([2, 3]))",
    "N.as_nested_tensor([a, b], layout=m.jagged).sum(1)", "N.as_nested_tensor(P, layout=m.jagged)",
    "N.masked_select(P[0], P[0] > 0.5)", "x.offsets()", "x.values()", "x > 0.5",
    "F.scaled_dot_product_attention(h.transpose(1, 2), h.transpose(1, 2), h.transpose(1, 2))", "F.gelu(x)",
    "m.where(x > 0.5, x, 0.0)", "x.masked_fill(x > 0.5, 1.0)",
    "F.embedding(N.nested_tensor([m.tensor([0, 1]), m.tensor([2])], layout=m.jagged), W)",
    "N.nested_tensor([[1, 2], [3]], layout=m.jagged)", "x.any()", "x.permute(0, 2, 1)",
    "x.dim()", "x.size(-1)", "x.numel()", "len(x)", "x.is_nested", "a.is_nested", "x._max_seqlen", "y + 1",
    "y.unbind()", "N.to_padded_tensor(y, 0.0)", "y.size(0)", "m.stack([x, x], -1)",
]


@pytest.mark.parametrize("text", SAME)
def test_results(text):
    assert plain(eval(text, names(rl))) == plain(eval(text, names(torch)))


REFUSED = [
    "x + N.nested_tensor([a, b], layout=m.jagged)", "x.sum(0)", "x.sum((1, 2))", "x.transpose(0, 1)", "x.unsqueeze(0)",
    "x[0:1]", "x.unbind(1)", "x.flatten(1, 2)", "m.cat([x, x], 0)", "x.cumsum(1)", "x.sort()",
    "N.nested_tensor([], layout=m.jagged)", "N.nested_tensor([1, 2], layout=m.jagged)",
    "N.nested_tensor([v, b], layout=m.jagged)", "y.size(1)", "N.nested_tensor_from_jagged(W)", "x.tolist()",
    "x.numpy()",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_are_of_the_same_class(text):
    with pytest.raises(Exception) as theirs:
        eval(text, names(torch))
    with pytest.raises(theirs.type if theirs.type is not None else Exception):
        eval(text, names(rl))


@pytest.mark.parametrize("function", [
    lambda x, w: x * x + x.sin(), lambda x, w: rl.nn.functional.linear(x, w), lambda x, w: x.softmax(1),
    lambda x, w: x.mean(1), lambda x, w: x.amax(1), lambda x, w: x.sum(-1), lambda x, w: x.to_padded_tensor(0.0),
    lambda x, w: x.transpose(1, 2), lambda x, w: x * w[:2].unsqueeze(1), lambda x, w: x[1],
    lambda x, w: rl.nn.functional.layer_norm(x, (3,)),
])
def test_gradients(function):
    values = numbers(rl, 6, 3).requires_grad_()
    weight = numbers(rl, 5, 3, seed=3).requires_grad_()

    def on_values(v, w):
        result = function(rl.nested.nested_tensor_from_jagged(v, rl.tensor([0, 2, 6])), w)
        return result.values() if result.is_nested else result

    assert rl.autograd.gradcheck(on_values, (values, weight))
    assert rl.autograd.gradgradcheck(on_values, (values, weight))


def test_gradients_reach_leaves_and_components():
    x = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)], layout=rl.jagged, requires_grad=True)
    (x * 3).sum().backward()
    (x * 2).sum(1).sum().backward()
    assert x.grad.is_nested and x.grad.values().tolist() == [[5.0] * 3] * 6
    a, b = rl.ones(2, 3, requires_grad=True), rl.ones(1, 3, requires_grad=True)
    nested = rl.nested.as_nested_tensor([a, b], layout=rl.jagged)
    (nested.unbind()[1] * 4 + nested.sum(1)[0]).sum().backward()
    assert a.grad.tolist() == [[1.0] * 3] * 2 and b.grad.tolist() == [[4.0] * 3]


def test_lengths_leave_room():
    values = numbers(rl, 6, 3)
    x = rl.nested.nested_tensor_from_jagged(values, rl.tensor([0, 2, 6]), lengths=rl.tensor([1, 3]))
    assert [tuple(c.shape) for c in x.unbind()] == [(1, 3), (3, 3)]
    assert rl.allclose(x.sum(1), rl.stack([values[:1].sum(0), values[2:5].sum(0)]))
    assert rl.allclose((x + 1).unbind()[1], values[2:5] + 1)


def test_bad_offsets_are_refused():
    for offsets in ([0, 9], [-1, 2], [3, 1]):
        with pytest.raises(RuntimeError, match="offsets"):
            rl.nested.nested_tensor_from_jagged(rl.ones(4, 2), rl.tensor(offsets))


def test_causal_attention_stays_in_its_component():
    x = numbers(rl, 6, 2, 8)
    nested = rl.nested.nested_tensor_from_jagged(x, rl.tensor([0, 2, 6])).transpose(1, 2)
    result = rl.nn.functional.scaled_dot_product_attention(nested, nested, nested, is_causal=True)
    part = x[2:6].transpose(0, 1).unsqueeze(0)
    alone = rl.nn.functional.scaled_dot_product_attention(part, part, part, is_causal=True)
    assert rl.allclose(result.unbind()[1], alone[0])


def test_symbols_copies_and_text():
    x = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)], layout=rl.jagged)
    z = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)], layout=rl.jagged)
    assert x.shape == (x * 2).shape and x.shape != z.shape and x.layout is rl.jagged
    assert repr(x).startswith("NestedTensor(size=(2, j") and "offsets=tensor([0, 2, 6])" in repr(x)
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.detach()):
        assert plain(copied) == plain(x)
