"""Composites that the core replays: plans give what bodies give, bit for bit, and only where nobody looks."""

import pytest

import rushlight as rl
from rushlight.op import replay
from rushlight.op.extents import Untraceable
from rushlight.op.registry import definitions, load_all

F = rl.nn.functional

# Calls of ops that replay over tensors x, y [R, C] of one type, a row, and images; each at several sizes and layouts.
CALLS = {
    "contiguous": lambda x, y: x.contiguous(),
    "reshape": lambda x, y: x.reshape(-1),
    "flatten": lambda x, y: x.unsqueeze(0).flatten(1),
    "unflatten": lambda x, y: x.unflatten(1, (2, -1)),
    "view_as": lambda x, y: x.contiguous().view_as(y),
    "movedim": lambda x, y: x.movedim(0, 1),
    "diag": lambda x, y: (x.diag(), x[0].diag(1)),
    "rot90": lambda x, y: [x.rot90(k) for k in range(4)],
    "roll": lambda x, y: (x.roll(1), x.roll((1, 2), (0, 1))),
    "repeat": lambda x, y: (x.repeat(2, 3), x.tile(2), x.repeat_interleave(2, 1)),
    "joined": lambda x, y: (rl.hstack((x, y)), rl.vstack((x, y)), rl.dstack((x, y)), rl.column_stack((x, y[:, 0]))),
    "kron": lambda x, y: (rl.kron(x, y), rl.kron(x[0], y)),
    "block_diag": lambda x, y: rl.block_diag(x, y[0], y),
    "cross": lambda x, y: rl.cross(x[:, :3], y[:, :3], dim=1),
    "outer": lambda x, y: (x[0].outer(y[:, 0]), rl.addr(x, x[:, 0], y[0]), rl.tensordot(x, y.t(), 1)),
    "inner": lambda x, y: (rl.inner(x, y), rl.inner(x, y[0]), rl.inner(x[0], y[0]), rl.inner(x, rl.ones_like(x[0, 0]))),
    "tensordot": lambda x, y: (rl.tensordot(x, y, ([1], [1])), rl.tensordot(x, y, [[0, 1], [0, 1]]),
                               rl.tensordot(image(x), image(y), ([0, 1, 3], (0, 1, 3)))),
    "chain": lambda x, y: (rl.linalg.multi_dot([x, y.t(), x]), rl.linalg.multi_dot([x[0], y.t(), x, y[0]]),
                           rl.chain_matmul(x, y.t(), x, y.t())),
    "einsum": lambda x, y: (rl.einsum("ij,kj->ik", x, y), rl.einsum("ij->ji", x), rl.einsum("ij,ij->", x, y),
                            rl.einsum("...ij,...kj->...ik", image(x), image(y)), rl.einsum("ij,kj,il->kl", x, y, x),
                            rl.einsum(x, [0, 1], y, [2, 1]), rl.einsum("ii->i", x[:4, :4]),
                            rl.einsum("ij,j->i", x, y[0])),
    "power": lambda x, y: rl.linalg.matrix_power(x[:2, :2], 5),
    "trace": lambda x, y: x.trace(),
    "like": lambda x, y: (rl.zeros_like(x), rl.ones_like(x), rl.full_like(x, 2.5), rl.zeros_like(x, dtype=rl.int64)),
    "differences": lambda x, y: (x.diff(), x.diff(n=2, dim=0), rl.trapezoid(x), rl.gradient(x)),
    "nanmean": lambda x, y: (x.nanmean(), x.nanmean(0)),
    "vander": lambda x, y: (rl.vander(x[0], 4), rl.cartesian_prod(x[0], y[0])),
    "isin": lambda x, y: rl.isin(x, y[0]),
    "search": lambda x, y: (rl.searchsorted(x[0].sort()[0], y), rl.bucketize(y, x[0].sort()[0], right=True)),
    "mode": lambda x, y: (x.round().mode(1), x.kthvalue(2, 0)),
    "dist": lambda x, y: (x.dist(y), F.normalize(x), x.renorm(2, 0, 1.0), F.pairwise_distance(x, y)),
    "median": lambda x, y: (x.median(1), x.float().quantile(0.3, 1), x.float().nanquantile(0.6, 0)),
    "padded": lambda x, y: (F.pad(x, (1, 2)), F.pad(image(x), (1, 1, 1, 1), "reflect"), F.pad(x, (2, 0), "circular")),
    "largest": lambda x, y: F.max_pool2d(image(x), 2),
    "spread": lambda x, y: (rl.broadcast_to(x, (2, *x.shape)).clone(), rl.atleast_3d(x) + 1, x.swapaxes(0, 1) + 1),
    "similarity": lambda x, y: F.cosine_similarity(x, y),
}
FLOATS = {
    "cdist": lambda x, y: (rl.cdist(x, y), rl.cdist(x, y, 1.0)),
    "pdist": lambda x, y: F.pdist(x),
    "fft": lambda x, y: (rl.fft.fft2(x), rl.fft.rfft2(x), rl.fft.irfft2(rl.fft.rfft2(x)), rl.fft.ifft2(rl.fft.fft2(x))),
    "shift": lambda x, y: (rl.fft.fftshift(x), rl.fft.fft(x, dim=0), rl.fft.hfft(rl.complex(x, y))),
    "images": lambda x, y: (F.instance_norm(image(x)), F.local_response_norm(image(x), 3), F.lp_pool2d(image(x), 2, 2)),
    "sampled": lambda x, y: F.grid_sample(image(x), rl.stack((y, y), 2).unsqueeze(0), align_corners=False),
    "resized": lambda x, y: (F.interpolate(image(x), scale_factor=2), F.interpolate(image(x), (3, 5), mode="bilinear")),
    "pooled": lambda x, y: (F.avg_pool2d(image(x), 2), F.adaptive_avg_pool2d(image(x), 2)),
    "normal": lambda x, y: F.layer_norm(x, x.shape[1:]),
    "affine": lambda x, y: F.affine_grid(x[:2, :3].unsqueeze(0), (1, 2, 3, 4), align_corners=False),
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, training=True),
    "embedding": lambda x, y: F.embedding(rl.tensor([[0, 1], [1, 0]]), x),
}


def image(x):
    return rl.stack((x, x * 2)).unsqueeze(0)


def operands(rows, cols, dtype, layout):
    def one(seed):
        rl.manual_seed(seed)
        t = (rl.randn(rows, 2 * cols) * 3).to(dtype)
        t = t[:, ::2] if layout == "strided" else t[:, :cols].contiguous()
        return t.t().contiguous().t() if layout == "turned" else t

    return one(0), one(1)


def leaves(found):
    return [t for part in found for t in leaves(part)] if isinstance(found, (list, tuple)) else [found]


def assert_same(got, want):
    assert type(got) is type(want)
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert a.equal(b) or (a.isnan() & b.isnan() | (a == b)).all()


@pytest.fixture
def bodies(monkeypatch):
    """A function that runs another one with the bodies of composites, and no plan of theirs."""
    def run(function, *args):
        with monkeypatch.context() as patch:
            patch.setattr(replay, "written_plan", lambda definition, args: None)
            rl._C.forget_plans()
            found = function(*args)
        rl._C.forget_plans()
        return found

    return run


SHAPES = [*[(4, 4, "rows")] * 3, (6, 8, "rows"), (6, 8, "strided"), (5, 4, "turned"), (7, 6, "turned")]
EVERY = (rl.float32, rl.float64, rl.bfloat16, rl.int64)
TYPES = {**dict.fromkeys(("nanmean", "dist", "similarity"), EVERY[:3]), "power": EVERY[:2],
         **dict.fromkeys(("search", "mode", "kron"), (*EVERY[:2], rl.int64))}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("name", [*CALLS, *FLOATS])
def test_plans_give_what_bodies_give(name, dtype, bodies):
    if dtype not in TYPES.get(name, (rl.float32, rl.float64) if name in FLOATS else EVERY):
        pytest.skip("no such kernel, or refused")
    call = {**CALLS, **FLOATS}[name]
    given = [operands(r, c, dtype, layout) for r, c, layout in SHAPES]
    got = [call(*pair) for pair in given]
    want = bodies(lambda: [call(*pair) for pair in given])
    for a, b in zip(got, want, strict=True):
        assert_same(a, b)


def plans(op):
    return sum(overload.plan_count for overload in op.overload_list)


def test_a_body_becomes_a_plan_when_it_comes_back():
    a, b = rl.randn(3, 5), rl.randn(2, 2)
    before = plans(rl.kron)
    for _ in range(3):
        rl.kron(a, b)
    assert plans(rl.kron) == before + 1


def test_numbers_that_never_come_back_make_no_plans():
    x = rl.zeros(3, 7, 1)
    before = plans(rl.full_like)
    for k in range(20):
        assert rl.full_like(x, k + 0.25).eq(k + 0.25).all()
    assert plans(rl.full_like) == before


def test_a_result_that_is_the_argument_stays_it():
    x = rl.randn(3, 4)
    assert all(x.contiguous() is x for _ in range(4))


def test_a_view_shares_storage_version_and_base():
    x = rl.zeros(3, 4)
    for _ in range(4):
        flat = x.flatten()
        flat[0] += 1
        assert flat._base is x and flat._version == x._version
    assert x[0, 0] == 4
    y = x.t()
    assert all(y.flatten()._is_view() and y.reshape(12)._base is not y for _ in range(4))     # of the copy
    assert not any(rl.kron(x, x)._is_view() for _ in range(4))


def test_a_view_of_what_the_body_made_keeps_that_behind_it():
    x, y = rl.randn(2, 3, 4), rl.randn(4, 3, 5)
    want = (x.reshape(2, 12).double() @ y.permute(1, 0, 2).reshape(12, 5).double()).float()
    for call in (lambda: rl.tensordot(x, y, ([1, 2], [1, 0])), lambda: rl.einsum("ijk,kjl->il", x, y)):
        first = call()
        before = plans(rl.tensordot), plans(rl.op.find_op("_contract"))
        for _ in range(4):
            r = call()
            assert (r._is_view(), r._base.shape, r.stride()) == (first._is_view(), first._base.shape, first.stride())
            assert r._base.untyped_storage().data_ptr() == r.untyped_storage().data_ptr()
            assert rl.allclose(r, want, atol=1e-5)
            r.add_(1)
            assert r._base._version == r._version == 1
        assert (plans(rl.tensordot), plans(rl.op.find_op("_contract"))) != before
        with rl.inference_mode():
            assert rl.allclose(call(), want, atol=1e-5)
    t = y.transpose(0, 2)
    assert rl.einsum("ijk->ik", t).shape == (5, 4)
    assert all(rl.einsum("abc->cab", t)._base is y for _ in range(4))


def test_einsum_refuses_each_time():
    x = rl.ones(2, 3)
    for _ in range(3):
        for equation, operands, words in (("ij,jk", (x,), "names 2 operands"), ("ijk->i", (x,), "has 2 dimensions"),
                                          ("ij->k", (x,), "belongs to no operand"), ("ij->ii", (x,), "more than once"),
                                          ("ij,jk->ik", (x, x), "does not broadcast"),
                                          ("i1", (x,), "invalid subscript")):
            with pytest.raises(RuntimeError, match=words):
                rl.einsum(equation, *operands)


def test_the_strategy_of_einsum_counts(monkeypatch):
    from rushlight.definitions.products import einsum

    asked, x = [], rl.ones(2, 2)
    order_of = einsum.order_of
    monkeypatch.setattr(einsum, "order_of", lambda *given: asked.append(1) or order_of(*given))
    for _ in range(4):
        rl.einsum("ab,bc,cd->ad", x, x, x)
    known = len(asked)
    rl.einsum("ab,bc,cd->ad", x, x, x)
    assert len(asked) == known
    with rl.backends.opt_einsum.flags(enabled=False):
        rl.einsum("ab,bc,cd->ad", x, x, x)
    assert len(asked) > known or not rl.backends.opt_einsum.is_available()


def test_a_device_by_name():
    x = rl.ones(2, 3)
    for _ in range(4):
        assert rl.zeros_like(x, device="meta").is_meta and not rl.zeros_like(x, device="cpu").is_meta


def test_gradients_are_recorded_behind_plans():
    x, y = rl.randn(2, 3), rl.randn(3, 2)
    for _ in range(3):
        rl.kron(x, y)
    leaf = x.clone().requires_grad_()
    rl.kron(leaf, y).sum().backward()
    assert rl.allclose(leaf.grad, y.sum().expand(2, 3))
    with rl.no_grad():
        assert not rl.kron(leaf, y).requires_grad


def test_modes_see_the_ops_of_the_body():
    from rushlight.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = rl.randn(2, 2)
    for _ in range(3):
        rl.kron(x, x)
    with Watch():
        rl.kron(x, x)
    assert any("mul" in name for name in seen)


def test_a_kernel_of_the_program_is_called_in_bodies_that_were_plans():
    x, calls = rl.randn(3, 3), []
    want, _, _ = (rl.kron(x, x) for _ in range(3))
    library = rl.library.Library("aten", "IMPL")
    try:
        library.impl("mul.Tensor", lambda a, b: calls.append(1) or a.div(1 / b), "CPU")
        assert rl.allclose(rl.kron(x, x), want) and calls
    finally:
        library._destroy()
    count = len(calls)
    assert rl.equal(rl.kron(x, x), want) and len(calls) == count


def test_transforms_see_the_ops_of_the_body():
    x = rl.randn(3, 2, 2)
    for _ in range(3):
        rl.kron(x[0], x[0])
    want = rl.stack([rl.kron(row, row) for row in x])
    assert rl.equal(rl.vmap(rl.kron)(x, x), want)


def test_what_is_refused_is_refused_each_time():
    for _ in range(4):
        with pytest.raises(RuntimeError, match="at least 2 dims"):
            rl.rot90(rl.ones(3))
        with pytest.raises(RuntimeError, match="columns"):
            rl.cdist(rl.ones(2, 3), rl.ones(2, 4))


def test_what_warns_warns_each_time():
    x, grid = rl.ones(1, 1, 2, 2), rl.zeros(1, 2, 2, 2)
    for _ in range(3):
        with pytest.warns(UserWarning, match="align_corners"):
            F.grid_sample(x, grid)
        with pytest.warns(UserWarning, match="without dim"):
            rl.cross(rl.ones(3), rl.ones(3))


def test_a_check_in_a_plan_names_the_culprit():
    table = rl.randn(5, 3)
    for _ in range(3):
        F.embedding(rl.tensor([0, 4]), table)
    with pytest.raises(IndexError, match="7"):
        F.embedding(rl.tensor([0, 7]), table)
    with pytest.raises(IndexError, match="6"):
        F.embedding(rl.tensor([0, 1, 6]), table)


def test_empty_and_scalar_arguments():
    for _ in range(4):
        assert rl.kron(rl.ones(0, 2), rl.ones(2, 2)).shape == (0, 4)
        assert rl.zeros_like(rl.ones(0)).shape == (0,)
        assert rl.kron(rl.tensor(2.0), rl.tensor(3.0)).item() == 6
        assert rl.ones(()).flatten().shape == (1,)


def test_bits_are_seen():
    z = rl.complex(rl.ones(2, 2), rl.ones(2, 2))
    for _ in range(4):
        assert (z.conj().roll(1) == 1 - 1j).all()
        assert z.conj().t().contiguous()[0, 1] == 1 - 1j
        assert z.conj().flatten().is_conj()


def test_same_bits_at_any_number_of_threads():
    x, threads = rl.randn(300, 257), rl.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            rl.set_num_threads(count)
            found += [(rl.cdist(x, x), rl.fft.fft2(x)) for _ in range(3)]
    finally:
        rl.set_num_threads(threads)
    assert all(a.equal(found[0][0]) and b.equal(found[0][1]) for a, b in found)


def test_elements_are_not_looked_at_while_a_body_is_written_down():
    writing = replay.Writing(rl.device("cpu"))
    sketch = writing.given(rl.ones(2, 2))
    for look in (bool, float, list, lambda s: s.item(), lambda s: s.tolist(), lambda s: s.data_ptr(), lambda s: s[0]):
        with pytest.raises(Untraceable):
            look(sketch)


def test_only_composites_and_parts_of_them_replay():
    load_all()
    listed = [d for ds in definitions.values() for d in (ds if isinstance(ds, list) else [ds])]
    found = [d for d in listed if getattr(d, "replays", False)]
    assert len(found) > 40
    assert not [d for d in found if not hasattr(d, "run")]
