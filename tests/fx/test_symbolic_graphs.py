"""Graphs traced on symbolic sizes compute what the function computes at other sizes; where they would not,
the guards say so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.symbols import GuardOnDataDependentSymNode

aten = rl.ops.aten


def heads(x: Any) -> Any:
    """Attention as programs write it: views with computed sizes, and a scale from the last one."""
    b, t, d = x.shape
    q = x.view(b, t, 2, d // 2).transpose(1, 2)
    scores = (q @ q.transpose(-2, -1)) / math.sqrt(q.size(-1))
    mask = rl.ones(t, t, dtype=rl.bool).tril()
    scores = scores.masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ q).transpose(1, 2).reshape(b, t, d)


CUBES: dict[str, Callable] = {     # of one [b, t, d] tensor, d even
    "heads": heads,
    "scale": lambda x: (x @ x.transpose(1, 2)) * x.size(-1) ** -0.5,
    "sdpa": lambda x: F.scaled_dot_product_attention(x, x, x),
    "sdpa math": lambda x: aten._scaled_dot_product_attention_math.default(x, x, x)[0],
    "mean by hand": lambda x: x.sum((0, 1)) / (x.shape[0] * x.shape[1]),
    "positions": lambda x: x + rl.arange(x.shape[1]).unsqueeze(1) + rl.arange(0, x.shape[2]),
    "linspace": lambda x: x * rl.linspace(0, 1, x.shape[-1]),
    "expand": lambda x: x[:, :1].expand(-1, x.shape[1], -1) - x,
    "pad": lambda x: F.pad(x, (1, 2, 0, x.shape[0])),
    "cat": lambda x: rl.cat([x, x[:, : x.shape[1] // 2], x.flip(1)], 1),
    "chunk": lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1].sigmoid(),
    "halves": lambda x: x[..., : x.shape[-1] // 2] - x[..., x.shape[-1] // 2 :],
    "strided": lambda x: x[:, ::2, 1:-1],
    "last": lambda x: x[:, -1] + x[:, 0],
    "gather": lambda x: x.gather(1, rl.zeros_like(x, dtype=rl.int64) + (x.shape[1] - 1)),
    "index_select": lambda x: x.index_select(1, rl.arange(x.shape[1] - 1, -1, -1)),
    "rows": lambda x: x[rl.arange(x.shape[0]), x.shape[1] // 2],
    "one_hot": lambda x: F.one_hot(x.argmax(-1), x.shape[-1]).float() * x,
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]) + F.normalize(x, dim=-1),
    "conv": lambda x: F.conv1d(x, rl.ones(3, x.shape[1], 3), padding=1, stride=2),
    "pool": lambda x: F.avg_pool1d(x, 2) + F.adaptive_avg_pool1d(x, x.shape[-1] // 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0) + F.interpolate(x, size=x.shape[-1] * 2, mode="linear"),
    "fold": lambda x: x.unfold(1, 2, 1).sum(-1),
    "einsum": lambda x: rl.einsum("btd,bsd->bts", x, x),
    "outer": lambda x: x.reshape(-1, x.shape[-1]).t() @ x.reshape(-1, x.shape[-1]),
    "roll": lambda x: x.roll(x.shape[1] // 2, 1),
    "repeat": lambda x: x.repeat(1, 2, x.shape[0]).repeat_interleave(2, 1),
    "tril": lambda x: (x @ x.transpose(1, 2)).tril(x.shape[0] - 3),
    "topk": lambda x: x.sort(-1)[0][..., :2],
    "cumulative": lambda x: x.cumsum(1) / rl.arange(1, x.shape[1] + 1).unsqueeze(1),
    "branch": lambda x: x * 2 if x.shape[0] < 5 else x * 3,
    "size result": lambda x: (x.sum() * x.numel(), x.sum() / x.shape[-1], x.sum() * (x.shape[0] << 1),
                              x.sum() * (x.shape[1] % 3)),
    "full": lambda x: rl.full((x.shape[0], 2), x.shape[1] / 4) + x.new_zeros(x.shape[0], 1),
    "vmap": rl.func.vmap(lambda row: row.softmax(-1) * row.shape[0] + row.reshape(-1).sum() / row.numel()),
    "jvp": lambda x: rl.func.jvp(lambda y: (y * y.shape[1]).sum(1), (x,), (rl.ones_like(x),)),
    "gradient by size": rl.func.grad(lambda y: (y * y.shape[0] ** 2).sum() / y.numel()),
    "iteration": lambda x: sum(row.sum() for row in x.transpose(0, 1)) if x.shape[1] == 5 else x.sum() * 2,
    "gradient": lambda x: rl.func.grad(lambda y: (y.softmax(-1) * y).mean() + y.var())(x),
}
SHAPES = ((2, 5, 8), (3, 4, 6), (4, 7, 10), (6, 9, 4), (2, 2, 16), (5, 3, 12))


def same(got: Any, want: Any) -> None:
    for a, b in zip(rl.utils._pytree.tree_leaves(got), rl.utils._pytree.tree_leaves(want), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and rl.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CUBES)
def test_other_sizes(name: str) -> None:
    f = CUBES[name]
    result = make_fx(f, tracing_mode="symbolic")(rl.randn(SHAPES[0]))
    accepted = 0
    for shape in SHAPES:
        x = rl.randn(shape)
        if result.shape_env.accepts(x):
            accepted += 1
            same(result(x), f(x))
    assert accepted >= {"branch": 2, "iteration": 1}.get(name, 4), result.shape_env.guards


def test_the_graph_computes_sizes() -> None:
    result = make_fx(heads, tracing_mode="symbolic")(rl.randn(2, 5, 8))
    assert (
        "sym_size" in result.code
        and "sym_sqrt" in result.code
        and not any(str(g).startswith("s2 ==") for g in result.shape_env.guards)
    )
    targets = [
        str(n.target)
        for n in make_fx(lambda x: x.view(x.shape[0] * x.shape[1]), tracing_mode="symbolic")(rl.randn(2, 3)).graph.nodes
    ]
    assert "aten.sym_size.int" in targets and any("mul" in t for t in targets)


def test_guards_fail_where_the_graph_would_be_wrong() -> None:
    def decided(x: Any) -> Any:
        return x.sum(0) if x.shape[0] % 2 else x.sum(1)

    env = make_fx(decided, tracing_mode="symbolic")(rl.randn(4, 6)).shape_env
    assert env.accepts(rl.ones(8, 3)) and not env.accepts(rl.ones(5, 3)) and "% 2" in env.why_not(rl.ones(5, 3))
    env = make_fx(lambda x: x * math.log(x.shape[0]), tracing_mode="symbolic")(rl.randn(4, 6)).shape_env
    assert env.accepts(rl.ones(4, 3)) and not env.accepts(rl.ones(5, 3))
    env = make_fx(lambda x: sum(x[i] for i in range(x.shape[0])), tracing_mode="symbolic")(rl.randn(4, 6)).shape_env
    assert not env.accepts(rl.ones(5, 6)) and env.accepts(rl.ones(4, 9))
    env = make_fx(lambda x, y: x.clone().add_(y), tracing_mode="symbolic")(rl.randn(4, 6), rl.randn(6)).shape_env
    assert env.accepts(rl.ones(5, 3), rl.ones(3)) and not env.accepts(rl.ones(5, 3), rl.ones(4))


def test_numbers_as_arguments() -> None:
    result = make_fx(lambda x, n: x[:n] * n, tracing_mode="symbolic")(rl.randn(9), 4)
    x = rl.randn(12)
    same(result(x, 7), x[:7] * 7)
    assert result.shape_env.accepts(x, 7) and not result.shape_env.accepts(x, 20)


def test_sizes_that_elements_decide() -> None:
    def f(x: Any) -> Any:
        return (x[x > 0] * 2).sum() + x.nonzero().shape[0]

    result = make_fx(f, tracing_mode="symbolic")(rl.randn(4, 6))
    x = rl.randn(5, 3)
    same(result(x), f(x))

    def g(x: Any, n: Any) -> Any:
        count = n.item()
        rl._check_is_size(count)
        rl._check(count <= x.shape[0])
        return x[:count] * 2, rl.zeros(count, 2)

    result = make_fx(g, tracing_mode="symbolic")(rl.randn(6), rl.tensor(3))
    same(result(rl.arange(8.0), rl.tensor(5)), g(rl.arange(8.0), rl.tensor(5)))
    with pytest.raises(RuntimeError, match="required at"):
        result(rl.arange(8.0), rl.tensor(9))
    with pytest.raises(GuardOnDataDependentSymNode, match="elements"):
        make_fx(lambda x: x if x.sum().item() > 0 else -x, tracing_mode="symbolic")(rl.randn(4))
