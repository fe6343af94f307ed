"""Programs in which elements decide sizes or numbers: functions of one vector, whose first entries are positive."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch


def a_mask(x: Any) -> Any:
    return x[x > 0] * 2


def positions(x: Any) -> Any:
    rows, columns = torch.stack([x, -x]).gt(0).nonzero().t()
    return x[columns] * (rows + 1)


def an_element_as_a_size(x: Any) -> Any:
    return torch.ones((x > 0).sum().item()).cumsum(0) * x.sum()


def a_real_element(x: Any) -> Any:
    return x * x.sum().item() + (x.mean().item() * 2 - 1)


def an_element_where_no_tensor_will_do(x: Any) -> Any:
    return torch.full((3,), x.sum().item()) * x.mean() + math.sqrt((x > 0).sum().item())


def a_root_of_a_count(x: Any) -> Any:
    return x * (x[x > 0].numel() + 1) ** -0.5


def unique_then_bincount(x: Any) -> Any:
    values, where = torch.unique((x * 3).long(), return_inverse=True)
    return values * torch.bincount(where), x / torch.bincount(where)[where]


def masked_select(x: Any) -> Any:
    return torch.masked_select(x, x > 0).exp()


def repeat_interleave(x: Any) -> Any:
    return torch.repeat_interleave(x, (x.abs() * 2).long()) * 2


def a_mask_of_a_masked_tensor(x: Any) -> Any:
    some = x[x > 0]
    few = some[some < 1]
    return few.sum() + some.sum(), few.exp()


def a_write_under_a_mask(x: Any) -> Any:
    y = x.clone()
    y[y > 0] = y[y > 0] * 3
    return y * 2


def writes_through_views(x: Any) -> Any:
    y = x[x > 0] * 2
    y[0:1].add_(1)
    y.view(-1, 1)[:, 0].mul_(3)
    return y.sin()


def views(x: Any) -> Any:
    y = x[x > 0]
    return y.view(-1, 1).expand(-1, 3) * torch.arange(3.0), y[:, None] * y, y[1:], y[:2].flip(0), y.unsqueeze(0).t()


def matrices(x: Any) -> Any:
    rows = torch.outer(x, torch.arange(4.0))[x > 0]
    return rows @ torch.ones(4, 3), rows.softmax(-1), torch.nn.functional.layer_norm(rows, (4,)), rows.t()


def reductions(x: Any) -> Any:
    y = x[x > 0]
    return y.mean() + y.sum() / y.numel(), y.sort()[0], y.cumsum(0)


def joined(x: Any) -> Any:
    y = x[x > 0]
    return torch.cat([y, torch.arange(3.0), y * 2])


def normalised_graph(x: Any) -> Any:
    """A layer of a graph network: how many nodes there are, loops, degrees, sums over edges."""
    index = (x.abs() * 3).long()
    count = index.max().item() + 1
    edges = torch.stack([index, index.flip(0)])
    edges = edges[:, edges[0] != edges[1]]
    loops = torch.arange(count)
    edges = torch.cat([edges, torch.stack([loops, loops])], 1)
    degree = x.new_zeros(count).scatter_add_(0, edges[1], torch.ones(edges.size(1)))
    scale = degree.pow(-0.5)
    scale.masked_fill_(scale == float("inf"), 0)
    nodes = x.new_zeros(count, 4).index_add_(0, index, x[:, None] * torch.ones(4))
    messages = nodes.index_select(0, edges[0]) * (scale[edges[0]] * scale[edges[1]])[:, None]
    return x.new_zeros(count, 4).index_add_(0, edges[1], messages)


def drawn_numbers(x: Any) -> Any:
    y = torch.nn.functional.dropout(x, 0.5)
    return torch.nn.functional.dropout(x[x > 0], 0.5), y, torch.rand(3)


PROGRAMS = [
    a_mask, positions, an_element_as_a_size, a_real_element, an_element_where_no_tensor_will_do, a_root_of_a_count,
    unique_then_bincount, masked_select, repeat_interleave, a_mask_of_a_masked_tensor, a_write_under_a_mask,
    writes_through_views, views, matrices, reductions, joined, normalised_graph, drawn_numbers,
]
COUNTS = (5, 1, 0, 2, 7)


def vector(count: int, length: int = 10) -> Any:
    """`count` positive entries, then others that are not."""
    x = torch.rand(length, generator=torch.Generator().manual_seed(count)) + 0.1
    x[count:] *= -1
    return x


def results_and_gradient(function: Any, x: Any) -> tuple:
    """What a function gives for a tensor that wants a gradient, and that."""
    x = x.clone().requires_grad_()
    torch.manual_seed(3)
    results = function(x)
    results = results if isinstance(results, (tuple, list)) else (results,)
    loss = sum((r.float() ** 2).sum() for r in results)
    if loss.requires_grad:
        loss.backward()
    return [r.detach() for r in results], x.grad
