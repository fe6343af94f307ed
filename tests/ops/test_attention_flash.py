"""Blocked attention: every size that crosses a block's edge, masks, groups of heads, layouts, gradients, memory;
and what chooses it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, compare, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402
from rushlight.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from rushlight.nn.attention.bias import CausalBias, causal_lower_right, causal_upper_left  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SIZES = [
    (1, 1, 1, 1, 1),
    (2, 3, 64, 64, 8),
    (1, 2, 65, 130, 16),
    (1, 1, 130, 65, 4),
    (1, 2, 70, 1100, 8),
    (1, 1, 600, 600, 16),
]


def inputs(b, h, n, s, d, dtype=None, heads=None):
    torch.manual_seed(b * 1000 + n * 7 + s)
    result = [torch.randn(b, h, n, d), torch.randn(b, heads or h, s, d), torch.randn(b, heads or h, s, d)]
    return [t.to(dtype or torch.float64) for t in result]


def attend(**kwargs):
    return lambda m, q, k, v, *mask: m.nn.functional.scaled_dot_product_attention(q, k, v, *mask, **kwargs)


@pytest.mark.parametrize("scale", [-0.4, 0.0])
@pytest.mark.parametrize("causal", [False, True])
def test_scales_that_turn_scores_round_or_make_them_equal(causal, scale):
    def call(m, q, k, v):
        if m is rl:
            return m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        scores = q @ k.transpose(-2, -1) * scale       # PyTorch's own causal form gives NaN
        hidden = torch.ones(scores.shape[-2:]).tril() == 0
        return (scores.masked_fill(hidden, -math.inf) if causal else scores).softmax(-1) @ v

    for dtype, rtol in ((torch.float64, 1e-10), (torch.float32, 2e-5)):
        tensors = inputs(1, 2, 33, 45, 8, dtype=dtype)
        agree(call, *tensors, rtol=rtol)
        gradients_agree(call, *tensors, second=False, rtol=rtol)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_sizes_around_blocks(sizes, causal):
    agree(attend(is_causal=causal), *inputs(*sizes), rtol=1e-10)
    agree(attend(is_causal=causal, scale=0.7), *inputs(*sizes, dtype=torch.float32), rtol=2e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_around_blocks(sizes, causal):
    gradients_agree(attend(is_causal=causal), *inputs(*sizes), second=False, rtol=1e-9)


WIDTHS = [(1, 1), (3, 20), (17, 33), (40, 40), (80, 16), (257, 70), (64, 300)]


@pytest.mark.parametrize(("width", "value_width"), WIDTHS)
def test_heads_of_any_size(width, value_width):
    """No whole vectors, wider than what is summed at a time, another size for values; few queries and many."""
    for length in (1, 2, 33):
        q, k, v = inputs(2, 4, length, 70, width, heads=2)
        v = torch.randn(2, 2, 70, value_width, dtype=v.dtype)
        gradients_agree(attend(enable_gqa=True), q, k, v, second=False, rtol=1e-9, what=f"{length} queries")


@pytest.mark.parametrize("mask", [None, "all", "keys"])
def test_one_query_and_a_cache_of_any_length(mask):
    for keys in (1, 2, 255, 256, 257, 600):
        q, k, v = inputs(2, 6, 1, keys, 8, heads=2)
        result = {"all": torch.rand(2, 6, 1, keys) > 0.3, "keys": torch.randn(2, 1, 1, keys, dtype=q.dtype)}
        given = [] if mask is None else [result[mask]]
        agree(attend(enable_gqa=True), q, k, v, *given, rtol=1e-10)
        agree(attend(is_causal=True, enable_gqa=True), q, k, v, rtol=1e-10)


def test_gradients_do_not_depend_on_threads():
    def gradients():
        tensors = [ours(t).float().requires_grad_() for t in inputs(2, 4, 130, 600, 16, heads=2)]
        rl.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True, enable_gqa=True).sum().backward()
        return [t.grad for t in tensors]

    before, result = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            result.append(gradients())
    finally:
        rl.set_num_threads(before)
    assert all(rl.equal(a, b) for other in result[1:] for a, b in zip(result[0], other, strict=True))


def masks(b, h, n, s):
    torch.manual_seed(0)
    seen = torch.rand(b, h, n, s) > 0.4
    seen[:, :, 1] = False    # a query that sees nothing
    yield from (seen, seen[:1, :1], seen[:, :1, :1], seen[0, 0], seen[..., :1])
    yield torch.randn(b, h, n, s, dtype=torch.float64)
    yield torch.randn(n, s, dtype=torch.float64).t().contiguous().t()
    yield torch.zeros(n, s, dtype=torch.float64).masked_fill(~seen[0, 0], -math.inf)


@pytest.mark.parametrize("keys", [70, 600])
def test_masks_of_every_shape(keys):
    q, k, v = inputs(2, 2, 70, keys, 8)
    for number, mask in enumerate(masks(2, 2, 70, keys)):
        fixed = mask
        agree(attend(), q, k, v, fixed, rtol=1e-10, what=f"mask {number}")
        plain = ours(fixed)
        gradients_agree(
            lambda m, q, k, v, fixed=fixed, plain=plain: m.nn.functional.scaled_dot_product_attention(
                q, k, v, fixed if m is torch else plain
            ),
            q,
            k,
            v,
            second=False,
            what=f"mask {number}",
        )


def test_mask_that_wants_a_gradient_gets_one():
    q, k, v = inputs(2, 2, 5, 7, 4)
    gradients_agree(attend(), q, k, v, torch.randn(5, 7, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_groups_of_heads_share_keys(causal):
    q, k, v = inputs(2, 6, 70, 70, 8, heads=2)
    agree(attend(is_causal=causal, enable_gqa=True), q, k, v, rtol=1e-10)
    gradients_agree(attend(is_causal=causal, enable_gqa=True), q, k, v, second=False)


def test_layouts_are_read_in_place_and_kept():
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in inputs(2, 3, 66, 66, 8))
    agree(attend(), q, k, v, rtol=1e-10)
    mine = rl.nn.functional.scaled_dot_product_attention(ours(q), ours(k), ours(v))
    assert mine.stride() == torch.nn.functional.scaled_dot_product_attention(q, k, v).stride()
    gradients_agree(attend(is_causal=True), q, k[..., ::2].repeat(1, 1, 1, 2), v.expand(2, 3, 66, 8), second=False)


def test_repeated_operands_and_sizes_of_one():
    q, k, v = inputs(1, 1, 70, 66, 8)
    gradients_agree(
        lambda m, q, k, v: m.nn.functional.scaled_dot_product_attention(
            q.expand(1, 3, 70, 8), k.expand(1, 3, 66, 8), v.expand(1, 3, 66, 8)
        ),
        q,
        k,
        v,
        second=False,
    )
    gradients_agree(attend(), *(t[..., :1] for t in (q, k, v)), second=False)
    gradients_agree(
        lambda m, q, k, v: m.nn.functional.scaled_dot_product_attention(q[:, :, 0:1], k, v).sum(), q, k, v, second=False
    )


def test_second_gradients_match_the_form_of_products():
    q, k, v = inputs(1, 4, 5, 7, 4, heads=2)

    def math_form(m, q, k, v):
        if m is rl:
            return m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, None, 0.0, True, enable_gqa=True)[0]

    gradients_agree(math_form, q, k, v)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_with_gradients(dtype):
    tensors = inputs(1, 2, 70, 600, 8, dtype=dtype)
    agree(attend(is_causal=True), *tensors)
    agree(attend(), *tensors, torch.randn(70, 600))
    mine = [ours(t).requires_grad_() for t in tensors]
    result = rl.nn.functional.scaled_dot_product_attention(*mine, is_causal=True)
    result.sum().backward()
    exact = [t.double().requires_grad_() for t in tensors]
    torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=True).sum().backward()
    for want, got in zip(exact, mine, strict=True):
        compare(want.grad.to(dtype), got.grad, rtol=2e-2)


def test_nan_reaches_only_the_rows_that_see_it():
    q, k, v = inputs(1, 1, 4, 4, 2)
    k[0, 0, 2] = math.nan
    agree(attend(is_causal=True), q, k, v, rtol=1e-10)


def test_logarithms_of_sums():
    q, k, v = inputs(1, 2, 66, 600, 8)
    agree(
        lambda m, q, k, v: m.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=True),
        q,
        k,
        v,
        rtol=1e-10,
    )
    with pytest.raises(RuntimeError, match="dropout"):
        rl.ops.aten._scaled_dot_product_flash_attention_for_cpu(*map(ours, (q, k, v)), 0.5)


def test_function_transforms():
    q, k, v = (t.reshape(3, 2, 2, 5, 4) for t in inputs(3, 4, 5, 5, 4))

    def per_example(m, q, k, v):
        return m.func.vmap(
            m.func.grad(
                lambda a, b, c: m.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=True).square().sum(),
                argnums=(0, 1, 2),
            )
        )(q, k, v)

    agree(per_example, q, k, v, rtol=1e-10)
    agree(
        lambda m, q, k, v: m.func.vmap(attend(), in_dims=(None, 0, None, None))(m, q, k[0], v[0]), q, k, v, rtol=1e-10
    )

    def forward_mode(m, q, k, v):
        def math_form(q):
            if m is torch:   # PyTorch's own blocked form has no second derivative
                return torch.ops.aten._scaled_dot_product_attention_math(q, k[0], v[0])[0]
            return rl.nn.functional.scaled_dot_product_attention(q, k[0], v[0])

        return m.func.jvp(math_form, (q[0],), (k[0],))

    agree(forward_mode, q, k, v, rtol=1e-10)


def test_results_do_not_depend_on_threads():
    q, k, v = (ours(t).float() for t in inputs(2, 4, 130, 600, 16))
    before = rl.get_num_threads()
    result = []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            result.append(rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    finally:
        rl.set_num_threads(before)
    assert rl.equal(result[0], result[1]) and rl.equal(result[0], result[2])


def test_meta_tensors_have_the_result_s_geometry():
    q, k, v = (rl.empty(t.shape, device="meta") for t in inputs(2, 3, 66, 70, 8))
    result = rl.nn.functional.scaled_dot_product_attention(q, k, v)
    assert tuple(result.shape) == (2, 3, 66, 8) and result.device.type == "meta"


def test_dropout_draws_pytorch_s_noise():
    q, k, v = inputs(2, 3, 6, 7, 4, dtype=torch.float32)

    def seeded(m, q, k, v):
        m.manual_seed(3)
        return m.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=True)

    agree(seeded, q, k, v, rtol=1e-5)


@pytest.mark.parametrize("shapes",
    [((3, 4), (5, 4), (5, 6)), ((2, 3, 4), (1, 3, 4), (3, 4)), ((2, 0, 4), (2, 3, 4), (2, 3, 4)),
     ((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 4)), ((1, 2, 3, 0), (1, 2, 3, 0), (1, 2, 3, 0)),
     ((70, 8), (70, 8), (70, 8)), ((2, 70, 8), (2, 70, 8), (2, 70, 3)), ((1, 2, 2, 70, 8),) * 3])
def test_other_numbers_of_dimensions_and_empty_inputs(shapes):
    torch.manual_seed(0)
    agree(attend(is_causal=True), *(torch.randn(s) for s in shapes), rtol=2e-5)


def refused(*shapes, mask=None, dtype=None, **kwargs):
    tensors = [torch.ones(s, dtype=dtype or torch.float32) for s in shapes]
    agree(attend(**kwargs), *tensors, *([] if mask is None else [mask]))


def test_refusals_are_pytorch_s():
    refused((4,), (4,), (4,))
    refused((2, 3, 4), (2, 3, 5), (2, 3, 5))
    refused((2, 3, 4), (2, 3, 4), (2, 6, 4))
    refused((2, 4, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4))
    refused((2, 4, 3, 4), (2, 3, 3, 4), (2, 3, 3, 4), enable_gqa=True)
    refused((3, 4), (3, 4), (3, 4), enable_gqa=True)
    refused((2, 3, 4), (2, 3, 4), (2, 3, 4), dtype=torch.int32)
    refused((2, 3, 4), (2, 3, 4), (2, 3, 4), dtype=torch.complex64)
    refused((2, 3, 4), (2, 3, 4), (2, 3, 4), dropout_p=2.0)
    for mask in (
        torch.ones(3, 5),
        torch.ones(3, 3, dtype=torch.int32),
        torch.ones(3, 3, dtype=torch.float64),
        torch.ones(3),
        torch.ones(5, 2, 3, 3),
    ):
        refused((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), mask=mask)
    refused((2, 3, 4), (2, 3, 4), (2, 3, 4), mask=torch.ones(3, 3).bool(), is_causal=True)


def test_allowed_forms_are_honoured():
    x = rl.randn(1, 2, 3, 4)
    both = rl.nn.functional.scaled_dot_product_attention(x, x, x)
    for form in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        with sdpa_kernel(form):
            assert rl.allclose(rl.nn.functional.scaled_dot_product_attention(x, x, x), both, atol=1e-6)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="MATH"):
        rl.nn.functional.scaled_dot_product_attention(x, x, x)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        rl.nn.functional.scaled_dot_product_attention(x[0], x[0], x[0])
    with pytest.raises(AssertionError), sdpa_kernel("math"):
        pass


def test_causal_biases_are_masks():
    q, k = rl.randn(1, 2, 3, 4), rl.randn(1, 2, 5, 4)
    sdpa = rl.nn.functional.scaled_dot_product_attention
    assert rl.allclose(sdpa(q, k, k, causal_upper_left(3, 5)), sdpa(q, k, k, is_causal=True))
    assert rl.allclose(sdpa(q, k, k, attn_mask=causal_lower_right(3, 5)), sdpa(q, k, k, rl.ones(3, 5).bool().tril(2)))
    assert isinstance(causal_upper_left(3, 5), CausalBias)
    with pytest.raises(ValueError, match="is_causal"):
        sdpa(q, k, k, causal_upper_left(3, 5), is_causal=True)


LONG = """
import resource
import rushlight as rl
q, k, v = (rl.randn(1, 1, 8192, 8, requires_grad=True) for _ in range(3))
def step(n):
    some = (t[:, :, :n] for t in (q, k, v))
    rl.nn.functional.scaled_dot_product_attention(*some, is_causal=True).sum().backward()
step(64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
step(8192)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_number_of_scores():
    root = str(Path(rl.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, "-c", LONG], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": root}
    )
    assert int(result.stdout) < 64 * 1024, "8192 x 8192 scores are 256 MiB; only blocks of them may be held"
