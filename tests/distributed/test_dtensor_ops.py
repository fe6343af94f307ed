"""Ops on distributed tensors: results lie as PyTorch's do, hold the same elements, and have the same gradients."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from .parity import both, close, part, plain, run_ours

# op -> how its tensors lie, one letter each: 0, 1, 2 cut there, R whole, P terms of a sum
POINTWISE = {
    "add": ["00", "11", "RR", "0R", "R1", "PP"], "mul": ["00", "0R", "PR", "RP"], "sub": ["11", "PP"],
    "div": ["00", "PR"],
    "relu": ["0", "1", "R", "P"], "exp": ["1", "P"], "neg": ["0", "P"], "sigmoid": ["1"], "gelu": ["0"], "tanh": ["P"],
    "maximum": ["00", "R0"],
}


def _functions(torch: Any) -> dict[str, Any]:
    F = torch.nn.functional
    return {
        "sum": (lambda x: x.sum(), ["0", "1", "R", "P"]), "sum 0": (lambda x: x.sum(0), ["0", "1", "P"]),
        "sum keep": (lambda x: x.sum(1, keepdim=True), ["0", "1"]), "mean": (lambda x: x.mean(), ["0", "1"]),
        "mean 1": (lambda x: x.mean(-1), ["0", "1"]), "max": (lambda x: x.max(), ["0"]),
        "amax": (lambda x: x.amax(1), ["0", "1"]), "argmax": (lambda x: x.argmax(1), ["0"]),
        "var": (lambda x: x.var(1), ["0", "1"]), "norm": (lambda x: torch.linalg.vector_norm(x), ["0", "1", "R"]),
        "norm inf": (lambda x: torch.linalg.vector_norm(x, float("inf")), ["0"]),
        "t": (lambda x: x.t(), ["0", "1", "R", "P"]), "transpose": (lambda x: x.transpose(0, 1), ["0"]),
        "unsqueeze": (lambda x: x.unsqueeze(0), ["0", "1"]), "flatten": (lambda x: x.flatten(), ["0", "R"]),
        "view 3": (lambda x: x.view(2, 2, 6), ["0", "1"]), "view last": (lambda x: x.view(4, 2, 3), ["0", "1"]),
        "view back": (lambda x: x.view(4, 2, 3).view(4, 6), ["0"]),
        "expand": (lambda x: x.unsqueeze(0).expand(3, 4, 6), ["0"]),
        "select": (lambda x: x.select(0, 1), ["1"]), "slice": (lambda x: x[:, 1:3], ["0"]),
        "softmax": (lambda x: x.softmax(-1), ["0", "1", "R"]), "log_softmax": (lambda x: x.log_softmax(-1), ["0"]),
        "layer_norm": (lambda x: F.layer_norm(x, (6,)), ["0", "1", "R"]), "cumsum": (lambda x: x.cumsum(1), ["0", "1"]),
        "mm": (lambda x, y: x.mm(y.t()), ["00", "0R", "R0", "RR", "11", "1R", "PR"]),
        "matmul": (lambda x, y: x @ y.transpose(0, 1), ["0R", "11"]),
        "linear": (lambda x, y: F.linear(x, y), ["R0", "11", "0R", "RR"]),
        "clone": (lambda x: x.clone(), ["0", "P"]), "double": (lambda x: x.double(), ["0", "P"]),
        "times": (lambda x: x * 2, ["0", "P"]), "plus": (lambda x: x + 1, ["0", "P"]),
        "pow": (lambda x: x**2, ["0", "P"]),
        "where": (lambda x: torch.where(x > 0, x, x * 2), ["0"]),
        "cat": (lambda x, y: torch.cat([x, y]), ["11", "RR", "00"]),
        "stack": (lambda x, y: torch.stack([x, y]), ["00", "11"]), "chunk": (lambda x: x.chunk(2, 1), ["0", "1"]),
        "zeros_like": (lambda x: torch.zeros_like(x), ["0", "P"]),
        "masked_fill": (lambda x: x.masked_fill(x > 0, 0.5), ["0"]),
        "gather": (lambda x: x.gather(1, (x * 0).long()), ["0"]), "scatter_add": (
            lambda x, y: x.scatter_add(1, (x * 0).long(), y), ["00"]), "tril": (lambda x: x.tril(), ["R"]),
        "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), ["0"]), "std": (lambda x: x.std(), ["R"]),
        "any": (lambda x: (x > 0).any(), ["R"]),
        "index_select": (lambda x: x.index_select(1, (x[0, :2] * 0).long()), ["R"]),
        "mse": (lambda x, y: F.mse_loss(x, y), ["00", "11"]), "clamp": (lambda x: x.clamp(-0.5, 0.5), ["0"]),
        "argmin": (lambda x: x.argmin(0), ["1"]), "topk": (lambda x: x.topk(2, 1), ["0"]),
        "sort": (lambda x: x.sort(1), ["0"]),
        "all": (lambda x: (x > -9).all(), ["R"]), "unbind": (lambda x: x.unbind(0), ["1"]),
        "diff": (lambda x: x.flip(1), ["0"]),
    }


def _ops(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    tensors = part(torch, "distributed.tensor")
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    table = dict(_functions(torch))
    for name, layouts in POINTWISE.items():
        table[name] = (getattr(torch, name) if hasattr(torch, name) else getattr(torch.nn.functional, name)), layouts
    found: dict[str, Any] = {}
    for name, (function, layouts) in table.items():
        for lie in layouts:
            key = f"{name} {lie}"
            given = [_tensor(torch, tensors, mesh, letter, seed) for seed, letter in enumerate(lie)]
            try:
                made = function(*given)
                first = made[0] if isinstance(made, (list, tuple)) else made
                found[key] = plain(made if isinstance(made, tensors.DTensor) else list(made))
                alone = [t.full_tensor().detach().requires_grad_() for t in given]
                single = function(*alone)
                single = single[0] if isinstance(single, (list, tuple)) else single
                found[key + " alone"] = close(plain(first.full_tensor()), plain(single))
                if first.requires_grad:
                    (first.full_tensor() ** 2).sum().backward()
                    (single**2).sum().backward()
                    same = [
                        close(plain(t.grad.full_tensor()), plain(a.grad)) for t, a in zip(given, alone, strict=True)
                    ]
                    found[key + " alone"] = found[key + " alone"] and all(same)
                    found[key + " gradients"] = [plain(t.grad.full_tensor()) for t in given]
                    found[key + " gradient lies"] = [str(t.grad.placements) for t in given]
            except Exception as error:
                found[key] = f"raised {type(error).__name__}: {error}"
    return found


def _tensor(torch: Any, tensors: Any, mesh: Any, letter: str, seed: int) -> Any:
    whole = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
    if letter == "P":
        return tensors.DTensor.from_local(whole, mesh, [tensors.Partial()]).detach().requires_grad_()
    lies = tensors.Replicate() if letter == "R" else tensors.Shard(int(letter))
    return tensors.distribute_tensor(whole, mesh, [lies]).requires_grad_()


# What PyTorch 2.13 does otherwise: it fails (views of several results), is wrong (mse_loss divides the gradient by the
# number of elements of a part, that of an infinite norm is not a number), or sends more or less (the gradient of a
# product of terms is one op here, so that its terms are reduced first; a copy of terms stays terms).
OTHERWISE = (
    "chunk 0", "chunk 1", "unbind 1", "mse 00 gradients", "mse 11 gradients", "mse 00 alone", "mse 11 alone",
    "norm inf 0 gradients", "norm inf 0 alone", "clone P", "clone P gradient lies", "var 1 gradient lies",
    "mul PR gradient lies", "mul RP gradient lies", "div PR gradient lies",
)


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_ops_are_those_of_one_process_and_lie_as_pytorchs() -> None:
    if importlib.util.find_spec("torch") is None:
        for ours in run_ours(2, _ops):
            assert not [name for name, value in ours.items() if value is False or str(value).startswith("raised")]
        pytest.skip("PyTorch is what layouts are compared with")
    for ours, theirs in zip(*both(2, _ops), strict=True):
        assert not [name for name, value in ours.items() if value is False or str(value).startswith("raised")]
        wrong = [name for name in theirs if name not in OTHERWISE and not close(ours.get(name), theirs[name])]
        assert not wrong, [(name, ours.get(name), theirs[name]) for name in wrong]


def _uneven(torch: Any, rank: int, ranks: int) -> bool:
    """Sizes that do not divide, on a line and on a square: results and gradients are those of one process."""
    from rushlight.distributed import init_device_mesh
    from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    F, S, R, P = torch.nn.functional, Shard, Replicate, Partial
    functions = {
        "sum": lambda x, y: x.sum(), "sum 0": lambda x, y: x.sum(0), "mean": lambda x, y: x.mean(),
        "mean 1": lambda x, y: x.mean(1, keepdim=True), "norm": lambda x, y: torch.linalg.vector_norm(x, dim=0),
        "amax": lambda x, y: x.amax(0), "product": lambda x, y: x @ y.t(), "inner": lambda x, y: x.t() @ y,
        "add": lambda x, y: x + y * 2, "softmax": lambda x, y: x.softmax(1) * y,
        "flatten": lambda x, y: x.flatten() * 3,
        "views": lambda x, y: x.view(5, 7, 1).transpose(0, 2).reshape(7, 5),
        "layer_norm": lambda x, y: F.layer_norm(x, (7,)),
        "stack": lambda x, y: torch.stack([x, y], 1).sum(1), "cat": lambda x, y: torch.cat([x, y], 1).tanh(),
        "expand": lambda x, y: x.unsqueeze(0).expand(2, 5, 7) * y, "cross_entropy": lambda x, y: F.cross_entropy(
            x, distribute_tensor(torch.arange(5), mesh) if isinstance(x, DTensor) else torch.arange(5)),
        "gather": lambda x, y: x.gather(1, (y * 0).long()), "index": lambda x, y: x[1:4, 2],
        "embedding": lambda x, y: F.embedding((y[:, 0] * 0).long(), x), "cumsum": lambda x, y: x.cumsum(0),
        "outer": lambda x, y: torch.einsum("ij,kj->ik", x, y),
        "chunks": lambda x, y: x.chunk(2, 1)[1] * 2, "where": lambda x, y: torch.where(x > 0, x, y),
        "var": lambda x, y: x.var(0),
        "linear": lambda x, y: F.linear(x, y, y.sum(1)), "squeeze": lambda x, y: (x[:1] + y).squeeze(),
        "mul": lambda x, y: x * y,
        "rms_norm": lambda x, y: F.rms_norm(x, (7,), y[0]), "max": lambda x, y: x.max(1).values,
        "matmul": lambda x, y: (
            x.unsqueeze(0) @ y.t().unsqueeze(0)), "batches": lambda x, y: torch.bmm(x.unsqueeze(1), y.unsqueeze(2)),
    }
    mesh = init_device_mesh("cpu", (ranks,)) if ranks == 3 else init_device_mesh("cpu", (2, 2))
    each = [S(0), S(1), R(), P()]
    lies = [(a,) for a in each] if ranks == 3 else [
        (S(0), S(1)), (S(0), S(0)), (R(), S(1)), (P(), S(0)), (S(1), P()),
    ]
    wholes = [torch.randn(5, 7, generator=torch.Generator().manual_seed(k)) for k in range(2)]
    for name, function in functions.items():
        for k, left in enumerate(lies):
            for right in (lies[(k + 1) % len(lies)], left)[: 5 - ranks]:
                alone = [t.clone().requires_grad_() for t in wholes]
                given = [
                    distribute_tensor(t, mesh, placements).requires_grad_()
                    for t, placements in zip(wholes, (left, right), strict=True)
                ]
                made, expected = function(*given), function(*alone)
                at = name, left, right, made.placements
                assert made.shape == expected.shape and torch.allclose(made.full_tensor(), expected, atol=1e-5), at
                local = tuple(made.to_local().shape)
                assert local == tuple(distribute_tensor(expected.detach(), mesh, [
                    R() if p.is_partial() else p for p in made.placements]).to_local().shape), (at, local)
                (made * made).sum().backward()
                (expected * expected).sum().backward()
                for t, a in zip(given, alone, strict=True):
                    if a.grad is None:
                        assert t.grad is None, at
                        continue
                    assert torch.allclose(t.grad.full_tensor(), a.grad, atol=1e-4), (*at, t.grad.placements)
    return True


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 4])
def test_uneven_sizes_and_squares_are_those_of_one_process(ranks: int) -> None:
    run_ours(ranks, _uneven)
