"""Long filters over one channel: a product of windows that lie in memory already."""

import itertools

import pytest

import rushlight as rl


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_they_are_products_of_windows(dtype: rl.dtype) -> None:
    shapes = itertools.product((1, 3), (1, 7, 66), (31, 32, 100), (100, 300), (1, 5, 64), (True, False))
    for images, outs, taps, length, step, has_bias in shapes:
        x = rl.randn(images, 1, length, dtype=dtype)
        w = rl.randn(outs, 1, taps, dtype=dtype)
        b = rl.randn(outs, dtype=dtype) if has_bias else None
        wanted = x.double()[:, 0].unfold(1, taps, step) @ w.double()[:, 0].T
        wanted = wanted.transpose(1, 2) + (0 if b is None else b.double()[:, None])
        found = rl.nn.functional.conv1d(x, w, b, step)
        assert found.shape == wanted.shape and found.is_contiguous()
        rl.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4, msg=f"{images, outs, taps, length, step}")


def test_padding_dilation_and_odd_memory_take_another_way() -> None:
    x, w = rl.randn(2, 1, 900, dtype=rl.float64), rl.randn(66, 1, 40, dtype=rl.float64)
    conv = rl.nn.functional.conv1d
    padded = rl.nn.functional.pad(x, (7, 7))
    rl.testing.assert_close(conv(x, w, stride=60, padding=7), conv(padded, w, stride=60))
    wide = rl.zeros(66, 1, 79, dtype=rl.float64)
    wide[..., ::2] = w
    rl.testing.assert_close(conv(x, w, stride=60, dilation=2), conv(x, wide, stride=60))
    turned = x.transpose(0, 2).contiguous().transpose(0, 2)          # neighbours are two apart
    rl.testing.assert_close(conv(turned, w, stride=60), conv(x, w, stride=60))
    lying = rl.zeros(66, 1, 80, dtype=rl.float64)[..., ::2].copy_(w)       # taps are two apart
    rl.testing.assert_close(conv(x, lying, stride=60), conv(x, w, stride=60))
