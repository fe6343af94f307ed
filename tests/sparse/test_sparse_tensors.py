"""Sparse tensors against PyTorch: construction, conversion, arithmetic, products, and their gradients."""

import copy
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

INDICES, VALUES = [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]
DENSE = [[0.5, 0.25, 2.0], [1.5, 3.0, 0.75]]
RIGHT = [[1.0, 2.0], [0.5, 4.0], [3.0, 0.125]]


def names(m):
    """What the expressions below speak of."""
    coo = m.sparse_coo_tensor(INDICES, VALUES, (2, 3), dtype=m.float64)
    return {
        "m": m, "s": coo, "c": coo.coalesce(), "csr": coo.to_sparse_csr(), "d": m.tensor(DENSE, dtype=m.float64),
        "r": m.tensor(RIGHT, dtype=m.float64), "twice": m.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 4.0], (3,)),
        "hybrid": m.sparse_coo_tensor(INDICES, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (2, 3, 2)),
    }


def plain(x):
    """A result as comparable data."""
    if not hasattr(x, "layout"):
        return x
    layout = str(x.layout).split(".")[-1]
    dense = x.detach().to_dense() if layout != "strided" else x.detach()
    return (
        layout,
        tuple(x.shape),
        str(x.dtype).split(".")[-1],
        torch.tensor(dense.tolist(), dtype=torch.float64).mul(1e6).round().tolist(),
    )


SAME = [
    "s + s", "d + s", "d - s", "s * d", "s * s", "s * 2", "s / 2", "-s", "s.sin()", "twice.sin()", "s.sum()",
    "s.sum(0)", "s @ r", "m.mm(s, r)", "r.t() @ s.t()", "s @ s.t()", "s.t()", "s.T", "s[0]", "s[0, 2]", "s[:, 1]",
    "s.to(m.float32)", "twice.coalesce()", "twice.to_dense()", "s.unsqueeze(0)", "s.norm()", "s ** 2",
    "m.zeros_like(s)", "d.clone().add_(s)", "s.clone().mul_(2)", "m.addmm(m.ones(2, 2, dtype=m.float64), s, r)",
    "m.sparse.sum(s, 0)", "m.sparse.softmax(s, 1)", "m.sparse.log_softmax(s, 0)", "m.sparse.softmax(hybrid, 2)",
    "d.sparse_mask(c)", "d.to_sparse()", "d.to_sparse(1)", "d.to_sparse_csr()", "d.to_sparse_csc()",
    "d.to_sparse_bsr((1, 3))", "s.to_sparse_csc().to_sparse_csr()", "csr.to_sparse()", "m.cat([s, s])",
    "m.cat([s, s], 1)", "m.stack([s, s])", "m.mv(s, r[:, 0])", "m.sparse.mm(csr, r, 'mean')",
    "m.sparse.mm(csr, r, 'amax')", "m.sparse.mm(csr, r, 'amin')",
    "m.sparse.sampled_addmm(csr, d, m.ones(3, 3, dtype=m.float64), beta=2.0, alpha=0.5)",
    "m.sparse.spdiags(r.t(), m.tensor([0, -1]), (4, 5))", "csr @ r", "csr * 2", "csr.t()", "csr[0]",
    "s.index_select(0, m.tensor([1, 1]))", "s.permute(1, 0)", "hybrid.transpose(0, 1)", "hybrid.sum(2)", "hybrid[1]",
    "s._nnz()", "s.sparse_dim()", "hybrid.dense_dim()", "d.dense_dim()", "c.is_coalesced()", "s.is_coalesced()",
    "csr.crow_indices()", "csr.col_indices()", "csr.values()", "c.indices()",
    "m.sparse_coo_tensor(m.tensor([[0, 2]]), m.tensor([1., 2.]))", "m.sparse_coo_tensor((2, 3))",
    "m.zeros(2, 3, layout=m.sparse_coo)", "m.zeros(2, 3, layout=m.sparse_csr, dtype=m.float64)",
    "m.empty(2, 3, layout=m.sparse_csc)", "m.zeros(2, 3, layout=m.strided)",
    "m.sparse_compressed_tensor([0, 1, 3], [2, 0, 2], [1., 2., 3.], layout=m.sparse_csc)",
    "m.sparse_bsr_tensor([0, 1, 2], [0, 1], m.ones(2, 2, 2))",
]


@pytest.mark.parametrize("text", SAME)
def test_results(text):
    assert plain(eval(text, names(rl))) == plain(eval(text, names(torch)))


REFUSED = [
    "s + d", "s / d", "s.cos()", "s.values()", "s.indices()", "s.numpy()", "s.max()", "s > 0", "d.coalesce()",
    "d.values()", "d.crow_indices()", "d._nnz()", "d.copy_(s)", "s @ d", "d.to_sparse(5)", "d.sparse_mask(d)",
    "m.sparse.mm(csr, r, 'bad')", "m.sparse.softmax(d, 0)", "m.sparse.sum(d)", "s.fill_(1)", "s[0:1]",
    "m.ones(2, 3, layout=m.sparse_coo)", "m.sparse_coo_tensor([[0, 1]], [1.], (3,))",
    "m.sparse_coo_tensor([[0, -1]], [1., 2.])", "m.sparse_coo_tensor(m.tensor([0, 1]), m.tensor([1., 2.]), (3,))",
    "m.sparse_coo_tensor([[0, 5]], [1., 2.], (3,), check_invariants=True)",
    "m.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [1., 2., 3.], (2, 2), check_invariants=True)",
    "m.sparse_csr_tensor([0, 1, 3], [2, 2, 0], [1., 2., 3.], (2, 3), check_invariants=True)",
    "m.sparse_csr_tensor([1, 1, 3], [2, 0, 2], [1., 2., 3.], (2, 3), check_invariants=True)",
    "m.sparse_compressed_tensor([0, 1], [0], [1.], (1, 1))",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_are_of_the_same_class(text):
    with pytest.raises(Exception) as theirs:
        eval(text, names(torch))
    with pytest.raises(theirs.type if theirs.type is not None else Exception):
        eval(text, names(rl))


GRADIENTS = [
    "x @ y", "m.sparse.mm(x, y)", "x.to_dense()", "m.sparse_coo_tensor(i, v, (2, 3)).to_dense()",
    "m.sparse_coo_tensor(i, v, (2, 3)) @ y", "dd.to_sparse() * 2", "x * 2",
    "x + x", "dd + x", "x.coalesce().values()", "m.sparse.softmax(x, 1)", "m.sparse.sum(x, 0)", "c @ y", "c.values()",
    "m.sparse.mm(c, y, 'mean')", "m.sparse.mm(c, y, 'amax')", "dd.to_sparse_csr()", "dd.sparse_mask(x.detach())",
    "x.t()", "m.sparse.mm(x, x.t())", "x.sum()", "x * x", "x.relu()", "x.to_dense() + m.sparse.mm(x, e)",
    "m.nn.functional.embedding(m.tensor([1, 1, 0]), dd, sparse=True)",
]


def gradients(m, text):
    double = {"dtype": m.float64}
    given = {
        "m": m, "i": m.tensor(INDICES), "x": m.sparse_coo_tensor(INDICES, VALUES, (2, 3), requires_grad=True, **double),
        "y": m.tensor(RIGHT, requires_grad=True, **double), "v": m.tensor(VALUES, requires_grad=True, **double),
        "dd": m.tensor(DENSE, requires_grad=True, **double), "e": m.eye(3, **double),
        "c": m.sparse_csr_tensor([0, 1, 3], [2, 0, 2], VALUES, (2, 3), requires_grad=True, **double),
    }
    result = eval(text, given)
    result = result.to_dense() if str(result.layout).split(".")[-1] != "strided" else result
    weights = m.arange(1, result.numel() + 1, **double).reshape(tuple(result.shape))
    (result * weights).sum().backward()
    return {k: plain(t.grad) for k, t in given.items() if getattr(t, "grad", None) is not None}


@pytest.mark.parametrize("text", GRADIENTS)
def test_gradients(text):
    assert gradients(rl, text) == gradients(torch, text)


def test_second_derivatives_pass_through():
    v = rl.tensor(VALUES, dtype=rl.float64, requires_grad=True)
    y = rl.tensor(RIGHT, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradgradcheck(lambda v, y: rl.sparse.mm(rl.sparse_coo_tensor(INDICES, v * v, (2, 3)), y), (v, y))
    assert rl.autograd.gradcheck(lambda v: (rl.sparse_coo_tensor(INDICES, v, (2, 3)).sin() * 2).to_dense(), (v,))


def test_gradients_accumulate():
    table = rl.ones(4, 2, requires_grad=True)
    for _ in range(2):
        rl.nn.functional.embedding(rl.tensor([1, 3, 1]), table, sparse=True).sum().backward()
    assert table.grad.is_sparse
    assert table.grad.to_dense().tolist() == [[0, 0], [4, 4], [0, 0], [2, 2]]


def test_products_of_many_rows():
    dense = torch.rand(300, 200, dtype=torch.float64) * (torch.rand(300, 200) > 0.9)
    right = torch.rand(200, 17, dtype=torch.float64)
    ours = rl.from_numpy(dense.numpy()).to_sparse_csr()
    torch.testing.assert_close(torch.from_numpy((ours @ rl.from_numpy(right.numpy())).numpy()), dense @ right)
    square = (ours @ ours.t()).to_dense()
    torch.testing.assert_close(torch.from_numpy(square.numpy()), dense @ dense.t())


def test_bad_indices_are_never_followed():
    broken = rl.sparse_csr_tensor([0, 1, 3], [2, 0, 99], [1.0, 2.0, 3.0], (2, 3))
    with pytest.raises(IndexError, match="column"):
        broken @ rl.ones(3, 2)
    broken = rl.sparse_csr_tensor([0, 1, 9], [2, 0, 1], [1.0, 2.0, 3.0], (2, 3))
    with pytest.raises(IndexError, match="row"):
        broken @ rl.ones(3, 2)
    with pytest.raises(IndexError):
        rl.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (3,)).to_dense()


def test_invariants_can_be_checked_everywhere():
    check = rl.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check(), pytest.raises(RuntimeError):
        rl.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (3,))
    assert not check.is_enabled()


def test_attributes_and_copies():
    s = rl.sparse_coo_tensor(INDICES, VALUES, (2, 3))
    assert s.layout is rl.sparse_coo and s.is_sparse and isinstance(s, rl.Tensor)
    assert "indices=tensor([[0, 1, 1]," in repr(s) and "nnz=3, layout=rushlight.sparse_coo" in repr(s)
    for copied in (copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone(), s.detach()):
        assert copied.is_sparse and copied.to_dense().tolist() == s.to_dense().tolist()
    assert rl.empty(2, 2).layout is rl.strided and not rl.empty(2).is_sparse


@pytest.mark.parametrize(
    "text",
    [
        "s.set_(d)",
        "s.resize_(3)",
        "s.untyped_storage()",
        "s.__dlpack__()",
        "m.rand_like(s)",
        "m.stack([s, d])",
        "m.cat([s, d])",
        "s.add_(1)",
        "m.func.vmap(m.sin)(s)",
    ],
)
def test_nothing_looks_for_bytes_that_are_not_there(text):
    with pytest.raises((RuntimeError, NotImplementedError)):
        eval(text, names(rl))


def test_a_sparse_summand_of_a_dense_product_is_refused() -> None:
    sparse = rl.ones(5, 10).to_sparse()
    for call in (
        lambda: rl.addmm(sparse, rl.ones(5, 3), rl.ones(3, 10)),
        lambda: sparse.addmm_(rl.ones(5, 3), rl.ones(3, 10)),
    ):
        with pytest.raises(RuntimeError, match="strided"):
            call()
