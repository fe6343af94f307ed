"""Products and convolutions of bytes with zero points: exact sums, as int32."""

import itertools

import pytest

import rushlight as torch

aten = torch.ops.aten
KINDS = {torch.uint8: (0, 256), torch.int8: (-128, 128)}


def some(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(*KINDS[dtype], shape, generator=generator).to(dtype)


def zero_of(dtype, how, count, seed):
    if how == "none":
        return None
    found = some((count,), dtype, seed)
    return found[0] if how == "one" else found


@pytest.mark.parametrize(("left", "right"), list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("how", ["none", "one", "each"])
def test_products_are_those_of_integers(left, right, how):
    for seed, (lead, k, n) in enumerate([((1,), 1, 1), ((5,), 7, 3), ((2, 3), 64, 33), ((40,), 300, 100), ((), 9, 5)]):
        a, b = some((*lead, k), left, seed), some((k, n), right, seed + 100)
        za = zero_of(left, "none" if how == "none" else "one", 1, seed + 1)
        zb = zero_of(right, how, n, seed + 2)
        wide_a = a.long() if za is None else a.long() - za.long()
        wide_b = b.long() if zb is None else b.long() - zb.long()
        expected = (wide_a @ wide_b).int()
        assert aten._integer_mm(a, b, za, zb).equal(expected)
        assert aten._integer_mm(a, b.t().contiguous().t(), za, zb).equal(expected)


CASES = [      # images, weights, stride, padding, dilation, groups
    ((2, 3, 9, 8), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 16, 7, 7), (32, 16, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 64, 10, 11), (64, 1, 3, 3), (2, 2), (1, 1), (1, 1), 64),
    ((1, 70, 6, 6), (70, 1, 5, 5), (1, 1), (2, 2), (1, 1), 70),
    ((2, 8, 9, 9), (12, 2, 3, 3), (1, 2), (2, 0), (2, 1), 4),
    ((1, 6, 20), (4, 6, 3), (2,), (1,), (1,), 1),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
    ((1, 4, 12, 12), (130, 4, 3, 3), (1, 1), (1, 1), (1, 1), 1),
]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("how", ["none", "one", "each"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_convolutions_are_those_of_integers(case, left, right, how):
    image, weight, *window, groups = CASES[case]
    x, w = some(image, left, case), some(weight, right, case + 50)
    zx, zw = zero_of(left, "none" if how == "none" else "one", 1, case + 1), zero_of(right, how, weight[0], case + 2)
    wide_x = x.double() if zx is None else x.double() - zx.double()
    wide_w = w.double() if zw is None else w.double() - zw.double().reshape(-1, *(1,) * (w.ndim - 1))
    dims = len(weight) - 2
    expected = aten.convolution(wide_x, wide_w, None, *window, False, [0] * dims, groups).round().int()
    assert aten._integer_convolution(x, w, zx, zw, *window, groups).equal(expected)


def test_a_compiled_call_packs_weights_once_and_takes_other_zero_points():
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", some((8, 4, 3, 3), torch.uint8, 0))
            self.register_buffer("m", some((8, 20), torch.int8, 1))

        def forward(self, x, zero, wzero):
            y = aten._integer_convolution(x, self.w, zero, wzero, [1, 1], [1, 1], [1, 1], 1)
            return aten._integer_mm((y[:, :, 0, 0] & 255).to(torch.uint8), self.m, zero, None)

    model, x = Layers(), some((3, 4, 6, 6), torch.uint8, 2)
    compiled = torch.compile(model)
    with torch.no_grad():
        for z in (0, 7, 255):
            zero, wzero = torch.tensor(z, dtype=torch.uint8), torch.tensor(255 - z, dtype=torch.uint8)
            assert compiled(x, zero, wzero).equal(model(x, zero, wzero))
        model.w.add_(1)
        assert compiled(x, zero, wzero).equal(model(x, zero, wzero))


def test_empty_operands_and_other_types():
    empty = torch.zeros(0, 4, dtype=torch.uint8)
    assert aten._integer_mm(empty, torch.ones(4, 3, dtype=torch.int8), None, None).shape == (0, 3)
    none = aten._integer_mm(torch.zeros(2, 0, dtype=torch.uint8), torch.ones(0, 3, dtype=torch.int8), None, None)
    assert none.tolist() == [[0] * 3] * 2
    with pytest.raises(RuntimeError, match="int8 or uint8"):
        aten._integer_mm(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.int8), None, None)
    with pytest.raises(RuntimeError, match="rows that fit"):
        aten._integer_mm(empty, torch.ones(5, 3, dtype=torch.int8), None, None)
    with pytest.raises(RuntimeError, match="4 channels"):
        aten._integer_convolution(torch.ones(1, 3, 5, 5, dtype=torch.uint8), torch.ones(2, 4, 3, 3, dtype=torch.int8),
                                  None, None, [1, 1], [0, 0], [1, 1], 1)
