"""A kernel as users of Triton write them; it must be in a file, which Triton reads."""

import triton
import triton.language as tl


@triton.jit
def double_plus(x, out, n, BLOCK: tl.constexpr):      # noqa: N803 - Triton's habit
    """out = 2 * x + 1."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value * 2 + 1, mask=at < n)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def tuned_add(x, y, out, n, BLOCK: tl.constexpr):      # noqa: N803
    """out = x + y."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)
