"""What the card computes in other types and shapes, against PyTorch on the same card: products of eight bits,
attention over sequences of several lengths, autocast's choices, a user's Triton kernel, deterministic sums."""

from __future__ import annotations

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")


def ours(t):
    return rl.from_dlpack(t.detach().contiguous())


def theirs(t):
    return torch.from_dlpack(t.detach().contiguous())


@pytest.mark.parametrize("out", ["bfloat16", "float32"])
@pytest.mark.parametrize("bias", [False, True])
def test_scaled_mm(out, bias):
    torch.manual_seed(0)
    a, b = torch.randn(64, 128, device="cuda"), torch.randn(48, 128, device="cuda")
    scales = [torch.tensor(0.5, device="cuda"), torch.tensor(2.0, device="cuda")]
    added = torch.randn(48, device="cuda", dtype=torch.bfloat16) if bias and out == "bfloat16" else None
    eight = [t.to(torch.float8_e4m3fn) for t in (a, b)]
    want = torch._scaled_mm(eight[0], eight[1].t(), *scales, bias=added, out_dtype=getattr(torch, out))
    mine = [ours(t).to(rl.float8_e4m3fn) for t in (a, b)]
    assert (theirs(mine[0].view(rl.uint8)) == eight[0].view(torch.uint8)).all()
    got = rl._scaled_mm(
        mine[0], mine[1].t(), *[ours(s) for s in scales], bias=None if added is None else ours(added),
        out_dtype=getattr(rl, out),
    )
    torch.testing.assert_close(theirs(got), want, rtol=2e-2, atol=2e-2)


def test_attention_over_sequences_of_several_lengths():
    torch.manual_seed(0)
    lengths = [5, 17, 1, 30]
    parts = [torch.randn(n, 4, 64, device="cuda", dtype=torch.bfloat16) for n in lengths]
    results = []
    for library, move in ((torch, lambda t: t), (rl, ours)):
        base = library.nested.nested_tensor([move(p) for p in parts], layout=library.jagged)
        nested = [(base * k).transpose(1, 2) for k in (1.0, 0.5, 2.0)]
        made = library.nn.functional.scaled_dot_product_attention(*nested).transpose(1, 2)
        results.append([t if library is torch else theirs(t) for t in made.unbind()])
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


AUTOCAST = {
    "mm": lambda t, x: x @ x, "linear": lambda t, x: t.nn.functional.linear(x, x), "exp": lambda t, x: x.exp(),
    "softmax": lambda t, x: x.softmax(-1), "log_softmax": lambda t, x: t.log_softmax(x, -1),
    "sum": lambda t, x: x.sum(),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (8,)), "relu": lambda t, x: x.relu(),
    "pow": lambda t, x: x.pow(2), "norm": lambda t, x: x.norm(), "cumsum": lambda t, x: x.cumsum(0),
    "gelu": lambda t, x: t.nn.functional.gelu(x), "baddbmm": lambda t, x: t.bmm(x[None], x[None]),
    "conv2d": lambda t, x: t.nn.functional.conv2d(x[None, None], x[None, None, :3, :3]), "prod": lambda t, x: x.prod(),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, x), "rsqrt": lambda t, x: x.abs().rsqrt(), "cat of both":
    lambda t, x: t.cat([x, x.float()]), "addcmul": lambda t, x: t.addcmul(x, x, x.float()),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x), "cdist": lambda t, x: t.cdist(x, x),
    "cosine": lambda t, x: t.nn.functional.cosine_similarity(x, x), "erfinv": lambda t, x: x.clamp(0, 0.5).erfinv(),
    "logsumexp": lambda t, x: x.logsumexp(0), "attention":
    lambda t, x: t.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "dist": lambda t, x: t.dist(x, x), "renorm": lambda t, x: x.renorm(2, 0, 1.0), "index_put":
    lambda t, x: x.clone().index_put((t.tensor([0], device=x.device),), x[:1].float().to(x.dtype)),
    "prelu": lambda t, x: t.prelu(x, x[0, :1]),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x, 2), "dot": lambda t, x: t.dot(x[0], x[0]),
    "scatter_add": lambda t, x: x.scatter_add(0, t.zeros(1, 8, dtype=t.int64, device=x.device), x[:1]),
}


@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_chooses_the_same_types(name):
    for autocast, given in (("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32")):
        found = []
        for library in (torch, rl):
            x = library.linspace(0.1, 1.0, 64, device="cuda").view(8, 8).to(getattr(library, given))
            with library.autocast("cuda", dtype=getattr(library, autocast)):
                try:
                    found.append(str(AUTOCAST[name](library, x).dtype).split(".")[-1])
                except RuntimeError as error:
                    found.append(type(error).__name__)
        assert found[0] == found[1], (autocast, given)


def test_sums_in_one_order():
    """With deterministic algorithms the same numbers come out every time, and PyTorch's in exact arithmetic."""
    torch.manual_seed(0)
    index, values = torch.randint(0, 50, (20000,), device="cuda"), torch.randn(20000, 4, device="cuda")
    exact = torch.zeros(50, 4, device="cuda", dtype=torch.float64).index_add_(0, index, values.double())
    i, v = ours(index), ours(values)
    rl.use_deterministic_algorithms(True)
    try:
        for add in (
            lambda: rl.zeros(50, 4, device="cuda").index_add_(0, i, v),
            lambda: rl.zeros(50, 4, device="cuda").scatter_add_(0, i[:, None].expand(-1, 4), v),
            lambda: rl.zeros(50, 4, device="cuda").index_put_((i,), v, accumulate=True),
        ):
            first = add()
            assert all((add() == first).all().item() for _ in range(5))
            torch.testing.assert_close(theirs(first).double(), exact, rtol=1e-4, atol=1e-4)
    finally:
        rl.use_deterministic_algorithms(False)


def test_a_triton_kernel_of_a_user():
    triton = pytest.importorskip("triton")
    from . import triton_kernel

    x = rl.linspace(-1, 1, 1000, device="cuda")
    out = rl.empty_like(x)
    triton_kernel.double_plus[(triton.cdiv(1000, 256),)](x, out, 1000, BLOCK=256)
    rl.testing.assert_close(out.cpu(), x.cpu() * 2 + 1)
