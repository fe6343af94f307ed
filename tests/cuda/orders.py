"""Programs of orders and scans, for a device of many threads and the CPU to agree on."""

from __future__ import annotations

import rushlight as rl

DTYPES = (rl.float32, rl.float64, rl.int64, rl.int32, rl.int8, rl.uint8, rl.bool, rl.float16, rl.bfloat16)
SHAPES = ((), (1,), (65,), (5000,), (3, 700), (700, 3), (2, 300, 5), (0, 100))
EXACT = {
    "sort": lambda x, d: x.sort(d), "descending": lambda x, d: x.sort(d, True), "argsort": lambda x, d: x.argsort(d),
    "topk": lambda x, d: x.topk(min(3, x.shape[d] if x.ndim else 1), d),
    "least": lambda x, d: x.topk(min(40, x.shape[d] if x.ndim else 1), d, largest=False),
    "kthvalue": lambda x, d: x.kthvalue(1, d), "median": lambda x, d: x.median(d), "mode": lambda x, d: x.mode(d),
    "nanmedian": lambda x, d: x.nanmedian(d), "unique": lambda x, d: x.unique(return_inverse=True, return_counts=True),
    "runs": lambda x, d: x.unique_consecutive(return_inverse=True, return_counts=True),
    "nonzero": lambda x, d: x.nonzero(), "masked_select": lambda x, d: x.masked_select(x != 0),
    "cummax": lambda x, d: x.cummax(d), "cummin": lambda x, d: x.cummin(d),
    "searchsorted": lambda x, d: rl.searchsorted(x.reshape(-1).sort()[0], x),
    "repeat_interleave": lambda x, d: x.reshape(-1)[:50].repeat_interleave(
        (x.reshape(-1)[:50].abs().nan_to_num(0, 1, 1) if x.dtype.is_floating_point else x.reshape(-1)[:50]).long() % 4
    ),
    "bincount": lambda x, d: ((x.nan_to_num(0, 1, 1) if x.dtype.is_floating_point else x).long().reshape(-1) % 7
                              ).bincount(),
}
NEAR = {
    "cumsum": lambda x, d: x.cumsum(d), "cumprod": lambda x, d: (x * 0.1).cumprod(d),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
}
FLOAT_ONLY = {"cumprod", "logcumsumexp", "nanmedian"}
NOT_EMPTY = {"kthvalue", "median", "mode", "nanmedian", "cummax", "cummin"}


def numbers(shape, dtype):
    """Uneven elements with repetitions, NaN, zeros of both signs and infinities."""
    rl.manual_seed(1)
    x = (rl.randn(shape) * 10).to(dtype)
    if dtype.is_floating_point and x.numel() > 9:
        flat = x.view(-1)
        flat[3], flat[0], flat[4], flat[7] = float("nan"), -0.0, float("-inf"), 0.0
    return x


def compare(name, shape, dtype, device):
    """Whether a program has the CPU's results along every dim, of a tensor and of a turned one."""
    if (name in FLOAT_ONLY and not dtype.is_floating_point) or (name in NOT_EMPTY and 0 in shape):
        return
    if name == "searchsorted" and dtype not in (rl.float32, rl.int64):     # long to compile, and not for bool
        return
    program = EXACT.get(name) or NEAR[name]
    whole = numbers(shape, dtype)
    for x in (whole, whole.flip(0).transpose(0, -1)) if len(shape) > 1 else (whole,):
        for d in range(max(x.ndim, 1)):
            wanted, got = program(x, d), program(x.to(device), d)
            pairs = zip(*[r if isinstance(r, tuple) else (r,) for r in (wanted, got)], strict=True)
            for want, found in pairs:
                assert found.device.type == device and found.dtype == want.dtype and found.shape == want.shape
                found = found.cpu()
                same = (found == want) | (found != found) & (want != want)
                if name in NEAR:
                    room = 2e-2 if dtype.itemsize == 2 else 1e-5
                    assert rl.allclose(found, want, rtol=room, atol=room, equal_nan=True)
                else:
                    assert same.all()
