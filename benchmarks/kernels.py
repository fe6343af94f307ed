"""Kernels: convolution, pooling, normalisation, attention, sorting, scans, gathers and random numbers, float32.

Every case is the same source on both libraries; groups carry the bars. A step is a forward and a backward pass.
"""

from __future__ import annotations

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

SETUP = """
torch.manual_seed(0)
F = torch.nn.functional
"""


def step(name: str, setup: str, call: str, clear: str) -> Case:
    """A forward and a backward pass; `clear` names the tensors whose gradients are dropped."""
    forget = "\n".join(f"{tensor}.grad = None" for tensor in clear.split())
    return Case(name, f"{call}.backward(g)\n{forget}", SETUP + setup)


RANDOM = Group("random", "Random numbers, 16M, PyTorch's exact stream", (
    Case("randn", "torch.randn(16777216)", SETUP),
    Case("bernoulli", "torch.bernoulli(p)", SETUP + "p = torch.full((16777216,), 0.5)"),
    Case("dropout", "F.dropout(x, 0.1)", SETUP + "x = torch.randn(16777216)"),
), worst_bar=1.0)

HEADS = """
q, k, v = (torch.randn(4, 8, 512, 64, requires_grad=True) for _ in range(3))
g = torch.randn(4, 8, 512, 64)
"""

ATTENTION = Group("attention", "scaled_dot_product_attention, batch 4, 8 heads, 512 positions, 64 wide", (
    step("causal forward+backward", HEADS, "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "q k v"),
), worst_bar=1.0)

SHORT = Group(
    "attention_short",
    "scaled_dot_product_attention forward, batch 1, 4 heads, 64 wide",
    tuple(
        Case(
            f"{length} positions",
            "F.scaled_dot_product_attention(x, x, x)",
            SETUP + f"x = torch.randn(1, 4, {length}, 64)",
        )
        for length in (32, 128)
    ),
)

IMAGES = """
x = torch.randn({n}, 64, 56, 56, requires_grad=True)
w, b = torch.ones(64, requires_grad=True), torch.zeros(64, requires_grad=True)
mean, var = torch.zeros(64), torch.ones(64)
g = torch.randn({n}, 64, 56, 56)
"""

TABLE = """
table = torch.randn(50000, 256, requires_grad=True)
tokens = torch.randint(0, 50000, (8192,))
g = torch.randn(8192, 256)
"""

SCORES = """
x = torch.randn(8192, 32000, requires_grad=True)
target = torch.randint(0, 32000, (8192,))
g = torch.ones(())
"""

NORMS = Group(
    "norms",
    "Normalisation, embedding and cross entropy, forward and backward",
    (
        *(
            step(f"batch_norm [{n}, 64, 56, 56]", IMAGES.format(n=n), "F.batch_norm(x, mean, var, w, b, True)", "x w b")
            for n in (8, 32)
        ),
        *(
            step(f"group_norm [{n}, 64, 56, 56]", IMAGES.format(n=n), "F.group_norm(x, 8, w, b)", "x w b")
            for n in (8, 32)
        ),
        step("instance_norm [8, 64, 56, 56]", IMAGES.format(n=8), "F.instance_norm(x, None, None, w, b)", "x w b"),
        step("embedding 50000x256, 8192 tokens", TABLE, "F.embedding(tokens, table)", "table"),
        step("cross_entropy [8192, 32000]", SCORES, "F.cross_entropy(x, target)", "x"),
    ),
    worst_bar=1.0,
)

LAYER = """
x = torch.randn({n}, {c}, {size}, {size}, requires_grad=True)
w = torch.randn({o}, {c} // {groups}, {k}, {k}, requires_grad=True)
b = torch.randn({o}, requires_grad=True)
conv = lambda: F.conv2d(x, w, b, {s}, {k} // 2, 1, {groups})
g = torch.randn_like(conv())
x_, w_, b_ = x.detach(), w.detach(), b.detach()
"""


def conv(name: str, n: int, c: int, size: int, o: int, k: int, s: int = 1, groups: int = 1) -> tuple[Case, Case]:
    """A convolution with bias: its forward pass on plain tensors, and a step with all gradients."""
    setup = LAYER.format(n=n, c=c, size=size, o=o, k=k, s=s, groups=groups)
    forward = Case(f"{name}, forward", f"F.conv2d(x_, w_, b_, {s}, {k} // 2, 1, {groups})", SETUP + setup)
    return forward, step(f"{name}, forward+backward", setup, "conv()", "x w b")


CONVOLUTION = Group("convolution", "conv2d", (
    *conv("3x3, 64 channels, 56x56, batch 8", 8, 64, 56, 64, 3),
    *conv("7x7 stride 2 stem, 224x224, batch 8", 8, 3, 224, 64, 7, 2),
    *conv("depthwise 3x3, 128 channels, 56x56, batch 8", 8, 128, 56, 128, 3, 1, 128),
    *conv("1x1, 64 to 256 channels, 56x56, batch 8", 8, 64, 56, 256, 1),
), mean_bar=1.0, worst_bar=0.9)

RESIDUAL = Group("residual", "conv2d of a small residual network, batch 32", (
    *conv("3x3, 64 channels, 32x32", 32, 64, 32, 64, 3),
    *conv("3x3, 128 channels, 16x16", 32, 128, 16, 128, 3),
    *conv("3x3, 256 channels, 8x8", 32, 256, 8, 256, 3),
    *conv("3x3, 512 channels, 4x4", 32, 512, 4, 512, 3),
    *conv("3x3 stride 2, 64 to 128 channels, 32x32", 32, 64, 32, 128, 3, 2),
    *conv("1x1 stride 2, 64 to 128 channels, 32x32", 32, 64, 32, 128, 1, 2),
))

LINE, SQUARE = "x = torch.randn({n})", "x = torch.randn({n}, {n})"
PLACES = SQUARE.format(n=2048) + "\ni = torch.randint(0, 2048, (2048, 2048))"
WHERE = LINE.format(n=1000000) + "\ni = torch.randint(0, 1000000, ({n},))"

ORDER = Group(
    "order",
    "Sorting, scans, gathers and copies of 1M to 16M floats",
    (
        Case("sort 1M", "torch.sort(x)", SETUP + LINE.format(n=1000000)),
        Case("sort 4M", "torch.sort(x)", SETUP + LINE.format(n=4000000)),
        Case("sort 1000x1000", "torch.sort(x)", SETUP + SQUARE.format(n=1000)),
        Case("sort int64 1M", "torch.sort(x)", SETUP + "x = torch.randint(0, 1000000, (1000000,))"),
        Case("topk 100 of 1M", "torch.topk(x, 100)", SETUP + LINE.format(n=1000000)),
        Case("topk 10 of 1000, 1000 rows", "torch.topk(x, 10)", SETUP + SQUARE.format(n=1000)),
        Case("cumsum 4M", "torch.cumsum(x, 0)", SETUP + LINE.format(n=4000000)),
        Case("cumsum 2048x2048 dim 1", "torch.cumsum(x, 1)", SETUP + SQUARE.format(n=2048)),
        Case("cumsum 2048x2048 dim 0", "torch.cumsum(x, 0)", SETUP + SQUARE.format(n=2048)),
        Case("cummax 1024x1024 dim 1", "torch.cummax(x, 1)", SETUP + SQUARE.format(n=1024)),
        Case("logcumsumexp 1024x1024 dim 1", "torch.logcumsumexp(x, 1)", SETUP + SQUARE.format(n=1024)),
        Case("median 1M", "torch.median(x)", SETUP + LINE.format(n=1000000)),
        Case("median 1000x1000 dim 1", "torch.median(x, 1)", SETUP + SQUARE.format(n=1000)),
        Case("kthvalue 1M", "torch.kthvalue(x, 250000)", SETUP + LINE.format(n=1000000)),
        Case("unique_consecutive 1M", "torch.unique_consecutive(x)", SETUP + "x = torch.randint(0, 3, (1000000,))"),
        Case("sum of every second of 4M", "x.sum()", SETUP + "x = torch.randn(4000000)[::2]"),
        Case("sum of every second column", "x.sum(1)", SETUP + "x = torch.randn(2048, 2048)[:, ::2]"),
        Case("add out= 16M", "torch.add(x, x, out=z)", SETUP + "x, z = torch.randn(16777216), torch.empty(16777216)"),
        Case("gather 2048x2048 dim 1", "torch.gather(x, 1, i)", SETUP + PLACES),
        Case("gather 2048x2048 dim 0", "torch.gather(x, 0, i)", SETUP + PLACES),
        Case("scatter_add 1M", "torch.scatter_add(x, 0, i, x)", SETUP + WHERE.format(n=1000000)),
        Case("scatter_add 2048x2048 dim 1", "torch.scatter_add(x, 1, i, x)", SETUP + PLACES),
        Case(
            "scatter_add rows 16384x256 into 4096",
            "torch.scatter_add(z, 0, i, x)",
            SETUP
            + "x, z = torch.randn(16384, 256), torch.zeros(4096, 256)\ni = torch.randint(0, 4096, (16384,"
            " 1)).expand(16384, 256)",
        ),
        *(
            Case(
                f"{name} rows 16384x256 into 4096",
                f"torch.{name}(z, 0, i, x)",
                SETUP + "x, z, i = torch.randn(16384, 256), torch.zeros(4096, 256), torch.randint(0, 4096, (16384,))",
            )
            for name in ("index_add", "index_copy")
        ),
        Case("index_select 4M of 1M", "torch.index_select(x, 0, i)", SETUP + WHERE.format(n=4000000)),
        Case(
            "index_select rows of 64",
            "torch.index_select(x, 0, i)",
            SETUP + "x, i = torch.randn(50000, 64), torch.randint(0, 50000, (50000,))",
        ),
        Case(
            "index_select columns 2048x2048",
            "torch.index_select(x, 1, i)",
            SETUP + SQUARE.format(n=2048) + "\ni = torch.randint(0, 2048, (2048,))",
        ),
        Case("transpose copy 4096x4096", "x.t().contiguous()", SETUP + SQUARE.format(n=4096)),
        Case("cat 4 of 1M", "torch.cat(x)", SETUP + "x = [torch.randn(1000000) for _ in range(4)]"),
        Case("cat 4 of 2048x512 dim 1", "torch.cat(x, 1)", SETUP + "x = [torch.randn(2048, 512) for _ in range(4)]"),
    ),
    mean_bar=1.2,
    worst_bar=0.9,
)


def spectra() -> tuple[Case, ...]:
    """Lengths of small factors, primes and powers of two; many rows, few long ones, and images."""
    result = []
    for n, count in (
        (100, 4096),
        (240, 1024),
        (625, 256),
        (1000, 256),
        (1024, 256),
        (1536, 256),
        (1009, 128),
        (10007, 16),
        (15000, 16),
        (100000, 4),
    ):
        for kind, call in (("complex64", "fft"), ("complex128", "fft"), ("float32", "rfft"), ("float64", "rfft")):
            result.append(
                Case(
                    f"{call} {kind} {count}x{n}",
                    f"torch.fft.{call}(x)",
                    SETUP + f"x = torch.randn({count}, {n}, dtype=torch.{kind})",
                )
            )
    for n in (199, 251, 257, 263, 307, 311, 347, 383, 401, 509):    # primes, of which some are behind smooth numbers
        for kind in ("complex64", "complex128"):
            setup = SETUP + f"x = torch.randn(64, {n}, dtype=torch.{kind})"
            result.append(Case(f"fft {kind} 64x{n}", "torch.fft.fft(x)", setup))
    for n, count in ((1001, 1), (9999, 1), (10001, 16), (17017, 4), (99999, 1)):   # odd ones, with large primes
        for dtype in ("float32", "float64"):
            setup = SETUP + f"x = torch.randn({count}, {n}, dtype=torch.{dtype})\nX = torch.fft.rfft(x)"
            result.append(Case(f"rfft {dtype} {count}x{n}", "torch.fft.rfft(x)", setup))
            result.append(Case(f"irfft {dtype} {count}x{n}", f"torch.fft.irfft(X, {n})", setup))
    for shape in ("4, 480, 640", "1000, 1000", "64, 100, 100"):
        result.append(
            Case(f"fft2 [{shape}]", "torch.fft.fft2(x)", SETUP + f"x = torch.randn({shape}, dtype=torch.complex64)")
        )
        result.append(Case(f"rfft2 [{shape}]", "torch.fft.rfft2(x)", SETUP + f"x = torch.randn({shape})"))
    return tuple(result)


SPECTRA = Group("spectra", "Fourier transforms of lengths that are mostly no power of two", spectra(), worst_bar=1.0)

SYSTEMS = """
A = torch.randn({shape}) + {n} * torch.eye({n})
H = A @ A.mT
B = torch.randn({shape})
"""

LINALG = Group(
    "linalg",
    "Linear algebra on one matrix of 4, one of 512, and 1000 of 4",
    tuple(
        Case(f"{call.split('(')[0]} [{shape}]", f"torch.linalg.{call}", SETUP + SYSTEMS.format(shape=shape, n=n))
        for shape, n in (("4, 4", 4), ("512, 512", 512), ("1000, 4, 4", 4))
        for call in (
            "inv(A)",
            "solve(A, B)",
            "cholesky(H)",
            "det(A)",
            "lu(A)",
            "qr(A)",
            "svd(A)",
            "eigh(H)",
            "solve_triangular(H, B, upper=False)",
        )
    ),
    worst_bar=1.0,
)

PICTURES = """
x = torch.randn({shape}, requires_grad=True)
{layout}
call = lambda: {call}
g = torch.randn_like(call().detach())
"""
LAST = "x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()"


def picture(name: str, call: str, shape: str = "8, 64, 112, 112", layout: str = "") -> Case:
    """A step of a function of images `x`."""
    return step(name, PICTURES.format(shape=shape, call=call, layout=layout), "call()", "x")


POOLING = Group("pooling", "Pools over [8, 64, 112, 112], forward and backward", (
    picture("max_pool2d 3x3 stride 2", "F.max_pool2d(x, 3, 2, 1)"),
    picture("max_pool2d 2x2", "F.max_pool2d(x, 2)"),
    picture("max_pool2d 3x3 stride 2, channels last", "F.max_pool2d(x, 3, 2, 1)", layout=LAST),
    picture("max_pool2d 2x2, channels last", "F.max_pool2d(x, 2)", layout=LAST),
    picture("avg_pool2d 3x3 stride 2", "F.avg_pool2d(x, 3, 2, 1)"),
    picture("avg_pool2d 2x2", "F.avg_pool2d(x, 2)"),
    picture("avg_pool2d 3x3 stride 2, channels last", "F.avg_pool2d(x, 3, 2, 1)", layout=LAST),
    picture("avg_pool2d 2x2, channels last", "F.avg_pool2d(x, 2)", layout=LAST),
    picture("adaptive_avg_pool2d to 7x7", "F.adaptive_avg_pool2d(x, 7)"),
    picture("adaptive_avg_pool2d to 1x1, 7x7 images", "F.adaptive_avg_pool2d(x, 1)", "64, 512, 7, 7"),
), worst_bar=1.0)

GRID = "\nangle = torch.eye(2, 3).repeat(8, 1, 1) + 0.1\ngrid = F.affine_grid(angle, (8, 1, 128, 128), False)"

RESAMPLING = Group("resampling", "Interpolation, grids, padding and columns of images, forward and backward", (
    *(picture(f"interpolate {mode} to 112x112", f"F.interpolate(x, (112, 112), mode='{mode}')", "8, 32, 56, 56")
      for mode in ("nearest", "bilinear", "bicubic", "area")),
    *(picture(f"interpolate {mode} to 56x56, antialias", f"F.interpolate(x, (56, 56), mode='{mode}', antialias=True)",
              "8, 32, 112, 112")
      for mode in ("bilinear", "bicubic")),
    picture("interpolate bilinear to 224x224, channels last", "F.interpolate(x, (224, 224), mode='bilinear')",
            "8, 3, 256, 256", LAST),
    *(picture(f"grid_sample {mode}", f"F.grid_sample(x, grid, '{mode}', align_corners=False)", "8, 16, 128, 128", GRID)
      for mode in ("bilinear", "nearest", "bicubic")),
    *(picture(f"pad {mode}", f"F.pad(x, (1, 1, 1, 1), '{mode}')") for mode in ("constant", "reflect", "replicate",
        "circular")),
    picture("unfold 3x3", "F.unfold(x, 3, padding=1)", "8, 64, 56, 56"),
    picture("pixel_shuffle 2", "F.pixel_shuffle(x, 2)", "8, 64, 56, 56"),
))

GROUPS = (CONVOLUTION, RESIDUAL, POOLING, RESAMPLING, RANDOM, ATTENTION, SHORT, NORMS, ORDER, SPECTRA, LINALG)


def run(session: Session) -> list[Section]:
    return [session.compare(group) for group in GROUPS]
