"""Ops that models use, one at a time, on one CUDA device: Rushlight against PyTorch, the slowest first.

    python -m benchmarks.cuda_ops [words]      cases whose names hold one of the words

Both libraries run in this process; a case is made in both, and measured in turns. Times are medians of events around
several calls, in microseconds a call. Cases with "train" also run the backward pass.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import sys
from collections.abc import Callable
from typing import Any

ROUNDS = 9


def timed(lib: Any, f: Callable, calls: int) -> float:
    """Microseconds of a call on the device."""
    start, end = lib.cuda.Event(enable_timing=True), lib.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        f()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls * 1e3


def compared(libraries: list[Any], case: Callable) -> list[float]:
    """Medians of each library's microseconds, measured in turns."""
    functions = [case(lib) for lib in libraries]
    for lib, f in zip(libraries, functions, strict=True):
        for _ in range(3):
            f()
        lib.cuda.synchronize()
    longest = max(timed(lib, f, 1) for lib, f in zip(libraries, functions, strict=True))
    calls = max(1, min(20, int(4000 / longest)))
    found: list[list[float]] = [[] for _ in libraries]
    for _ in range(ROUNDS):
        for lib, f, times in zip(libraries, functions, found, strict=True):
            times.append(timed(lib, f, calls))
    return [statistics.median(times) for times in found]


def with_backward(f: Callable, *inputs: Any) -> Callable:
    """Forward and backward passes, gradients afresh."""
    gradient: list[Any] = []

    def both() -> None:
        result = f()
        if not gradient:
            gradient.append(result.detach().clone())
        for one in inputs:
            one.grad = None
        result.backward(gradient[0])

    return both


def indexed(lib: Any) -> dict[str, Callable]:
    F = lib.nn.functional
    x = lib.randn(65536, 512, device="cuda")
    rows = lib.randint(0, 65536, (65536,), device="cuda")
    wide = lib.randint(0, 65536, (65536, 512), device="cuda")
    weight = lib.randn(50257, 768, device="cuda", requires_grad=True)
    tokens = lib.randint(0, 50257, (16, 1024), device="cuda")
    few = lib.randint(0, 100, (16, 1024), device="cuda")
    to = lib.zeros(65536, 512, device="cuda")
    flat = lib.randn(1 << 24, device="cuda")
    some = flat > 0.5
    pieces = [lib.randn(256, 512, device="cuda") for _ in range(64)]
    wide_pieces = [lib.randn(4096, 64, device="cuda") for _ in range(32)]
    y = lib.randn(65536, 512, device="cuda")
    chosen = x > 0
    return {
        "index_select rows": lambda: x.index_select(0, rows),
        "x[rows]": lambda: x[rows],
        "gather rows": lambda: x.gather(0, wide),
        "scatter_add": lambda: to.scatter_add_(0, wide, x),
        "scatter_reduce amax": lambda: x.scatter_reduce(0, wide, y, "amax"),
        "scatter_reduce prod": lambda: x.scatter_reduce(0, wide, y, "prod"),
        "index_add rows": lambda: to.index_add_(0, rows, x),
        "index_put accumulate": lambda: to.index_put_((rows,), x, True),
        "take_along_dim -1": lambda: x.gather(1, wide % 512),
        "embedding train": with_backward(lambda: F.embedding(tokens, weight), weight),
        "embedding train few": with_backward(lambda: F.embedding(few, weight), weight),
        "nonzero": lambda: some.nonzero(),
        "masked_select": lambda: flat.masked_select(some),
        "x[mask]": lambda: flat[some],
        "masked_fill": lambda: x.masked_fill(chosen, 0.0),
        "where": lambda: lib.where(chosen, x, y),
        "cat 64": lambda: lib.cat(pieces),
        "cat 32 last dim": lambda: lib.cat(wide_pieces, 1),
        "stack 64": lambda: lib.stack(pieces),
        "flip": lambda: x.flip(0),
        "roll": lambda: x.roll(3, 1),
        "repeat_interleave": lambda: x.repeat_interleave(2, 0),
        "tril": lambda: x.tril(),
        "one_hot": lambda: F.one_hot(few, 100),
        "index_fill": lambda: x.index_fill(0, rows[:100], 0.0),
        "gather one": lambda: x.gather(1, rows[:, None] % 512),
    }


def losses(lib: Any) -> dict[str, Callable]:
    F = lib.nn.functional
    logits = lib.randn(4096, 50257, device="cuda", dtype=lib.bfloat16, requires_grad=True)
    full = lib.randn(8192, 10000, device="cuda", requires_grad=True)
    target, other = lib.randint(0, 50257, (4096,), device="cuda"), lib.randint(0, 10000, (8192,), device="cuda")
    x = lib.randn(16384, 1024, device="cuda", requires_grad=True)
    y = lib.rand(16384, 1024, device="cuda")
    half = lib.randn(16384, 4096, device="cuda", dtype=lib.bfloat16, requires_grad=True)
    return {
        "cross_entropy bf16 vocab": lambda: F.cross_entropy(logits, target),
        "cross_entropy bf16 vocab train": with_backward(lambda: F.cross_entropy(logits, target), logits),
        "cross_entropy f32 train": with_backward(lambda: F.cross_entropy(full, other), full),
        "cross_entropy smoothed train": with_backward(lambda: F.cross_entropy(full, other, label_smoothing=0.1), full),
        "log_softmax train": with_backward(lambda: F.log_softmax(half, -1), half),
        "softmax train": with_backward(lambda: F.softmax(half, -1), half),
        "softmax dim 0": lambda: F.softmax(x, 0),
        "logsumexp": lambda: x.logsumexp(-1),
        "bce_with_logits train": with_backward(lambda: F.binary_cross_entropy_with_logits(x, y), x),
        "mse train": with_backward(lambda: F.mse_loss(x, y), x),
        "smooth_l1 train": with_backward(lambda: F.smooth_l1_loss(x, y), x),
        "dropout train": with_backward(lambda: F.dropout(half, 0.1), half),
        "dropout": lambda: F.dropout(x, 0.1),
        "cosine_similarity": lambda: F.cosine_similarity(x, y, -1),
        "kl_div train": with_backward(lambda: F.kl_div(x, y, reduction="batchmean"), x),
    }


def norms(lib: Any) -> dict[str, Callable]:
    F, nn = lib.nn.functional, lib.nn
    last = lib.channels_last
    x = lib.randn(64, 256, 32, 32, device="cuda", requires_grad=True)
    c = lib.randn(64, 256, 32, 32, device="cuda").to(memory_format=last).requires_grad_()
    h = lib.randn(64, 256, 32, 32, device="cuda").to(lib.bfloat16).to(memory_format=last).requires_grad_()
    rows = lib.randn(16384, 1024, device="cuda", dtype=lib.bfloat16, requires_grad=True)
    group, batch, half = nn.GroupNorm(32, 256).cuda(), nn.BatchNorm2d(256).cuda(), nn.BatchNorm2d(256).cuda()
    instance = nn.InstanceNorm2d(256, affine=True).cuda()
    half_batch = nn.BatchNorm2d(256).cuda().to(lib.bfloat16)
    layer = nn.LayerNorm(1024).cuda().to(lib.bfloat16)
    rms = nn.RMSNorm(1024).cuda().to(lib.bfloat16)
    still = nn.BatchNorm2d(256).cuda().eval()
    flat = nn.BatchNorm1d(1024).cuda()
    wide = lib.randn(16384, 1024, device="cuda", requires_grad=True)
    return {
        "group_norm train": with_backward(lambda: group(x), x, *group.parameters()),
        "group_norm last train": with_backward(lambda: group(c), c, *group.parameters()),
        "batch_norm train": with_backward(lambda: batch(x), x, *batch.parameters()),
        "batch_norm last train": with_backward(lambda: half(c), c, *half.parameters()),
        "batch_norm bf16 last train": with_backward(lambda: half_batch(h), h, *half_batch.parameters()),
        "batch_norm eval": lambda: still(x),
        "instance_norm train": with_backward(lambda: instance(x), x),
        "batch_norm1d train": with_backward(lambda: flat(wide), wide, *flat.parameters()),
        "layer_norm bf16 train": with_backward(lambda: layer(rows), rows, *layer.parameters()),
        "rms_norm bf16 train": with_backward(lambda: rms(rows), rows, *rms.parameters()),
        "normalize train": with_backward(lambda: F.normalize(rows, dim=-1), rows),
    }


def images(lib: Any) -> dict[str, Callable]:
    F = lib.nn.functional
    last = lib.channels_last
    x = lib.randn(32, 64, 112, 112, device="cuda", requires_grad=True)
    c = lib.randn(32, 64, 112, 112, device="cuda").to(lib.bfloat16).to(memory_format=last).requires_grad_()
    deep = lib.randn(32, 256, 56, 56, device="cuda", requires_grad=True)
    half = lib.randn(32, 256, 56, 56, device="cuda").to(lib.bfloat16).to(memory_format=last).requires_grad_()
    w = lib.randn(256, 1, 3, 3, device="cuda", requires_grad=True)
    v = lib.randn(256, 1, 3, 3, device="cuda").to(lib.bfloat16).requires_grad_()
    line = lib.randn(32, 512, 2048, device="cuda", requires_grad=True)
    tap = lib.randn(512, 1, 4, device="cuda", requires_grad=True)
    grid = lib.rand(32, 112, 112, 2, device="cuda") * 2 - 1
    return {
        "max_pool2d": lambda: F.max_pool2d(x, 3, 2, 1),
        "max_pool2d train": with_backward(lambda: F.max_pool2d(x, 3, 2, 1), x),
        "max_pool2d bf16 last train": with_backward(lambda: F.max_pool2d(c, 3, 2, 1), c),
        "avg_pool2d train": with_backward(lambda: F.avg_pool2d(x, 2), x),
        "adaptive_avg_pool2d train": with_backward(lambda: F.adaptive_avg_pool2d(deep, 1), deep),
        "adaptive_avg_pool2d 7 last": lambda: F.adaptive_avg_pool2d(half, 7),
        "interpolate nearest train": with_backward(lambda: F.interpolate(deep, scale_factor=2), deep),
        "interpolate bilinear train": with_backward(
            lambda: F.interpolate(deep, scale_factor=2, mode="bilinear", align_corners=False), deep
        ),
        "interpolate bicubic": lambda: F.interpolate(deep, scale_factor=2, mode="bicubic"),
        "grid_sample train": with_backward(lambda: F.grid_sample(x, grid, align_corners=False), x),
        "depthwise train": with_backward(lambda: F.conv2d(deep, w, padding=1, groups=256), deep, w),
        "depthwise": lambda: F.conv2d(deep, w, padding=1, groups=256),
        "depthwise bf16 last train": with_backward(lambda: F.conv2d(half, v, padding=1, groups=256), half, v),
        "depthwise bf16 last": lambda: F.conv2d(half, v, padding=1, groups=256),
        "depthwise 1d train": with_backward(lambda: F.conv1d(line, tap, padding=3, groups=512), line, tap),
        "unfold": lambda: F.unfold(x, 3),
        "pixel_shuffle": lambda: F.pixel_shuffle(deep, 2),
        "pad reflect": lambda: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad zeros": lambda: F.pad(x, (1, 1, 1, 1)),
        "to channels_last": lambda: x.detach().contiguous(memory_format=last),
    }


def reductions(lib: Any) -> dict[str, Callable]:
    x = lib.randn(16384, 4096, device="cuda")
    h = x.to(lib.bfloat16)
    cube = lib.randn(256, 256, 512, device="cuda")
    flags = x > 3
    whole = lib.randint(0, 1000, (1 << 24,), device="cuda")
    many, few = lib.randn(1 << 20, 16, device="cuda"), lib.randn(16, 1 << 20, device="cuda")
    return {
        "sum columns bf16": lambda: h.sum(0),
        "sum all bf16": lambda: h.sum(),
        "sum rows bf16": lambda: h.sum(1),
        "sum columns f32": lambda: x.sum(0),
        "mean middle": lambda: cube.mean(1),
        "sum dims 0 2": lambda: cube.sum((0, 2)),
        "argmax rows": lambda: x.argmax(1),
        "argmax columns": lambda: x.argmax(0),
        "argmax all": lambda: x.argmax(),
        "max rows": lambda: x.max(1),
        "max columns": lambda: x.max(0),
        "amax": lambda: x.amax(),
        "max all": lambda: x.max(),
        "var rows": lambda: x.var(1),
        "var columns": lambda: x.var(0),
        "std all": lambda: x.std(),
        "var_mean rows bf16": lambda: lib.var_mean(h, 1),
        "norm": lambda: x.norm(),
        "norm rows": lambda: x.norm(dim=1),
        "any rows": lambda: flags.any(1),
        "any": lambda: flags.any(),
        "all": lambda: flags.all(),
        "count_nonzero": lambda: flags.count_nonzero(),
        "sum of bools": lambda: flags.sum(),
        "isfinite all": lambda: lib.isfinite(x).all(),
        "sum rows of 16": lambda: many.sum(1),
        "sum columns of 16": lambda: many.sum(0),
        "sum 16 long rows": lambda: few.sum(1),
        "sum 16 columns": lambda: few.sum(0),
        "prod rows": lambda: x.prod(1),
        "argmax rows of 16": lambda: many.argmax(1),
        "median rows": lambda: x.median(1),
        "kthvalue": lambda: x.kthvalue(100, 1),
        "mode": lambda: x[:256].round().mode(1),
        "quantile": lambda: x[0].quantile(0.5),
        "bincount": lambda: whole.bincount(),
        "histc": lambda: x.histc(100, -3, 3),
        "sum int64": lambda: whole.sum(),
        "aminmax": lambda: x.aminmax(),
        "nan_to_num": lambda: x.nan_to_num(),
    }


def orders(lib: Any) -> dict[str, Callable]:
    flat = lib.randn(1 << 24, device="cuda")
    small = lib.randn(1 << 20, device="cuda")
    rows, short = lib.randn(256, 50257, device="cuda"), lib.randn(65536, 128, device="cuda")
    middle = lib.randn(4096, 1000, device="cuda")
    numbers = lib.randint(0, 1 << 20, (1 << 22,), device="cuda")
    repeated = lib.randint(0, 1000, (1 << 22,), device="cuda")
    weights = lib.rand(256, 50257, device="cuda")
    edges = small.sort()[0]
    experts = lib.randn(65536, 64, device="cuda", dtype=lib.bfloat16)
    return {
        "sort 2^24": lambda: flat.sort(),
        "sort 2^20": lambda: small.sort(),
        "argsort 2^24": lambda: flat.argsort(),
        "sort [256, 50257]": lambda: rows.sort(),
        "sort [65536, 128]": lambda: short.sort(),
        "sort int64 2^22": lambda: numbers.sort(),
        "sort bf16 2^24": lambda: flat.bfloat16().sort(),
        "topk 50 2^24": lambda: flat.topk(50),
        "topk 50 2^20": lambda: small.topk(50),
        "topk 50 [256, 50257]": lambda: rows.topk(50),
        "topk 50 [4096, 1000]": lambda: middle.topk(50),
        "topk 2 [65536, 64] bf16": lambda: experts.topk(2),
        "topk 8 [65536, 128]": lambda: short.topk(8),
        "topk 1000 [256, 50257]": lambda: rows.topk(1000),
        "cumsum 2^24": lambda: flat.cumsum(0),
        "cumsum [65536, 128]": lambda: short.cumsum(-1),
        "cumsum [256, 50257]": lambda: rows.cumsum(-1),
        "cumsum [4096, 1000]": lambda: middle.cumsum(-1),
        "cumsum dim 0": lambda: short.cumsum(0),
        "cumprod": lambda: short.cumprod(-1),
        "cummax": lambda: short.cummax(-1),
        "cumsum experts int64": lambda: (experts > 1).long().cumsum(0),
        "logcumsumexp": lambda: short.logcumsumexp(-1),
        "unique 2^22": lambda: numbers.unique(),
        "unique repeated": lambda: repeated.unique(),
        "unique inverse counts": lambda: repeated.unique(return_inverse=True, return_counts=True),
        "unique_consecutive": lambda: repeated.unique_consecutive(),
        "randperm 2^20": lambda: lib.randperm(1 << 20, device="cuda"),
        "multinomial": lambda: lib.multinomial(weights, 4),
        "multinomial replacement": lambda: lib.multinomial(weights, 4, True),
        "searchsorted": lambda: lib.searchsorted(edges, flat),
        "isin": lambda: lib.isin(numbers, numbers[:1000]),
        "randn": lambda: lib.randn(1 << 24, device="cuda"),
        "exponential": lambda: flat.clone().exponential_(),
        "bernoulli": lambda: lib.bernoulli(weights),
    }


def algebra(lib: Any) -> dict[str, Callable]:
    points, others = lib.randn(4096, 128, device="cuda"), lib.randn(4096, 128, device="cuda")
    small = [lib.randn(1024, 32, 32, device="cuda") for _ in range(2)]
    tiny = [lib.randn(8192, 8, 8, device="cuda") for _ in range(2)]
    half = [lib.randn(768, 64, 64, device="cuda", dtype=lib.bfloat16) for _ in range(2)]
    vector = lib.randn(4096, device="cuda")
    matrix = lib.randn(4096, 4096, device="cuda")
    complexes, plane = lib.randn(1 << 20, device="cuda"), lib.randn(64, 512, 512, device="cuda")
    batch = lib.randn(256, 16, 16, device="cuda")
    definite = batch @ batch.mT + 16 * lib.eye(16, device="cuda")
    larger = lib.randn(512, 512, device="cuda")
    large = larger @ larger.T + 512 * lib.eye(512, device="cuda")
    b = lib.randn(256, 16, 4, device="cuda")
    rows = lib.randn(1024, 4096, device="cuda")
    return {
        "cdist": lambda: lib.cdist(points, others),
        "cdist p=1": lambda: lib.cdist(points[:1024], others[:1024], 1.0),
        "bmm 1024x32": lambda: lib.bmm(*small),
        "bmm 8192x8": lambda: lib.bmm(*tiny),
        "bmm bf16 768x64": lambda: lib.bmm(*half),
        "mv": lambda: matrix @ vector,
        "dot": lambda: vector @ vector,
        "einsum": lambda: lib.einsum("bij,bjk->bik", *small),
        "outer": lambda: lib.outer(vector, vector),
        "addmm": lambda: lib.addmm(vector, matrix, matrix),
        "fft 2^20": lambda: lib.fft.fft(complexes),
        "rfft 2^20": lambda: lib.fft.rfft(complexes),
        "fft rows": lambda: lib.fft.fft(rows),
        "rfft rows": lambda: lib.fft.rfft(rows),
        "fft2": lambda: lib.fft.fft2(plane),
        "rfft2": lambda: lib.fft.rfft2(plane),
        "irfft rows": lambda: lib.fft.irfft(lib.fft.rfft(rows)),
        "inv 256x16": lambda: lib.linalg.inv(definite),
        "inv 512": lambda: lib.linalg.inv(large),
        "cholesky 256x16": lambda: lib.linalg.cholesky(definite),
        "cholesky 512": lambda: lib.linalg.cholesky(large),
        "solve 256x16": lambda: lib.linalg.solve(definite, b),
        "solve 512": lambda: lib.linalg.solve(large, larger),
        "det 256x16": lambda: lib.linalg.det(definite),
        "slogdet 512": lambda: lib.linalg.slogdet(large),
        "qr 512": lambda: lib.linalg.qr(larger),
        "qr 256x16": lambda: lib.linalg.qr(batch),
        "svd 256x16": lambda: lib.linalg.svdvals(batch),
        "eigh 256x16": lambda: lib.linalg.eigh(definite),
        "eigh 512": lambda: lib.linalg.eigh(large),
        "svd 512": lambda: lib.linalg.svd(larger),
        "solve_triangular": lambda: lib.linalg.solve_triangular(large, larger, upper=False),
        "triangular 256x16": lambda: lib.linalg.solve_triangular(definite, b, upper=False),
        "matrix_exp": lambda: lib.matrix_exp(batch),
    }


def narrow(lib: Any) -> dict[str, Callable]:
    """Products of float8 and int8."""
    n = 8192
    a, b = [lib.randn(n, n, device="cuda").to(lib.float8_e4m3fn) for _ in range(2)]
    one, rows, columns = lib.ones((), device="cuda"), lib.rand(n, 1, device="cuda"), lib.rand(1, n, device="cuda")
    i, j = [lib.randint(-128, 127, (n, n), device="cuda", dtype=lib.int8) for _ in range(2)]
    half, parts = lib.bfloat16, (a[:2048, :2048], b[:2048, :2048].t())
    rows_of, own = lib.randn(8192, 2048, device="cuda", dtype=half), lib.randn(8, 4096, 2048, device="cuda", dtype=half)
    alike = lib.arange(1024, 8193, 1024, device="cuda", dtype=lib.int32)
    unlike = lib.tensor([512, 2000, 2560, 4096, 4608, 6144, 7168, 8192], device="cuda", dtype=lib.int32)
    return {
        "float8 8192, one scale": lambda: lib._scaled_mm(a, b.t(), one, one, out_dtype=half, use_fast_accum=True),
        "float8 8192, by rows": lambda: lib._scaled_mm(a, b.t(), rows, columns, out_dtype=half, use_fast_accum=True),
        "float8 2048, one scale": lambda: lib._scaled_mm(*parts, one, one, out_dtype=half),
        "int8 8192": lambda: lib._int_mm(i, j),
        "grouped 8 of 1024": lambda: lib._grouped_mm(rows_of, own.mT, alike),
        "grouped 8 of several": lambda: lib._grouped_mm(rows_of, own.mT, unlike),
        "int8 8192, by columns": lambda: lib._int_mm(i, j.t()),
    }


def attention(lib: Any) -> dict[str, Callable]:
    """Attention with masks, wide heads and few queries."""
    attend = lib.nn.functional.scaled_dot_product_attention

    def drawn(*shape: int) -> Any:
        return lib.randn(*shape, device="cuda", dtype=lib.bfloat16)

    usual = [drawn(4, 16, 2048, 64).requires_grad_() for _ in range(3)]
    broad = [drawn(2, 8, 2048, 256).requires_grad_() for _ in range(3)]
    query, cache = drawn(1, 32, 1, 128), [drawn(1, 8, 8192, 128) for _ in range(2)]
    seen, added = lib.rand(2048, 2048, device="cuda") > 0.2, drawn(2048, 2048)
    flex = importlib.import_module(f"{lib.__name__}.nn.attention.flex_attention")
    window = flex.create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 256), None, None, 2048, 2048, device="cuda")
    masked = lib.compile(lambda *given: flex.flex_attention(*given, block_mask=window))
    return {
        "flex window 256 compiled": without_gradient(lib, lambda: masked(*usual)),
        "flex window 256 compiled train": with_backward(lambda: masked(*usual), *usual),
        "attention": lambda: attend(*usual),
        "attention bool mask": lambda: attend(*usual, attn_mask=seen),
        "attention float mask": lambda: attend(*usual, attn_mask=added),
        "attention bool mask train": with_backward(lambda: attend(*usual, attn_mask=seen), *usual),
        "attention dropout": lambda: attend(*usual, dropout_p=0.1),
        "attention dropout train": with_backward(lambda: attend(*usual, dropout_p=0.1), *usual),
        "attention width 256": lambda: attend(*broad, is_causal=True),
        "attention width 256 train": with_backward(lambda: attend(*broad, is_causal=True), *broad),
        "attention one query of 8192": lambda: attend(query, *cache, enable_gqa=True),
    }


def optimizers(lib: Any) -> dict[str, Callable]:
    def step(kind: str, **options: Any) -> Callable:
        shapes = [(768, 768), (768,), (3072, 768), (3072,)] * 12
        parameters = [lib.randn(shape, device="cuda", requires_grad=True) for shape in shapes]
        for one in parameters:
            one.grad = lib.randn_like(one)
        return getattr(lib.optim, kind)(parameters, lr=1e-4, **options).step

    held = [lib.randn(768, 768, device="cuda") for _ in range(24)]
    for one in held:
        one.requires_grad_()
        one.grad = lib.randn_like(one)
    return {
        "AdamW fused": step("AdamW", fused=True),
        "AdamW foreach": step("AdamW", foreach=True),
        "AdamW": step("AdamW"),
        "SGD momentum": step("SGD", momentum=0.9),
        "Adam single": step("Adam", foreach=False),
        "RMSprop": step("RMSprop"),
        "clip_grad_norm": lambda: lib.nn.utils.clip_grad_norm_(held, 1e9),
        "foreach add": lambda: lib._foreach_add([h.detach() for h in held], 1.0),
        "foreach norm": lambda: lib._foreach_norm([h.detach() for h in held]),
    }


def recurrent(lib: Any) -> dict[str, Callable]:
    """Two layers of 512, batches of 64 sequences of 128."""
    found = {}
    for kind in ("LSTM", "GRU", "RNN"):
        for name, dtype in (("f32", lib.float32), ("f16", lib.float16), ("bf16", lib.bfloat16)):
            net = getattr(lib.nn, kind)(512, 512, 2).cuda().to(dtype)
            x = lib.randn(128, 64, 512, device="cuda", dtype=dtype).requires_grad_()
            parameters = (x, *net.parameters())
            found[f"{kind} {name} train"] = with_backward(lambda net=net, x=x: net(x)[0], *parameters)
            found[f"{kind} {name}"] = without_gradient(lib, lambda net=net, x=x: net(x))
    both = lib.nn.LSTM(512, 512, 2, bidirectional=True).cuda()
    dropped = lib.nn.LSTM(512, 512, 2, dropout=0.1).cuda()
    narrow = lib.nn.LSTM(512, 512, 2, proj_size=128).cuda()
    small, step = lib.nn.GRU(64, 64).cuda(), lib.randn(1, 1, 64, device="cuda")
    x = lib.randn(128, 64, 512, device="cuda").requires_grad_()
    rows = lib.nn.utils.rnn.pack_padded_sequence(x.detach(), [128 - k for k in range(64)])
    net = lib.nn.LSTM(512, 512, 2).cuda()
    for name, one in (("both ways", both), ("dropout", dropped), ("projected", narrow)):
        found[f"LSTM {name} train"] = with_backward(lambda one=one: one(x)[0], x, *one.parameters())
    found["LSTM packed train"] = with_backward(lambda: net(rows)[0].data, *net.parameters())
    found["GRU one step of 64"] = without_gradient(lib, lambda: small(step))
    return found


def sequences(lib: Any) -> dict[str, Callable]:
    """What is written one after the other: losses over alignments, rows that are alike, draws."""
    F = lib.nn.functional
    logits = lib.randn(256, 64, 128, device="cuda").requires_grad_()
    targets = lib.randint(1, 128, (64, 40), device="cuda")
    lengths = [lib.full((64,), n, dtype=lib.int64) for n in (256, 40)]
    rows = lib.randint(0, 4, (65536, 8), device="cuda")
    weights, many = lib.rand(1024, 1024, device="cuda"), lib.rand(65536, device="cuda")
    classes = lib.randint(0, 1000, (65536,), device="cuda")

    def ctc() -> Any:
        return F.ctc_loss(logits.log_softmax(-1), targets, *lengths)

    return {
        "ctc_loss train": with_backward(ctc, logits),
        "unique rows": lambda: rows.unique(dim=0),
        "multinomial 64 of rows": lambda: lib.multinomial(weights, 64, True),
        "multinomial 65536 of 65536": lambda: lib.multinomial(many, 65536, True),
        "one_hot 1000": lambda: F.one_hot(classes, 1000),
    }


def without_gradient(lib: Any, f: Callable) -> Callable:
    def run() -> None:
        with lib.no_grad():
            f()

    return run


def small_matrices(lib: Any) -> dict[str, Callable]:
    """Batches of small decompositions."""
    found = {}
    for size, count in ((16, 256), (32, 64), (4, 4096)):
        a = lib.randn(count, size, size, device="cuda")
        spd, b = a @ a.mT + size * lib.eye(size, device="cuda"), lib.randn(count, size, 8, device="cuda")
        lower, what = spd.tril(), f"{count} of {size}"
        found |= {
            f"inv {what}": lambda spd=spd: lib.linalg.inv(spd),
            f"solve {what}": lambda spd=spd, b=b: lib.linalg.solve(spd, b),
            f"lu_factor {what}": lambda spd=spd: lib.linalg.lu_factor(spd),
            f"cholesky {what}": lambda spd=spd: lib.linalg.cholesky(spd),
            f"triangular {what}": lambda lower=lower, b=b: lib.linalg.solve_triangular(lower, b, upper=False),
            f"det {what}": lambda spd=spd: lib.linalg.det(spd),
            f"qr {what}": lambda a=a: lib.linalg.qr(a),
        }
    large = lib.randn(32, 128, 128, device="cuda")
    return {**found, "qr 32 of 128": lambda: lib.linalg.qr(large)}


def chains(lib: Any) -> dict[str, Callable]:
    """Pointwise ops in one compiled function."""
    F = lib.nn.functional
    x, y = (lib.randn(16384, 4096, device="cuda", dtype=lib.bfloat16) for _ in range(2))
    seven = lib.compile(lambda x, y: (F.gelu(x) * y + 1.0).sigmoid() * x.tanh() - y)
    turned = lib.compile(lambda x: (x.view(16, 1024, 64, 64).permute(2, 0, 1, 3) * 2.0).contiguous())
    return {"compiled chain of 7": lambda: seven(x, y), "compiled permute": lambda: turned(x)}


GROUPS = (indexed, losses, norms, images, reductions, orders, algebra, narrow, attention, optimizers, recurrent,
          sequences, small_matrices, chains)


def main() -> None:
    import torch

    import rushlight

    words, rows = sys.argv[1:], []
    libraries = [rushlight, torch]
    for group in GROUPS:
        tables = [group(lib) for lib in libraries]
        for name in tables[0]:
            if words and not any(word in name or word == group.__name__ for word in words):
                continue
            try:
                functions = iter([table[name] for table in tables])
                ours, theirs = compared(libraries, lambda lib, functions=functions: next(functions))
                rows.append((theirs / ours, name, ours, theirs))
            except Exception as error:  # the others are worth having
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        del tables
        gc.collect()
        for lib in libraries:
            lib.cuda.empty_cache()
    print(f"{'':<32} {'rushlight':>12} {'torch':>12}  {'faster':>7}")
    for ratio, name, ours, theirs in sorted(rows):
        print(f"{name:<32} {ours:12.1f} {theirs:12.1f}  {ratio:7.2f}")


if __name__ == "__main__":
    main()
