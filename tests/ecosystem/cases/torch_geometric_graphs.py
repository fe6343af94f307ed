"""torch_geometric: graph layers, batching, loaders and a training step on small graphs."""

from __future__ import annotations

import torch
import torch_geometric
from torch_geometric import nn as gnn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

from tests.ecosystem.compiling import prepared

NEEDS = "torch_geometric"


def graph(nodes: int = 12, edges: int = 40) -> Data:
    return Data(
        x=torch.randn(nodes, 8),
        edge_index=torch.randint(nodes, (2, edges)),
        y=torch.randint(3, (nodes,)),
        edge_attr=torch.rand(edges, 4),
    )


def trained(layer: torch.nn.Module, *extra: object) -> dict:
    data = graph()
    x = data.x.requires_grad_()
    out = prepared(layer)(x, data.edge_index, *(getattr(data, name) for name in extra))
    out.square().mean().backward()
    return {
        "out": out,
        "x": x.grad,
        "grads": {n: p.grad for n, p in layer.named_parameters() if p.grad is not None},
        "text": str(layer),
    }


def case_gcn() -> dict:
    return trained(gnn.GCNConv(8, 5))


def case_sage() -> dict:
    return trained(gnn.SAGEConv(8, 5))


def case_gat() -> dict:
    return trained(gnn.GATConv(8, 5, heads=2))


def case_gatv2() -> dict:
    return trained(gnn.GATv2Conv(8, 5, heads=2, edge_dim=4), "edge_attr")


def case_gin() -> dict:
    return trained(gnn.GINConv(torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5))))


def case_transformer() -> dict:
    return trained(gnn.TransformerConv(8, 5, heads=2))


def case_chebyshev() -> dict:
    return trained(gnn.ChebConv(8, 5, K=3))


def case_edge_convolution() -> dict:
    return trained(gnn.EdgeConv(torch.nn.Linear(16, 5)))


def case_model() -> dict:
    data = graph()
    model = prepared(gnn.GCN(8, 16, 2, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses}


def case_batches() -> dict:
    graphs = [graph(nodes, 3 * nodes) for nodes in (4, 7, 5, 6)]
    joined = Batch.from_data_list(graphs)
    loaded = [batch.x.sum() for batch in DataLoader(graphs, batch_size=2, shuffle=True)]
    pooled = prepared(gnn.global_mean_pool)(joined.x, joined.batch)
    return {
        "index": joined.edge_index,
        "batch": joined.batch,
        "loaded": loaded,
        "pooled": pooled,
        "max": prepared(gnn.global_max_pool)(joined.x, joined.batch),
        "text": str(joined),
        "again": joined.get_example(2).x,
    }


def case_heterogeneous() -> dict:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(5, 4), torch.randn(7, 4)
    data["user", "buys", "item"].edge_index = torch.stack([torch.randint(5, (12,)), torch.randint(7, (12,))])
    layer = gnn.HeteroConv({("user", "buys", "item"): gnn.SAGEConv((4, 4), 3)})
    return {"out": prepared(layer)(data.x_dict, data.edge_index_dict), "text": str(data)}


def case_utilities() -> dict:
    data = graph()
    utils = torch_geometric.utils
    return {
        "loops": prepared(utils.add_self_loops)(data.edge_index)[0],
        "dense": prepared(utils.to_dense_adj)(data.edge_index),
        "degree": prepared(utils.degree)(data.edge_index[0], 12),
        "softmax": prepared(utils.softmax)(torch.randn(40), data.edge_index[1]),
        "scatter": prepared(utils.scatter)(data.x, torch.randint(4, (12,)), reduce="max"),
        "undirected": prepared(utils.to_undirected)(data.edge_index),
    }


def case_pooled_network() -> dict:
    """Layers, a norm and a readout, over several graphs at once."""
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = gnn.GraphConv(8, 6), gnn.SAGEConv(6, 6)
            self.norm, self.head = gnn.BatchNorm(6), torch.nn.Linear(6, 2)

        def forward(self, x: torch.Tensor, index: torch.Tensor, batch: torch.Tensor, count: int) -> torch.Tensor:
            x = self.norm(self.first(x, index)).relu()
            return self.head(gnn.global_add_pool(self.second(x, index), batch, count))

    joined = Batch.from_data_list([graph(nodes, 3 * nodes) for nodes in (4, 7, 5)])
    model = Network()
    out = prepared(model)(joined.x, joined.edge_index, joined.batch, 3)
    out.square().sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    # A bias in front of a norm moves nothing: its gradient is what rounding leaves of a sum that is zero.
    left = grads.pop("first.lin_rel.bias").abs().max().item()
    return {"out": out, "grads": grads, "is zero but for rounding": left < 1e-6}
