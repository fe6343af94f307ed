"""Kernels for tensor cores of capability 9.0: products of groups, float8 by rows, attention under masks; what a host
can tell of them, and on the card against products in single precision."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import rushlight as rl
from rushlight.devices import handlers, register
from rushlight.devices.cuda import tile_products, warpgroup_attention
from rushlight.devices.cuda.tile_products import BY_ROWS, ONE, Form
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from tests.devices.reference_device import ReferenceDevice

card = pytest.mark.skipif(
    not rl.cuda.is_available() or rl.cuda.get_device_capability() != (9, 0), reason="needs a unit of capability 9.0"
)
FORMS = [
    Form((BY_ROWS, "bf16", "bf16", "bf16", False, 256, 2, False, False, False)),
    Form((BY_ROWS, "f16", "f16", "f32", True, 128, 1, False, False, False)),
    Form((ONE, "f8e4m3fn", "f8e4m3fn", "bf16", False, 256, 2, True, True, False)),
    Form((ONE, "f8e5m2", "f8e4m3fn", "f16", False, 128, 2, True, True, True)),
]
WIDTHS = [(64, 64), (128, 128), (192, 128), (256, 256)]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_texts_compile_within_their_registers(tmp_path):
    """No register waits in memory, no product waits for the one before, and shared memory suffices."""
    texts = {f"product{number}": tile_products.source(form) for number, form in enumerate(FORMS)}
    for widths in WIDTHS:
        for name, text in warpgroup_attention.sources_of("bf16", *widths).items():
            texts[f"{name}{widths[0]}"] = text
    for name, text in texts.items():
        (tmp_path / f"{name}.cu").write_text(text)
        command = ["nvcc", "-arch=sm_90a", "-std=c++17", "-cubin", "-Xptxas", "-v", "-o", "/dev/null", f"{name}.cu"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "serialized" not in done.stderr, (name, done.stderr)
        spilled = [line for line in done.stderr.splitlines() if "spill stores" in line]
        assert spilled and all(int(line.split(",")[1].split()[0]) <= 64 for line in spilled), (name, spilled)


def test_shared_memory_suffices():
    most = 227 << 10      # of a block, less what the texts have themselves
    assert all(tile_products.shared_bytes(cols) + 256 <= most for cols in (128, 256))
    for widths in [(a, b) for a in (64, 128, 192, 256) for b in (64, 128, 192, 256)]:
        keys, stages, shared = warpgroup_attention.sizes(*widths)
        assert stages >= 2 and shared + 4352 <= most and keys in (64, 128), widths


class Reading(ReferenceDevice):
    """Products of groups, by the host's."""

    done: list = []
    refuses = False

    def implementation(self, op):
        return self.multiply if op == "_grouped_product" else None

    def multiply(self, out, a, b, offs):
        if self.refuses:
            return False
        self.done.append((a.ndim, b.ndim))
        out.copy_(rl._grouped_mm(a.cpu(), b.cpu(), offs.cpu()))
        return True


def grouped(a, b, offs):
    """The products one by one, in single precision."""
    ends = offs.tolist()
    pieces = list(zip([0, *ends[:-1]], ends, strict=True))
    if a.ndim == b.ndim == 2:
        return rl.stack([a[:, i:j].float() @ b[i:j].float() for i, j in pieces])
    if a.ndim == 2:
        out = rl.zeros(a.shape[0], b.shape[2], device=a.device)
        for g, (i, j) in enumerate(pieces):
            out[i:j] = a[i:j].float() @ b[g].float()
        return out
    out = rl.zeros(a.shape[1], b.shape[1], device=a.device)
    for g, (i, j) in enumerate(pieces):
        out[:, i:j] = a[g].float() @ b[:, i:j].float()
    return out


def groups_of(form, m, n, k, ends, dtype, turned, device):
    """Two matrices of small numbers with `ends` of groups, each lying by rows or by columns."""
    count = len(ends)
    shapes = {"rows": [(m, k), (count, k, n)], "columns": [(count, m, k), (k, n)], "depth": [(m, k), (k, n)]}[form]
    made = []
    for shape, is_turned in zip(shapes, turned, strict=True):
        drawn = rl.randn(*shape[:-2], *(shape[:-3:-1] if is_turned else shape[-2:])).to(dtype).to(device)
        made.append(drawn.transpose(-2, -1) if is_turned else drawn)
    return *made, rl.tensor(ends, dtype=rl.int32, device=device)


def test_groups_are_handed_over_with_their_gradients():
    """The host reads no offsets; gradients are products of groups again."""
    if "reading" not in handlers:
        register(Reading("reading"))
    rl.manual_seed(0)
    for form, kinds in (("rows", [(2, 3), (2, 3), (2, 2)]), ("columns", [(3, 2), (2, 2), (3, 2)]),
                        ("depth", [(2, 2), (3, 2), (2, 3)])):
        ends = [8, 8, 24]
        a, b, offs = groups_of(form, 24 if form == "rows" else 16, 24 if form == "columns" else 32, 24, ends,
                               rl.bfloat16, (False, False), "cpu")
        results = []
        for device in ("cpu", "reading"):
            Reading.done.clear()
            x, y = (t.detach().to(device).requires_grad_() for t in (a, b))
            out = rl.nn.functional.grouped_mm(x, y, offs=offs.to(device))
            (out * out.detach()).sum().backward()
            results.append([t.cpu() for t in (out.detach(), x.grad, y.grad)])
        assert sorted(Reading.done) == sorted(kinds), form
        for want, found in zip(*results, strict=True):
            rl.testing.assert_close(found, want, rtol=2e-2, atol=2e-2)
    wide = rl.randn(8, 12, dtype=rl.bfloat16).to("reading")      # lines of 24 bytes: nothing for it
    Reading.done.clear()
    rl._grouped_mm(wide, wide.t(), rl.tensor([4, 12], dtype=rl.int32).to("reading"))
    assert not Reading.done


def test_groups_that_a_device_refuses_are_computed_otherwise(monkeypatch):
    if "reading" not in handlers:
        register(Reading("reading"))
    monkeypatch.setattr(Reading, "refuses", True)
    for form in ("rows", "columns", "depth"):
        a, b, offs = groups_of(form, 24, 24, 24, [8, 8, 24], rl.bfloat16, (True, False), "cpu")
        found = rl._grouped_mm(*(t.to("reading") for t in (a, b, offs)))
        rl.testing.assert_close(found.cpu().float(), grouped(a, b, offs), rtol=2e-2, atol=2e-2)


@card
@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("form", "m", "n", "k", "ends"), [
    ("rows", 512, 512, 256, [128, 256, 512]),
    ("rows", 1000, 264, 136, [0, 3, 203, 203, 770]),
    ("rows", 1000, 136, 136, [0, 3, 203, 203, 770]),
    ("rows", 70, 64, 64, [1, 70]),
    ("rows", 4096, 2048, 320, [100, 1100, 2100, 4000]),
    ("columns", 136, 1000, 72, [1, 300, 300, 777]),
    ("columns", 512, 2048, 256, [1024, 2048]),
    ("depth", 264, 520, 1000, [64, 64, 200, 519, 995]),
    ("depth", 512, 1024, 512, [256, 512]),
])
def test_groups(form, m, n, k, ends, turned, dtype):
    rl.manual_seed(m)
    a, b, offs = groups_of(form, m, n, k, ends, dtype, turned, "cuda")
    if form == "depth":
        a[:, 995:] = float("nan")      # past the last group
    used = tile_products.grouped_product(
        handlers["cuda"].driver, rl.empty(rl._grouped_mm(a, b, offs).shape, device="cuda", dtype=dtype), a, b, offs)
    steps = [t.stride()[-2:] for t in (a, b)]
    lies = all((near == 1 and far % 8 == 0) or (far == 1 and near % 8 == 0) for far, near in steps)
    assert used == (lies and form == "rows" and not turned[0])
    rl.testing.assert_close(rl._grouped_mm(a, b, offs).float(), grouped(a, b, offs), rtol=2e-2, atol=2e-2 * k**0.5)


@card
def test_groups_are_captured_and_compiled():
    """Nothing waits for offsets, which may be others at every replay."""
    a, b, offs = groups_of("rows", 512, 256, 128, [100, 400], rl.bfloat16, (False, True), "cuda")
    a, b = a.requires_grad_(), b.requires_grad_()

    def step(a, b, offs):
        return rl.nn.functional.grouped_mm(a, b, offs=offs)

    want = grouped(a.detach(), b.detach(), offs)
    rl.testing.assert_close(rl.compile(step, fullgraph=True)(a, b, offs).float(), want, rtol=2e-2, atol=0.3)
    graph = rl.cuda.CUDAGraph()
    with rl.no_grad():
        step(a, b, offs)
        with rl.cuda.graph(graph):
            out = step(a, b, offs)
    offs.copy_(rl.tensor([300, 512], dtype=rl.int32))
    graph.replay()
    rl.testing.assert_close(out.float(), grouped(a.detach(), b.detach(), offs), rtol=2e-2, atol=0.3)
    for wild in ([-5, 900], [400, 100]):      # kept within the matrix
        step(a.detach(), b.detach(), rl.tensor(wild, dtype=rl.int32, device="cuda"))
    rl.cuda.synchronize()


@card
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("out", [rl.bfloat16, rl.float16, rl.float32])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 256), (1000, 528, 144), (17, 32, 2048), (1, 2048, 4096)])
def test_scales_by_rows(m, n, k, out, fast):
    rl.manual_seed(n)
    a, b = (rl.randn(rows, k, device="cuda").to(rl.float8_e4m3fn) for rows in (m, n))
    scale_a, scale_b = rl.rand(m, 1, device="cuda") + 0.5, rl.rand(1, n, device="cuda") + 0.5
    bias = None if out is rl.float32 else rl.randn(n, device="cuda", dtype=out)
    found = rl._scaled_mm(a, b.t(), scale_a, scale_b, bias, out_dtype=out, use_fast_accum=fast)
    want = (a.float() @ b.float().t()) * scale_a * scale_b + (0 if bias is None else bias.float())
    rl.testing.assert_close(found.float(), want, rtol=2e-2, atol=(2e-2 if fast else 1e-2) * k**0.5)
    direct = rl.empty(m, n, device="cuda", dtype=out)
    assert tile_products.scaled_by_rows(handlers["cuda"].driver, direct, a, b.t(), scale_a, scale_b, bias, fast)


MASKS = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k < 100),
    "documents": lambda b, h, q, k: (q // 200 == k // 200) & (q >= k),
    "heads": lambda b, h, q, k: (q + h * 64 >= k) & (k != 3),
    "none seen": lambda b, h, q, k: (q >= k) & (q > 260),
}


@card
@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize(
    ("width", "values"), [(64, 64), (128, 128), (32, 32), (96, 96), (192, 128), (256, 256), (40, 72)])
@pytest.mark.parametrize("mask", list(MASKS))
def test_hidden_attention(mask, width, values, dtype):
    rl.manual_seed(width)
    queries, keys = (700, 700) if mask != "heads" else (515, 646)
    q, k, v = (rl.randn(2, h, n, w, device="cuda", dtype=dtype)
               for h, n, w in ((4, queries, width), (2, keys, width), (2, keys, values)))
    at = [rl.arange(n, device="cuda").view(shape) for n, shape in (
        (2, (-1, 1, 1, 1)), (4, (1, -1, 1, 1)), (queries, (1, 1, -1, 1)), (keys, (1, 1, 1, -1)))]
    seen = MASKS[mask](*at)
    seen = seen.expand(1, seen.shape[1], queries, keys).contiguous()
    outs = rl.empty(2, 4, queries, values, device="cuda", dtype=dtype), rl.empty(2, 4, queries, device="cuda")
    assert warpgroup_attention.attend(handlers["cuda"].driver, outs, q, k, v, seen, 0.17)
    near, far = (t.float().repeat_interleave(2, 1) for t in (k, v))
    scores = (q.float() @ near.mT * 0.17).masked_fill(~seen, -float("inf"))
    rl.testing.assert_close(outs[1], scores.logsumexp(-1), rtol=1e-3, atol=2e-3)
    want = scores.softmax(-1).nan_to_num() @ far
    rl.testing.assert_close(outs[0].float(), want, rtol=2e-2, atol=2e-2)
    if mask == "causal" and width == values:
        block = create_block_mask(MASKS[mask], None, None, queries, keys, device="cuda")
        flex = flex_attention(q, k, v, block_mask=block, scale=0.17, enable_gqa=True)
        rl.testing.assert_close(flex.float(), want, rtol=2e-2, atol=2e-2)
