"""What the card keeps in single precision for half types: statistics of norms, coordinates of samples and windows."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")

HALVES = ["bfloat16", "float16"]


def ours(t):
    return None if t is None else rl.from_dlpack(t.detach())


def theirs(t):
    return torch.from_dlpack(t.detach())


NORMS = {
    "native_layer_norm": lambda T, x, w, b, m, v: T.native_layer_norm(x, list(w.shape), w, b, 1e-5),
    "native_batch_norm": lambda T, x, w, b, m, v: T.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5),
    "native_batch_norm in evaluation": lambda T, x, w, b, m, v: T.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5),
    "native_batch_norm alone": lambda T, x, w, b, m, v: T.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    "native_group_norm": lambda T, x, w, b, m, v: T.native_group_norm(x, w, b, x.shape[0], x.shape[1], 1, 2, 1e-5),
}


@pytest.mark.parametrize("kind", [*HALVES, "float32"])
@pytest.mark.parametrize("name", NORMS)
def test_statistics(name, kind):
    torch.manual_seed(0)
    x, w, b, m, v = [torch.rand(s, device="cuda").to(getattr(torch, kind)) for s in ((9, 6), (6,), (6,), (6,), (6,))]
    want = NORMS[name](torch, x, w, b, m.clone(), v.clone())
    got = NORMS[name](rl, *map(ours, (x, w, b, m.clone(), v.clone())))
    assert [str(t.dtype).split(".")[1] for t in got] == [str(t.dtype).split(".")[1] for t in want]
    for a, c in zip(want, got, strict=True):
        torch.testing.assert_close(theirs(c), a, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("width", [2, 8, 64, 1024])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_gradients_of_norms_are_as_exact(name, width, kind):
    torch.manual_seed(0)
    x = torch.randn(512, width, device="cuda").to(getattr(torch, kind))
    w, g = torch.rand_like(x[0]), torch.randn_like(x)
    found = []
    for make, T in ((lambda t: t.double(), torch), (lambda t: t, torch), (ours, rl)):
        leaf = make(x).clone().requires_grad_()
        getattr(T.nn.functional, name)(leaf, [width], make(w), eps=1e-5).backward(make(g))
        found.append(leaf.grad if T is torch else theirs(leaf.grad))
    apart = [(t.double() - found[0]).abs().mean() for t in found[1:]]
    assert apart[1] <= 1.05 * apart[0] + 1e-6, apart


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("dims", [2, 3])
def test_samples_of_grids(dims, mode, kind):
    if dims == 3 and mode == "bicubic":
        pytest.skip("no such mode")
    torch.manual_seed(0)
    image = torch.randn((2, 3, 5, 9, 11)[: dims + 2], device="cuda").to(getattr(torch, kind))
    grid = (torch.rand((2, 4, 10, 6)[: dims + 1] + (dims,), device="cuda") * 2.4 - 1.2).to(getattr(torch, kind))
    for padding, corners in itertools.product(("zeros", "border", "reflection"), (False, True)):
        want = torch.nn.functional.grid_sample(image, grid, mode, padding, corners)
        leaves = [ours(image).clone().requires_grad_(), ours(grid).clone().requires_grad_()]
        got = rl.nn.functional.grid_sample(*leaves, mode, padding, corners)
        torch.testing.assert_close(theirs(got), want, rtol=1e-2, atol=1e-2)
        # PyTorch's gradients round coordinates to the half type, its samples do not: ours are those of the samples
        exact = [t.float().requires_grad_() for t in (image, grid)]
        torch.nn.functional.grid_sample(*exact, mode, padding, corners).sum().backward()
        got.float().sum().backward()
        for leaf, other in zip(leaves, exact, strict=True):
            rough = 2e-2 * max(1.0, other.grad.abs().max().item())
            torch.testing.assert_close(theirs(leaf.grad).float(), other.grad, rtol=2e-2, atol=rough)


@pytest.mark.parametrize("kind", HALVES)
def test_drawn_windows(kind):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 33, 35, device="cuda").to(getattr(torch, kind))
    samples = torch.rand(2, 3, 2, device="cuda").to(getattr(torch, kind))
    found = []
    for make, T in ((lambda t: t, torch), (ours, rl)):
        found.append(T.nn.functional.fractional_max_pool2d(
            make(x), 3, output_size=(7, 9), return_indices=True, _random_samples=make(samples))[1])
    assert (found[0] == theirs(found[1])).all()
