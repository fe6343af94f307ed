"""One package of C++ sources, built in its folder, against the same numbers by plain ops: run as
`python -m rushlight run use_source_package.py NAME FOLDER`.
"""

from __future__ import annotations

import sys

import torch

sys.path.insert(0, sys.argv[2])
torch.manual_seed(0)
close = torch.testing.assert_close


def chamferdist():
    from chamferdist import ChamferDistance

    a, b = torch.randn(2, 30, 3, requires_grad=True), torch.randn(2, 40, 3)
    found = ChamferDistance()(a, b, batch_reduction="sum")
    wanted = torch.cdist(a, b).square().amin(2).sum()
    close(found, wanted)
    grad, = torch.autograd.grad(found, a)
    close(grad, torch.autograd.grad(wanted, a)[0])


def discounted_cumsum():
    from torch_discounted_cumsum import discounted_cumsum_right

    x = torch.randn(3, 20, dtype=torch.float64, requires_grad=True)
    factors = torch.full((3,), 0.9, dtype=torch.float64)      # of one alone it reads beyond the end on the CPU
    found = discounted_cumsum_right(x, factors)
    weights = 0.9 ** torch.arange(20, dtype=torch.float64)
    wanted = torch.stack([(x[:, i:] * weights[:20 - i]).sum(1) for i in range(20)], 1)
    close(found, wanted)
    close(torch.autograd.grad(found.square().sum(), x)[0], torch.autograd.grad(wanted.square().sum(), x)[0])


def scatter():
    from torch_scatter import gather_csr, scatter, scatter_softmax, segment_coo, segment_csr

    source, index = torch.randn(10, 6, requires_grad=True), torch.randint(0, 5, (10, 6))
    index[0] = 4
    found = scatter(source, index, dim=0, reduce="sum")
    close(found, torch.zeros(5, 6).scatter_add(0, index, source))
    close(torch.autograd.grad(found.sum(), source)[0], torch.ones_like(source))
    largest = scatter(source, index, dim=0, reduce="max")
    wanted = torch.full((5, 6), -1e9).scatter_reduce(0, index, source, "amax")
    close(largest, torch.where(wanted < -1e8, 0.0, wanted))
    rows, ends, of_row = torch.randn(6, 3), torch.tensor([0, 2, 5, 6]), torch.tensor([0, 0, 1, 1, 1, 2])
    sums = torch.zeros(3, 3).index_add(0, of_row, rows)
    close(segment_coo(rows, of_row, reduce="sum"), sums)
    close(segment_csr(rows, ends, reduce="mean"), sums / torch.tensor([[2.0], [3], [1]]))
    close(gather_csr(sums, ends), sums[of_row])
    close(scatter(scatter_softmax(rows[:, 0], of_row), of_row), torch.ones(3))
    close(torch.jit.script(scatter)(rows, of_row, 0, None, None, "sum"), sums)


def spline_conv():
    from torch_spline_conv import spline_basis, spline_weighting

    at = torch.rand(7, 1, dtype=torch.float64)
    basis, index = spline_basis(at, torch.tensor([5]), torch.tensor([1], dtype=torch.uint8), 1)
    place, share = (at * 4).floor().long(), (at * 4).frac()
    close(basis.sum(1), torch.ones(7, dtype=torch.float64))
    close(torch.zeros(7, 6, dtype=torch.float64).scatter_add(1, index, basis),
          torch.zeros(7, 6, dtype=torch.float64).scatter_add(1, place, 1 - share).scatter_add(1, place + 1, share))
    x, weight = torch.randn(7, 2, dtype=torch.float64), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    found = spline_weighting(x, weight, basis, index)
    wanted = torch.einsum("ni,nsio,ns->no", x, weight[index], basis)
    close(found, wanted)
    close(torch.autograd.grad(found.square().sum(), weight)[0], torch.autograd.grad(wanted.square().sum(), weight)[0])


def cluster():
    from torch_cluster import fps, grid_cluster, knn, nearest, radius

    x, y = torch.randn(50, 3), torch.randn(8, 3)
    distance = torch.cdist(y, x)
    row, column = knn(x, y, 4)
    wanted = distance.topk(4, largest=False).indices.tolist()
    assert [set(column[row == i].tolist()) for i in range(8)] == list(map(set, wanted))
    row, column = radius(x, y, 1.0, max_num_neighbors=50)
    assert set(zip(row.tolist(), column.tolist(), strict=True)) == set(map(tuple, (distance < 1).nonzero().tolist()))
    assert nearest(y, x).tolist() == torch.cdist(y, x).argmin(1).tolist()
    chosen = fps(x, ratio=0.2, random_start=False)
    assert len(set(chosen.tolist())) == 10 and chosen[0] == 0 and chosen[1] == torch.cdist(x[:1], x).argmax()
    points = torch.tensor([[0.0, 0], [11, 9], [2, 8], [2, 2], [8, 3]])
    assert grid_cluster(points, torch.tensor([5.0, 5])).tolist() == [0, 5, 3, 0, 1]


def sparse():
    from torch_sparse import SparseTensor, coalesce, spmm, spspmm, transpose

    dense = torch.randn(6, 5) * (torch.rand(6, 5) < 0.4)
    other = torch.randn(5, 4, requires_grad=True)
    index = dense.nonzero().t()
    value = dense[index[0], index[1]]
    found = spmm(index, value, 6, 5, other)
    close(found, dense @ other)
    close(torch.autograd.grad(found.sum(), other)[0], dense.t() @ torch.ones(6, 4))
    made = SparseTensor.from_dense(dense)
    close(made.matmul(other), dense @ other)
    close(made.t().to_dense(), dense.t())
    close((made @ made.t()).to_dense(), dense @ dense.t())
    close(made[1:4].to_dense(), dense[1:4])
    (row, column), values = transpose(index, value, 6, 5)
    close(dense.t()[row, column], values)
    product, values = spspmm(index, value, index.flip(0), value, 6, 5, 6)
    close(torch.zeros(6, 6).index_put((product[0], product[1]), values, accumulate=True), dense @ dense.t())
    again, twice = coalesce(torch.cat([index, index], 1), torch.cat([value, value]), 6, 5)
    close(torch.zeros(6, 5).index_put((again[0], again[1]), twice), dense * 2)


def signatory():
    import signatory as package

    path = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    found = package.signature(path, 2)
    steps = path.diff(dim=1)
    before = steps.cumsum(1) - steps
    second = torch.einsum("bti,btj->bij", before, steps) + torch.einsum("bti,btj->bij", steps, steps) / 2
    wanted = torch.cat([steps.sum(1), second.flatten(1)], 1)
    close(found, wanted)
    close(torch.autograd.grad(found.square().sum(), path)[0], torch.autograd.grad(wanted.square().sum(), path)[0])
    assert package.logsignature(path, 3).shape == (2, package.logsignature_channels(3, 3))


globals()[sys.argv[1]]()
print("the same numbers")
