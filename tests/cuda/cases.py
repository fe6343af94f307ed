"""Ops that a CUDA device must compute as the CPU does."""

from __future__ import annotations

import rushlight as rl

F = rl.nn.functional


def idx(*values):
    return rl.tensor(values)


# name -> function of (x [37, 129], y [37, 129], other device's helper `on`);
# gradients of float results are compared as well.
def combined(x, y, on, how, dtype):
    """Where many elements meet in one: seven columns of each row."""
    index = on((rl.arange(37 * 129) * 31 % 7).reshape(37, 129))
    return (x * 4).to(dtype).scatter_reduce(1, index, (y * 0.5 if how == "prod" else y * 4).to(dtype), how).double()


def of_many_rows(x, y, name):
    found = getattr(rl, name)(rl.cat([x[:, :40], y[:, :40]] * 40).tanh(), 1)
    return found.values + found.indices if isinstance(found, tuple) else found


CASES = {
    "add": lambda x, y, on: x + y, "scalars": lambda x, y, on: x * 2.5 - 1, "rsub": lambda x, y, on: 3 - x,
    "broadcast": lambda x, y, on: x + y[0], "broadcast rows": lambda x, y, on: x * y[:, :1],
    "transposed": lambda x, y, on: x.t() * y.t(), "mixed layouts": lambda x, y, on: x[:, :37] + y[:, :37].t(),
    "odd slices": lambda x, y, on: x[1:, 3::2] - y[:-1, 3::2],
    "flat 3-d": lambda x, y, on: x.reshape(37, 43, 3).permute(2, 0, 1) + 1, "exp": lambda x, y, on: x.exp(),
    "log": lambda x, y, on: (x.abs() + 0.1).log(), "tanh": lambda x, y, on: x.tanh(),
    "sigmoid": lambda x, y, on: x.sigmoid(),
    "gelu": lambda x, y, on: F.gelu(x), "gelu tanh": lambda x, y, on: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y, on: F.silu(x), "relu": lambda x, y, on: x.relu(), "sin": lambda x, y, on: x.sin(),
    "cos": lambda x, y, on: (x * 40).cos(), "pow": lambda x, y, on: x.abs() ** y,
    "sqrt": lambda x, y, on: x.abs().sqrt(),
    "atan2": lambda x, y, on: rl.atan2(x, y), "erf": lambda x, y, on: x.erf(),
    "lgamma": lambda x, y, on: (x.abs() + 0.5).lgamma(), "where": lambda x, y, on: rl.where(x > y, x, y),
    "compare": lambda x, y, on: x < y,
    "clamp": lambda x, y, on: x.clamp(-0.5, 0.5), "half": lambda x, y, on: (x.half() + y.half()).float(),
    "bfloat16": lambda x, y, on: (x.bfloat16() * y.bfloat16()).float(), "double": lambda x, y, on: x.double().exp(),
    "int": lambda x, y, on: (x * 10).int() + 3, "idiv": lambda x, y, on: (x * 10).long() // 3,
    "complex": lambda x, y, on: rl.complex(x, y) * rl.complex(y, x), "bool": lambda x, y, on: (x > 0) & (y > 0),
    "bits": lambda x, y, on: (x * 10).int() ^ 5, "sum": lambda x, y, on: x.sum(), "sum 0": lambda x, y, on: x.sum(0),
    "sum 1": lambda x, y, on: x.sum(1), "sum keep": lambda x, y, on: x.sum(1, keepdim=True),
    "sum 3-d": lambda x, y, on: x.reshape(37, 3, 43).sum((0, 2)), "mean": lambda x, y, on: x.mean(0),
    "var": lambda x, y, on: x.var(1), "std": lambda x, y, on: x.std(0), "prod": lambda x, y, on: x[:, :7].prod(1),
    "max": lambda x, y, on: x.max(1)[0], "max all": lambda x, y, on: x.max(), "argmax": lambda x, y, on: x.argmax(1),
    "argmin": lambda x, y, on: x.argmin(0), "amin": lambda x, y, on: x.amin(0), "any": lambda x, y, on: (x > 2).any(1),
    "all": lambda x, y, on: (x > -9).all(), "norm": lambda x, y, on: x.norm(),
    "logsumexp": lambda x, y, on: x.logsumexp(1), "sum half": lambda x, y, on: x.bfloat16().sum(1).float(),
    "count": lambda x, y, on: (x > 0).sum(), "cumsum": lambda x, y, on: x.cumsum(1),
    "cumsum 0": lambda x, y, on: x.cumsum(0), "cumprod": lambda x, y, on: x[:, :9].cumprod(1),
    **{f"{name} of many rows": lambda x, y, on, name=name: of_many_rows(x, y, name)
       for name in ("cummax", "cumprod", "logcumsumexp", "cummin")},
    "softmax": lambda x, y, on: F.softmax(x, -1), "softmax 0": lambda x, y, on: F.softmax(x, 0),
    "log_softmax": lambda x, y, on: F.log_softmax(x, -1),
    "layer_norm": lambda x, y, on: F.layer_norm(x, (129,), y[0], y[1]),
    "rms_norm": lambda x, y, on: F.rms_norm(x, (129,), y[0]),
    "cross_entropy": lambda x, y, on: F.cross_entropy(x, on(rl.arange(37))),
    "nll": lambda x, y, on: F.nll_loss(x, on(rl.arange(37))), "mse": lambda x, y, on: F.mse_loss(x, y),
    "batch_norm": lambda x, y, on: F.batch_norm(x, None, None, y[0], y[1], training=True),
    "group_norm": lambda x, y, on: F.group_norm(x.reshape(1, 37, 129).transpose(1, 2), 3),
    "index": lambda x, y, on: x[on(idx(1, 5, 1, -1))],
    "index 2": lambda x, y, on: x[on(idx(1, 5)), on(idx(2, 3))],
    "index_select": lambda x, y, on: x.index_select(1, on(idx(3, 0, 3))),
    "gather": lambda x, y, on: x.gather(1, on(rl.arange(37 * 4).reshape(37, 4) % 129)),
    "take": lambda x, y, on: x.take(on(idx(7, 0, 99))),
    "embedding": lambda x, y, on: F.embedding(on(idx(1, 5, 1, 7)), x),
    "index_add": lambda x, y, on: x.index_add(0, on(idx(2, 2, 5)), y[:3]),
    "scatter_add": lambda x, y, on: x.scatter_add(1, on((rl.arange(37 * 129) % 7).reshape(37, 129)), y),
    "index_add half": lambda x, y, on: x.bfloat16().index_add(0, on(idx(2, 2, 5)), y[:3].bfloat16()).float(),
    "index_add_ of a view": lambda x, y, on: x.detach().half().t().contiguous().t()[1:, ::2].clone().index_add_(
        0, on(idx(2, 2, 5)), y.detach()[:3, ::2].half()).float(),
    "embedding half": lambda x, y, on: F.embedding(on(idx(1, 5, 1, 7)), x.bfloat16()).float(),
    "cross_entropy half": lambda x, y, on: F.cross_entropy(x.bfloat16(), on(rl.arange(37))).float(),
    "cross_entropy ignored": lambda x, y, on: F.cross_entropy(x, on(rl.arange(37)), ignore_index=3),
    "layer_norm half": lambda x, y, on: F.layer_norm(x.bfloat16(), (129,), y[0].bfloat16(), y[1].bfloat16()).float(),
    "softmax half": lambda x, y, on: F.softmax(x.half(), -1).float(),
    **{
        f"scatter_reduce {how} {code}": lambda x, y, on, how=how, code=code: combined(x, y, on, how, getattr(rl, code))
        for how in ("amax", "amin", "prod")
        for code in ("float32", "float64", "bfloat16", "float16", "int8", "int64")
    },
    "scatter": lambda x, y, on: x.scatter(1, on(rl.arange(37).reshape(37, 1)), 2.0),
    "index_put": lambda x, y, on: x.index_put((on(idx(2, 3)),), y[:2]),
    "masked_fill": lambda x, y, on: x.masked_fill(y > 0, 1.5),
    "mask": lambda x, y, on: x[y > 0], "nonzero": lambda x, y, on: (x > 1).nonzero(),
    "cat of rows": lambda x, y, on: rl.cat([x, y, x[:, :-1], y, x, y], 1),
    "cat of parts of rows": lambda x, y, on: rl.cat([x[:, 9 * k : 9 * k + 9] for k in range(6)] + [y[:, :4]], 1),
    "cat of rows of halves": lambda x, y, on: rl.cat([x.half(), y.half()] * 3 + [x.half()[:, :0]], -1),
    "stack of rows": lambda x, y, on: rl.stack([x, y, y, x, x], 1),
    "stack of numbers": lambda x, y, on: rl.stack([x[0, k] for k in range(7)] + [y[1, 2]]),
    "stack of columns": lambda x, y, on: rl.stack([x[k] for k in range(6)] + [y[0].flip(0), y[1]], 1),
    "stack of elements": lambda x, y, on: rl.stack([x, y, y, x, x], -1),
    "cat": lambda x, y, on: rl.cat([x, y], 1), "stack": lambda x, y, on: rl.stack([x, y]),
    "flip": lambda x, y, on: x.flip(1),
    "roll": lambda x, y, on: x.roll(3, 1), "pad": lambda x, y, on: F.pad(x, (1, 2, 3, 0)),
    "tril": lambda x, y, on: x.tril(), "repeat": lambda x, y, on: x.repeat(2, 3), "sort": lambda x, y, on: x.sort(1)[0],
    "topk": lambda x, y, on: x.topk(5)[0], "unfold": lambda x, y, on: x.unfold(1, 5, 3),
    "diag": lambda x, y, on: x[:, :37].diagonal(),
    "mm": lambda x, y, on: x @ y.t(), "mm transposed": lambda x, y, on: x.t() @ y, "mv": lambda x, y, on: x @ y[0],
    "dot": lambda x, y, on: x[0] @ y[0], "bmm": lambda x, y, on: x.reshape(37, 3, 43) @ y.reshape(37, 43, 3),
    "addmm": lambda x, y, on: rl.addmm(x[:, :37], x, y.t(), beta=0.5, alpha=2.0),
    "linear": lambda x, y, on: F.linear(x[:8], y[:8], x[:8, 0]),
    "mm half": lambda x, y, on: (x.half() @ y.half().t()).float(),
    "mm bfloat16": lambda x, y, on: (x.bfloat16() @ y.bfloat16().t()).float(),
    "mm double": lambda x, y, on: x.double() @ y.double().t(), "einsum": lambda x, y, on: rl.einsum("ij,kj->ik", x, y),
    "outer": lambda x, y, on: rl.outer(x[0], y[0]),
    "attention": lambda x, y, on: F.scaled_dot_product_attention(
        *[t[:, :128].reshape(1, 37, 4, 32) for t in (x, y, x)]
    ),
    "conv": lambda x, y, on: F.conv2d(x.reshape(1, 1, 37, 129), y[:3, :3].reshape(1, 1, 3, 3)),
    "max_pool": lambda x, y, on: F.max_pool2d(x.reshape(1, 1, 37, 129), 2),
    "avg_pool": lambda x, y, on: F.avg_pool2d(x.reshape(1, 1, 37, 129), 3),
    "interpolate": lambda x, y, on: F.interpolate(x.reshape(1, 1, 37, 129), scale_factor=2, mode="bilinear"),
    "grid_sample": lambda x, y, on: F.grid_sample(
        x[:36, :128].reshape(4, 3, 12, 32), y[:32, :128].tanh().reshape(4, 16, 32, 2), align_corners=False
    ),
    "grid_sample 3-d": lambda x, y, on: F.grid_sample(
        x[:36, :128].reshape(4, 3, 6, 8, 8), y[:36, :128].tanh().reshape(4, 8, 9, 16, 1).expand(4, 8, 9, 16, 3),
        align_corners=True,
    ),
    "conv_transpose": lambda x, y, on: F.conv_transpose2d(
        x[:8, :8].reshape(1, 1, 8, 8), y[:3, :3].reshape(1, 1, 3, 3), stride=2, output_padding=1, dilation=2
    ),
    "empty": lambda x, y, on: x[:0].sum(0), "zero size": lambda x, y, on: x[:, :0] + 1,
    "zero dim": lambda x, y, on: x[0, 0] * 2,
}
LOOSE = {
    "half",
    "index_add half",
    "index_add_ of a view",
    "embedding half",
    "cross_entropy half",
    "layer_norm half",
    "softmax half",
    "bfloat16",
    "mm half",
    "mm bfloat16",
    "sum half",
    "attention",
    "lgamma",
    "pow",
    "linear",
    "mm",
    "mm transposed",
    "einsum",
    "bmm",
    "addmm",
    "prod",
    "cumprod",
    "cumprod of many rows",
    "logcumsumexp of many rows",
}
# forward only: their gradients amplify rounding
DISCRETE = {"sort", "topk", "prod", "cumprod", "cumprod of many rows", "pow", "lgamma"}


def arguments(device):
    rl.manual_seed(3)
    return [rl.randn(37, 129).to(device).requires_grad_() for _ in range(2)]


def close(a, b, name):
    a = a.cpu()
    assert a.shape == b.shape and a.dtype == b.dtype and (a.stride() == b.stride() or not b.is_contiguous())
    if not (a.is_floating_point() or a.is_complex()):
        assert (a == b).all()
        return
    tolerance = 2e-2 if name in LOOSE else 2e-5
    assert rl.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True), (a - b).abs().max()


def compare(name, device):
    """Whether a case has the CPU's results and gradients on another device."""
    results = []
    for place in (device, "cpu"):
        x, y = arguments(place)
        out = CASES[name](x, y, lambda t, place=place: t.to(place))
        grads = ()
        if out.dtype.is_floating_point and out.requires_grad and name not in DISCRETE:
            (out * 1.5).sum().backward()
            grads = (x.grad, y.grad)
        results.append((out.detach(), grads))
    (there, grads), (here, expected) = results
    assert there.device.type == device
    close(there, here, name)
    for got, want in zip(grads, expected, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            close(got, want, name)
