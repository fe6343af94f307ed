"""Hundreds of ops of the everyday surface against PyTorch, one thread, both in one process by turns.

    python -m benchmarks.sweep                      every case, a few minutes
    python -m benchmarks.sweep sort 'rows.sum'      cases whose text contains one of these
    python -m benchmarks.sweep --below 1.0          print only the ratios below this
    python -m benchmarks.sweep --json times.json    also write the times
    python -m benchmarks.sweep --list               print the cases

A case is its own name: an expression over OPERANDS and the names `torch` and `F`. Times are of the processor, the
better half's median of alternating turns; ratios are PyTorch's time over ours, the worst first. To add a case, add it
to a line of CASES, or a method to a family.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.products import better_half

SAMPLE = 0.002                          # seconds of a sample, at least
# Of about a quarter of a million elements, unless the name says otherwise. Made for the cases that name them.
OPERANDS = {
    "x": "torch.randn(512, 512)", "y": "torch.randn(512, 512)", "x1": "torch.randn(262144)",
    "p": "torch.rand(512, 512) + 0.1", "unit": "torch.rand(512, 512) * 0.98 + 0.01",
    "turned": "torch.randn(512, 512).t()", "strided": "torch.randn(512, 1024)[:, ::2]",
    "cube": "torch.randn(64, 64, 64)", "rows": "torch.randn(32768, 8)", "threes": "torch.randn(65536, 3)",
    "column": "torch.randn(512, 1)", "row": "torch.randn(512)", "flags": "torch.randn(512, 512) > 0",
    "flags2": "torch.randn(512, 512) > 1", "d": "torch.randn(512, 512, dtype=torch.float64)",
    "h": "torch.randn(512, 512).half()", "b": "torch.randn(512, 512).bfloat16()",
    "i": "torch.randint(1, 1000, (512, 512))", "i2": "torch.randint(1, 60, (512, 512))",
    "j": "torch.randint(1, 1000, (512, 512), dtype=torch.int32)",
    "j2": "torch.randint(1, 30, (512, 512), dtype=torch.int32)",
    "s": "torch.randint(1, 100, (512, 512), dtype=torch.int16)",
    "bytes": "torch.randint(1, 100, (512, 512), dtype=torch.uint8)",
    "c": "torch.randn(512, 512, dtype=torch.complex64)", "c2": "torch.randn(512, 512, dtype=torch.complex64)",
    "z": "torch.randn(256, 256, dtype=torch.complex128)", "pairs": "torch.randn(512, 512, 2)",
    "picks": "torch.randint(0, 512, (512,))", "places": "torch.randint(0, 512, (512, 512))",
    "tokens": "torch.randint(0, 5000, (64, 128))", "table": "torch.randn(5000, 64)",
    "ascending": "torch.arange(262144.) / 262144", "few": "torch.randint(0, 50, (262144,))",
    "image": "torch.randn(8, 32, 32, 32)",
    "nhwc": "torch.randn(8, 32, 32, 32).contiguous(memory_format=torch.channels_last)",
    "signal": "torch.randn(8, 32, 1024)", "volume": "torch.randn(2, 16, 16, 16, 32)", "w32": "torch.randn(32)",
    "v32": "torch.rand(32) + 0.5", "labels": "torch.randint(0, 512, (512,))",
    "plane": "torch.randint(0, 32, (8, 32, 32))", "row2": "torch.rand(512)", "signs": "torch.randn(512, 512).sign()",
    "points": "torch.randn(512, 64)", "m": "torch.randn(128, 128)", "ms": "torch.randn(64, 16, 16)",
    "spd": "torch.eye(16) * 20 + torch.ones(64, 16, 16)", "spd1": "torch.eye(128) * 200 + torch.ones(128, 128)",
    "flow": "torch.rand(8, 32, 32, 2) * 2 - 1", "out": "torch.empty(512, 512)",
    "leaf": "torch.randn(512, 512, requires_grad=True)",
}

# Families: methods that run on each operand (or pair) before the colon.
UNARY = """
x: abs neg sign square exp expm1 exp2 sin cos tan sinh cosh tanh asinh atan sigmoid floor ceil round trunc frac sgn sinc
x: reciprocal relu isnan isfinite isinf isposinf signbit logical_not deg2rad rad2deg nan_to_num positive clone isreal
p: log log2 log10 log1p sqrt rsqrt
unit: asin acos atanh logit erf erfc erfinv lgamma digamma i0
d: abs neg exp log1p sin tanh sigmoid floor sqrt square erf reciprocal
h, b: abs neg exp sin tanh sigmoid sqrt square floor relu
i: abs neg sign square float sqrt bitwise_not sin
j, s, bytes: sign square float double long bool bitwise_not
flags: logical_not float long int bitwise_not nonzero
c: abs neg angle conj_physical exp log sin sqrt tanh square reciprocal sgn
z: abs exp sqrt angle
turned, strided: exp abs contiguous clone
"""
BINARY = """
x y: add sub mul div maximum minimum atan2 hypot fmod remainder pow copysign fmax fmin eq lt ge ne logical_and dist
x y: logaddexp logaddexp2 nextafter isclose equal allclose floor_divide
x column, x row, x turned, turned turned, strided strided, rows rows, s s, bytes bytes, x d, x h, i x: add mul maximum
d d: add mul div atan2 hypot pow
h h, b b: add mul div maximum
i i2: add mul div floor_divide remainder fmod gcd lcm maximum eq bitwise_and bitwise_xor pow
j j2: add mul div floor_divide remainder gcd maximum lt bitwise_or bitwise_left_shift
flags flags2: logical_and logical_or logical_xor bitwise_and eq
c c2, z z: add mul div eq
x 2, x 0.5: pow add mul div remainder lt
p 2.5, p -0.5: pow
i 3: remainder floor_divide add pow __rshift__
"""
FOLDS = """
x: sum mean amax max argmax argmin var std norm logsumexp prod all any nansum median count_nonzero aminmax nanmean
d, h, b: sum mean amax argmax norm var logsumexp
i, j: sum amax argmax prod
bytes, turned: sum amax
flags: sum any all
c: sum mean prod
"""
LAST = """
rows: sum mean amax max argmax var logsumexp prod median norm any count_nonzero cumsum cummax sort argsort
x: cumsum cumprod cummax cummin logcumsumexp sort argsort
i: cumsum cumprod sort argsort
h, d, j, bytes: cumsum sort
"""
FUNCTIONS = """
F x: relu gelu silu elu selu celu leaky_relu hardtanh hardswish hardsigmoid softplus mish logsigmoid softsign relu6
F x: tanhshrink softshrink hardshrink
F x unit: mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss soft_margin_loss
torch.special unit: entr erfcx i0e i1 i1e ndtr ndtri log_ndtr bessel_j0 bessel_j1 spherical_bessel_j0 airy_ai
torch.special p unit: xlog1py zeta
"""

# Statements, parted by semicolons.
CASES = """
F.softmax(x, 1); F.softmax(x, 0); F.log_softmax(x, 1); F.softmax(cube, 1); F.softmax(rows, 1); F.log_softmax(rows, 1)
F.softmin(x, 1); F.softmax(h, 1); F.gelu(x, approximate='tanh'); F.glu(x); F.prelu(x, row2); F.rrelu(x)
F.threshold(x, 0.1, 2.0); F.dropout(x); F.normalize(x); F.normalize(rows); x.where(flags, y); torch.where(flags, x, 0.0)
x.clamp(-1, 1); x.clamp_min(0); x.clamp(y - 1, y); x.lerp(y, 0.3); torch.lerp(x, y, unit); x.addcmul(x, y)
x.addcdiv(x, p); x.masked_fill(flags, 0.0); torch.heaviside(x, y); x.xlogy(p); x.ldexp(j2); x.frexp(); torch.polar(p, x)
torch.complex(x, y); torch.view_as_real(c) + 1; x.float_power(2); x.relu_(); out.copy_(x); out.fill_(1.0); out.zero_()
torch.add(x, y, out=out); x.to(torch.float64); x.half(); x.bfloat16(); x.int(); x.long(); x.bool(); h.float(); b.float()
d.float(); x.to(torch.uint8); c.real.clone(); c.conj() * c2; c.abs().square(); torch.view_as_complex(pairs).abs()
torch.bucketize(x, row2.sort()[0]); cube.sum(1); cube.mean((0, 2)); cube.var(1); cube.argmax(1); cube.logsumexp(1)
cube.amax(1); cube.norm(dim=1); cube.prod(1); cube.std((0, 1)); cube.max(1); cube.any(1); cube.median(1); cube.cumsum(1)
cube.cummax(1); cube.sort(1); cube.flip(1); cube.kthvalue(5, 1); cube.topk(4, 1); cube.softmax(0); cube.nanmedian(-1)
threes.sum(1); threes.amax(1); threes.norm(dim=1); threes.argmax(1); threes.mean(1); threes.max(1); threes.cumsum(1)
threes.sum(0); threes.sort(1); torch.linalg.vector_norm(x, 3, 1); torch.linalg.vector_norm(x, float('inf'), 0)
x.norm(1); x.renorm(2, 0, 1.0); x.quantile(0.3, 1); x.nanquantile(0.3, 1); x.mode(1); x.topk(10); x.topk(10, 0)
x.kthvalue(17); i.topk(5); x1.sort(); x1.topk(100); x1.argsort(); x1.median(); few.sort(); few.mode(); few.unique()
few.unique(return_inverse=True); few.unique(return_counts=True); few.bincount(); x1.histc(100); x1.histogram(50)
x1.unique(); few.unique_consecutive(); torch.searchsorted(ascending, x1); torch.bucketize(x1, ascending)
torch.isin(few, few[:20]); x1.cov(); x.cov(); x.corrcoef(); x.diff(); x.diff(dim=0); torch.gradient(x)
torch.trapezoid(x); torch.cumulative_trapezoid(x); x1.cumsum(0); x1.cumprod(0); x.cumsum(0); x.logcumsumexp(0); x[picks]
x[:, picks]; x[picks, picks]; x[flags]; x[places, places]; x.index_select(0, picks); x.index_select(1, picks)
x.gather(1, places); x.gather(0, places); x.take(places); x.take_along_dim(places, 1); x.masked_select(flags)
x.scatter(1, places, y); x.scatter(1, places, 1.0); x.scatter_add(1, places, y); x.scatter_add(0, places, y)
x.scatter_reduce(1, places, y, 'amax'); x.index_add(0, picks, y); x.index_add(1, picks, y); x.index_copy(0, picks, y)
x.index_fill(0, picks, 1.0); x.index_put((picks,), y); x.index_put((picks, picks), row, accumulate=True)
x.masked_scatter(flags, y); x.put(places, y); h[picks]; i[picks]; x[flags].sum(); x[::2, 1::3] + 1; rows[picks]
out.__setitem__(flags, 0.0); out.__setitem__(picks, y); out.__setitem__((slice(None), 3), row)
out.__setitem__(slice(2, 90), 1.0); x.argwhere(); flags2.argwhere(); F.embedding(tokens, table)
F.embedding_bag(tokens, table); F.one_hot(labels, 512); F.one_hot(few, 50); x.diagonal().clone(); x.diag(); row.diag()
torch.diag_embed(points); torch.cat((x, y)); torch.cat((x, y), 1); torch.cat((h, h), 1); torch.cat((rows, rows), 1)
torch.cat([row] * 100); torch.stack((x, y)); torch.stack((x, y), 1); torch.stack((x, y), 2); torch.hstack((x, y))
torch.dstack((x, y)); x.repeat(2, 2); x.tile(3); row.expand(512, 512).contiguous(); x.repeat_interleave(2, 1)
x.repeat_interleave(2, 0); x.roll(3, 1); x.roll(5, 0); x.roll(1); x.flip(0); x.flip(1); x.fliplr(); x.rot90(); x.tril()
x.triu(1); cube.permute(2, 0, 1).contiguous(); cube.transpose(1, 2).contiguous(); cube.permute(1, 0, 2).clone()
image.contiguous(memory_format=torch.channels_last); nhwc.contiguous(); image.permute(0, 2, 3, 1).reshape(-1)
h.t().contiguous(); d.t().contiguous(); bytes.t().contiguous(); c.t().contiguous(); x.unfold(1, 8, 4).contiguous()
torch.block_diag(x, y); torch.meshgrid(row, row, indexing='ij')[0].clone(); torch.cartesian_prod(row, row2)
torch.combinations(row); x.split(64, 1)[3].contiguous(); x.unflatten(1, (8, 64)).transpose(1, 2).reshape(512, 512)
torch.broadcast_to(column, (512, 512)).clone(); F.pad(x, (3, 3)); F.pad(image, (1, 1, 1, 1))
F.pad(image, (1, 1, 1, 1), 'reflect'); F.pad(image, (2, 2, 2, 2), 'replicate'); F.pad(signal, (2, 2), 'circular')
F.pixel_shuffle(image, 2); F.pixel_unshuffle(image, 2); F.channel_shuffle(image, 4); F.unfold(image, 3)
F.fold(F.unfold(image, 3), (32, 32), 3); x.as_strided((256, 256), (1024, 2)).clone(); torch.vander(row, 64)
F.layer_norm(x, (512,)); F.layer_norm(x, (512,), row, row2); F.layer_norm(rows, (8,)); F.rms_norm(x, (512,))
F.batch_norm(image, w32, v32); F.batch_norm(nhwc, w32, v32); F.batch_norm(image, None, None, w32, v32, training=True)
F.batch_norm(nhwc, None, None, w32, v32, training=True); F.group_norm(image, 8, w32, v32); F.group_norm(nhwc, 8)
F.instance_norm(image); F.instance_norm(nhwc); F.local_response_norm(image, 5)
F.batch_norm(x, None, None, training=True); F.layer_norm(h, (512,)); F.layer_norm(b, (512,)); F.max_pool2d(image, 2)
F.max_pool2d(nhwc, 2); F.max_pool2d(image, 3, 2, 1); F.max_pool2d(image, 2, return_indices=True); F.avg_pool2d(image, 2)
F.avg_pool2d(nhwc, 2); F.avg_pool2d(image, 3, 1, 1); F.max_pool1d(signal, 2); F.avg_pool1d(signal, 3)
F.max_pool3d(volume, 2); F.avg_pool3d(volume, 2); F.adaptive_avg_pool2d(image, 1); F.adaptive_avg_pool2d(image, 7)
F.adaptive_max_pool2d(image, 4); F.adaptive_avg_pool2d(nhwc, 1); F.adaptive_avg_pool1d(signal, 16)
F.lp_pool2d(image, 2, 2); F.fractional_max_pool2d(image, 2, output_size=16); F.interpolate(image, scale_factor=2)
F.interpolate(image, scale_factor=2, mode='bilinear'); F.interpolate(nhwc, scale_factor=2, mode='bilinear')
F.interpolate(image, size=16, mode='area'); F.interpolate(image, scale_factor=2, mode='bicubic')
F.interpolate(signal, scale_factor=2, mode='linear')
F.interpolate(image, scale_factor=0.5, mode='bilinear', antialias=True); F.grid_sample(image, flow, align_corners=False)
F.grid_sample(image, flow, 'nearest', align_corners=False)
F.affine_grid(torch.eye(2, 3).repeat(8, 1, 1), (8, 3, 64, 64), align_corners=False); torch.cdist(points, points)
torch.pdist(points); torch.cdist(points, points, 1.0); F.cosine_similarity(x, y); F.cosine_similarity(rows, rows)
F.pairwise_distance(x, y); F.cross_entropy(x, labels); F.cross_entropy(image, plane); F.cross_entropy(x, unit)
F.cross_entropy(x, labels, label_smoothing=0.1); F.nll_loss(x, labels); F.nll_loss(image, plane)
F.binary_cross_entropy(unit, p / 1.2); F.binary_cross_entropy_with_logits(x, unit); F.hinge_embedding_loss(x, signs)
F.margin_ranking_loss(x, y, signs); F.triplet_margin_loss(x, y, p)
F.cosine_embedding_loss(points, points, torch.ones(512)); F.gaussian_nll_loss(x, y, p); F.multi_margin_loss(x, labels)
F.mse_loss(x, y, reduction='none'); F.cross_entropy(h, labels); F.cross_entropy(x, labels, reduction='none'); m @ m
ms @ ms; x.mv(row); x.t() @ row; row.dot(row2); row.outer(row2); torch.einsum('bij,bjk->bik', ms, ms)
torch.einsum('ij,ij->i', x, y); torch.baddbmm(ms, ms, ms); torch.kron(ms[0], m); torch.cross(threes, threes, dim=1)
torch.linalg.inv(ms); torch.linalg.solve(spd, ms); torch.linalg.cholesky(spd); torch.linalg.qr(ms); torch.linalg.svd(ms)
torch.linalg.eigh(spd); torch.linalg.det(ms); torch.linalg.cholesky(spd1); torch.linalg.inv(spd1)
torch.linalg.solve(spd1, m); torch.linalg.qr(m); torch.linalg.svdvals(m); torch.linalg.eigh(spd1); torch.linalg.det(m)
torch.linalg.matrix_exp(ms); torch.linalg.matrix_power(m, 5); torch.linalg.lstsq(ms, ms); torch.linalg.pinv(ms)
torch.trace(x); torch.tensordot(cube, cube[0], 1); torch.linalg.multi_dot((m, m, m)); torch.addr(x, row, row2); i @ i2
torch.zeros(512, 512); torch.ones(512, 512); torch.full((512, 512), 3); torch.empty(512, 512); torch.arange(262144)
torch.arange(0, 1, 1e-5); torch.linspace(0, 1, 262144); torch.logspace(0, 1, 262144); torch.eye(512)
torch.zeros_like(x); torch.ones_like(h); torch.full_like(x, 2.0); torch.tril_indices(512, 512); torch.hann_window(65536)
torch.hamming_window(65536); torch.kaiser_window(65536); torch.tensor(list(range(1000))); torch.rand(512, 512)
torch.randn(512, 512); torch.randint(0, 10, (512, 512)); torch.randperm(100000); torch.bernoulli(unit); out.uniform_()
out.normal_(); out.exponential_(); out.log_normal_(); out.cauchy_(); out.geometric_(0.3); out.bernoulli_(0.3)
torch.poisson(p); torch.normal(x, p); torch.multinomial(unit, 8); torch.multinomial(row2, 1000, replacement=True)
out.random_(); torch.rand(512, 512, dtype=torch.float64); torch.randn(512, 512, dtype=torch.float16); torch.rand_like(b)
torch.distributions.Gamma(p, p).sample(); torch.fft.fft(c); torch.fft.rfft(x); torch.fft.ifft(c); torch.fft.fft2(x)
torch.fft.fftshift(x); torch.fft.irfft(c); torch.stft(x1, 512, window=row, return_complex=True); torch.fft.fft(x, dim=0)
leaf.exp().sum().backward(); (leaf * x).sum().backward(); leaf.sigmoid().mean().backward()
F.softmax(leaf, 1).sum().backward(); leaf.cumsum(1).sum().backward(); leaf.amax(1).sum().backward()
leaf.sort(1)[0].sum().backward(); leaf[picks].sum().backward(); leaf.gather(1, places).sum().backward()
leaf.norm().backward(); leaf.var(1).sum().backward(); F.gelu(leaf).sum().backward(); leaf.prod(1).sum().backward()
leaf.max(1)[0].sum().backward(); F.layer_norm(leaf, (512,)).sum().backward(); torch.cat((leaf, x), 1).sum().backward()
leaf.roll(3, 1).sum().backward(); leaf.logsumexp(1).sum().backward(); x.allclose(x); row.tolist(); x.sum().item()
bool(x.isnan().any()); torch.vmap(torch.dot)(x, y); torch.bitwise_left_shift(j, 2); i.bitwise_and(7); j.bitwise_not()
bytes.bitwise_xor(3); torch.addmm(m, m, m); x.heaviside(y); torch.count_nonzero(flags, 1); x.nan_to_num(0.0, 1.0, -1.0)
torch.clamp(i, 5, 500); torch.clamp(h, -1, 1); torch.where(flags, i, 0); torch.where(flags, h, h)
torch._foreach_add([x, y], 1.0); torch._foreach_mul([x, y], [x, y]); torch.nn.utils.parameters_to_vector([x, y])
"""


def members(family: str) -> Iterator[tuple[str, str, str]]:
    """First operand, the others, the method's name."""
    for line in family.strip().splitlines():
        operands, methods = line.split(": ")
        for first, _, others in (given.partition(" ") for given in operands.split(", ")):
            yield from ((first, others, method) for method in methods.split())


def cases() -> list[str]:
    found = [f"{first}.{method}({second})" for first, second, method in (*members(UNARY), *members(BINARY))]
    for first, _, method in members(FOLDS):
        named = "dim=" if method in ("norm", "aminmax") else ""
        found += [f"{first}.{method}({at})" for at in ("", f"{named}1", f"{named}0")[method == "logsumexp" :]]
    found += [f"{first}.{method}({'dim=' if method == 'norm' else ''}1)" for first, _, method in members(LAST)]
    found += [f"{module}.{method}({', '.join(given.split())})" for module, given, method in members(FUNCTIONS)]
    found += [case.strip() for line in CASES.strip().splitlines() for case in line.split(";")]
    return list(dict.fromkeys(found))


def operands_of(case: str, library: object, made: dict) -> dict:
    """The names of a case, of one library. Same seeds, same numbers in both."""
    for name in set(re.findall(r"\b[a-z]\w*\b", case)) & OPERANDS.keys() - made.keys():
        library.manual_seed(zlib.crc32(name.encode()))
        made[name] = eval(OPERANDS[name], made)
    return made


def timed(code: object, names: dict) -> Callable[[], float]:
    """Seconds of a call by the clock of the processor, over as many as a sample takes."""
    for _ in range(2):                  # the first call may compile, the second plan for any shape
        exec(code, {**names, "count": 1})
    start = time.thread_time()
    exec(code, {**names, "count": 1})
    names = {**names, "count": max(1, round(SAMPLE / max(time.thread_time() - start, 1e-7)))}

    def sample() -> float:
        start = time.thread_time()
        exec(code, names)
        return (time.thread_time() - start) / names["count"]

    return sample


def measure(case: str, spaces: dict[str, dict], rounds: int) -> tuple[float, float]:
    """Seconds of a call: PyTorch's, ours."""
    code = compile(f"for _ in range(count): {case}", "<case>", "exec")
    samples = [timed(code, operands_of(case, space["torch"], space)) for space in spaces.values()]
    times: list[list[float]] = [[] for _ in samples]
    for turn in range(rounds):
        for k in (0, 1) if turn % 2 else (1, 0):
            times[k].append(samples[k]())
    return better_half(times[0]), better_half(times[1])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description="Ops of the everyday surface.")
    parser.add_argument("pattern", nargs="*", default=[""])
    parser.add_argument("--below", type=float, default=float("inf"), help="print the ratios below this")
    parser.add_argument("--json", help="a file for the times")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--list", action="store_true", help="print the cases")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if any(part in case for part in options.pattern)]
    if options.list:
        print("\n".join(chosen))
        return
    import torch

    import rushlight

    spaces = {library.__name__: {"torch": library, "F": library.nn.functional} for library in (torch, rushlight)}
    for space in spaces.values():
        space["torch"].set_num_threads(1)
    found, failed = [], []
    for case in chosen:
        try:
            theirs, ours = measure(case, spaces, options.rounds)
            found.append((theirs / ours, theirs, ours, case))
        except Exception as error:      # one side lacks it: the rest is still worth knowing
            failed.append(f"failed {case}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        gc.collect()
    lines = [f"{ratio:6.2f} {theirs * 1e6:10.1f}u {ours * 1e6:10.1f}u  {case}"
             for ratio, theirs, ours, case in sorted(found) if ratio < options.below]
    print("\n".join(lines + failed))
    ratios = [row[0] for row in found]
    mean = statistics.geometric_mean(ratios) if ratios else float("nan")
    print(f"{len(ratios)} cases, geometric mean {mean:.2f}, {sum(ratio < 1 for ratio in ratios)} below 1")
    if options.json:
        columns = ("ratio", "torch", "rushlight", "case")
        Path(options.json).write_text(json.dumps([dict(zip(columns, row)) for row in sorted(found)], indent=1))


if __name__ == "__main__":
    main()
