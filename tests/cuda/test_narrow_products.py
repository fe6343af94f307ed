"""Products of float8 and int8 matrices on the card, against PyTorch on the same card."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")

SIZES = [(64, 48, 128), (17, 64, 32), (1, 256, 512), (320, 1040, 272)]
RESULTS = ["bfloat16", "float16", "float32", "float8_e4m3fn"]


def ours(t):
    """PyTorch's tensor as ours; float8 travels as bytes."""
    if t is None or t.itemsize > 1:
        return None if t is None else rl.from_dlpack(t.detach())
    turned = t.stride(0) == 1 and t.ndim == 2
    made = rl.from_dlpack((t.t() if turned else t).contiguous().view(torch.uint8)).view(getattr(rl, str(t.dtype)[6:]))
    return made.t() if turned else made


def answer(run):
    try:
        return run()
    except (RuntimeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("kinds", list(itertools.product(["float8_e4m3fn", "float8_e5m2"], repeat=2)))
@pytest.mark.parametrize("sizes", SIZES)
def test_float8(sizes, kinds):
    torch.manual_seed(0)
    m, n, k = sizes
    a = torch.randn(m, k, device="cuda").to(getattr(torch, kinds[0]))
    b = torch.randn(n, k, device="cuda").to(getattr(torch, kinds[1])).t()
    both = [(torch.rand((), device="cuda"), torch.rand((), device="cuda")),
            (torch.rand(m, 1, device="cuda"), torch.rand(1, n, device="cuda"))]
    for scales, result, added, fast in itertools.product(both, RESULTS, (None, "bfloat16", "float16"), (False, True)):
        bias = None if added is None else torch.randn(n, device="cuda", dtype=getattr(torch, added))
        factor = torch.tensor(0.5, device="cuda") if result == "float8_e4m3fn" else None
        want = answer(lambda: torch._scaled_mm(
            a, b, *scales, bias=bias, scale_result=factor, out_dtype=getattr(torch, result), use_fast_accum=fast))
        got = answer(lambda: rl._scaled_mm(
            ours(a), ours(b), *map(ours, scales), bias=ours(bias), scale_result=ours(factor),
            out_dtype=getattr(rl, result), use_fast_accum=fast))
        case = (scales[0].shape, result, added, fast)
        if isinstance(want, type) or isinstance(got, type):
            assert isinstance(want, type) and isinstance(got, type), (case, want, got)
            continue
        assert str(got.dtype).split(".")[1] == result
        apart = (torch.from_dlpack(got.float()) - want.float()).norm() / want.float().norm()
        assert apart < 1e-2, (case, apart)


@pytest.mark.parametrize("bad", ["rows", "inner", "columns"])
def test_what_no_tensor_core_reads_is_refused(bad):
    one = rl.ones((), device="cuda")
    a = rl.zeros(32, 24 if bad == "inner" else 64, device="cuda").to(rl.float8_e4m3fn)
    b = rl.zeros(40 if bad == "columns" else 48, a.shape[1], device="cuda").to(rl.float8_e4m3fn).t()
    b = b.contiguous() if bad == "rows" else b
    with pytest.raises(RuntimeError, match="by columns" if bad == "rows" else "multiples of 16"):
        rl._scaled_mm(a, b, one, one, out_dtype=rl.bfloat16)
    assert rl.ones(3, device="cuda").sum().item() == 3


def test_functional_form():
    kinds = rl.nn.functional.ScalingType
    a, b = [rl.randn(n, 128, device="cuda").to(rl.float8_e4m3fn) for n in (64, 32)]
    b = b.t()
    rows, columns = rl.rand(64, 1, device="cuda"), rl.rand(1, 32, device="cuda")
    got = rl.nn.functional.scaled_mm(a, b, rows, kinds.RowWise, columns, kinds.RowWise)
    want = ((a.float() * rows) @ (b.float() * columns)).bfloat16()
    assert got.dtype is rl.bfloat16 and rl.allclose(got.float(), want.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("sizes", [(32, 64, 128), (17, 8, 24), (100, 36, 20), (33, 7, 5), (1, 64, 64), (0, 8, 8)])
@pytest.mark.parametrize("turned", [False, True])
def test_int8(sizes, turned):
    m, n, k = sizes
    a = rl.randint(-128, 128, (m, k), dtype=rl.int8, device="cuda")
    b = rl.randint(-128, 128, (n, k) if turned else (k, n), dtype=rl.int8, device="cuda")
    b = b.t() if turned else b
    got = rl._int_mm(a, b)
    assert got.dtype is rl.int32
    assert (got.cpu() == (a.cpu().long() @ b.cpu().long()).int()).all()


def test_products_are_captured():
    a, b = [rl.randn(n, 128, device="cuda").to(rl.float8_e4m3fn) for n in (64, 32)]
    b = b.t()
    one = rl.ones((), device="cuda")
    want = rl._scaled_mm(a, b, one, one, out_dtype=rl.bfloat16)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        got = rl._scaled_mm(a, b, one, one, out_dtype=rl.bfloat16)
    got.zero_()
    graph.replay()
    assert (got == want).all()


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("inner, columns", [(64, 1024), (2048, 2048), (520, 1999), (4096, 3500), (1000, 8191), (24, 5)])
@pytest.mark.parametrize("bias", [False, True])
def test_products_of_one_row(dtype, inner, columns, bias):
    rl.manual_seed(0)
    x, weight = rl.randn(1, inner, device="cuda").to(dtype), rl.randn(columns, inner, device="cuda").to(dtype)
    more = rl.randn(columns, device="cuda").to(dtype) if bias else None
    wanted = rl.nn.functional.linear(x.double(), weight.double(), None if more is None else more.double())
    for given in (x, x[0], x[None]):
        got = rl.nn.functional.linear(given, weight, more)
        assert ((got.double() - wanted).norm() / wanted.norm()).item() < (4e-3 if dtype is rl.bfloat16 else 6e-4)
    part = rl.randn(columns, inner + 8, device="cuda").to(dtype)[:, 8:]
    got, wanted = rl.nn.functional.linear(x, part), x.double() @ part.double().t()
    assert ((got.double() - wanted).norm() / wanted.norm()).item() < (4e-3 if dtype is rl.bfloat16 else 6e-4)
