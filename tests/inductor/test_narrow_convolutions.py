"""Convolutions with few outputs, compiled as ones whose neighbours are outputs too: the sums stay the same."""

import pytest

import rushlight as torch
from rushlight.inductor import narrow_convolutions

CASES = [      # images, weights, stride, padding
    ((1, 32, 24, 20), (1, 32, 7, 3), (1, 1), (3, 1)),
    ((2, 16, 16, 33), (3, 16, 3, 3), (2, 1), (1, 1)),
    ((2, 16, 12, 40), (2, 16, 3, 3), (1, 2), (1, 1)),
    ((1, 1, 1, 3000), (1, 1, 1, 100), (1, 2), (0, 0)),
    ((3, 1, 1201), (1, 1, 9), (1,), (4,)),
    ((1, 4, 1600), (2, 4, 33), (3,), (5,)),
    ((1, 4, 100), (2, 4, 9), (1,), (0,)),
]


class Layer(torch.nn.Module):
    def __init__(self, weight, stride, padding, with_bias):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(weight, generator=generator))
        self.bias = torch.nn.Parameter(torch.randn(weight[0], generator=generator)) if with_bias else None
        self.window = stride, padding, [1] * len(stride), False, [0] * len(stride), 1

    def forward(self, x):
        return torch.ops.aten.convolution(x, self.weight, self.bias, *self.window).relu()


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_results_are_those_of_eager_mode(case, with_bias, monkeypatch):
    shape, *window = CASES[case]
    model, x = Layer(*window, with_bias), torch.randn(shape, generator=torch.Generator().manual_seed(1))
    taken, together = [], narrow_convolutions.together
    monkeypatch.setattr(narrow_convolutions, "together", lambda *a: (taken.append(1), together(*a)))
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert compiled(x).requires_grad        # with gradients nothing is static: the graph is as it was written


def test_which_convolutions_are_taken(monkeypatch):
    taken, together = [], narrow_convolutions.together
    monkeypatch.setattr(narrow_convolutions, "together", lambda r, n, dim: (taken.append(dim), together(r, n, dim)))
    found = []
    torch._dynamo.reset()
    with torch.no_grad():
        for shape, *window in CASES:
            taken.clear()
            torch.compile(Layer(*window, False))(torch.zeros(shape))
            found.append(taken[0] if taken else None)
    assert found == [2, 2, None, 3, 2, 2, None]
