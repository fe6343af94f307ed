"""What is said of distributed tensors: what is sent and by whom, where parts lie; and rules of the program's own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from typing import Any

from .processes import all_of, results_of, run


def _counts(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist, nn
    from rushlight.distributed import _functional_collectives as f
    from rushlight.distributed.tensor import Replicate, Shard
    from rushlight.distributed.tensor.debug import CommDebugMode
    from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (ranks,))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    mode, legacy = CommDebugMode(), torch.ops.c10d_functional
    with mode:
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    assert mode.get_total_counts() == 2 and dict(mode.get_comm_counts()) == {legacy.all_reduce: 2}
    by_module = mode.comm_module_counts
    assert by_module["Sequential.2"]["forward"][legacy.all_reduce] == 1
    assert by_module["Sequential.0"]["forward"].get(legacy.all_reduce, 0) == 0
    assert by_module["Global"]["backward"][legacy.all_reduce] == 1
    assert mode.get_sharding_info()["Sequential.0.weight"] == (Shard(0),)
    assert mode.get_sharding_info()["Sequential.2.bias"] == (Replicate(),)
    assert mode.get_parameter_info()["Sequential.2"]["weight"].shape == (4, 8)

    folder = tempfile.mkdtemp()
    mode.generate_json_dump(os.path.join(folder, "a.json"), noise_level=1)
    tree = json.load(open(os.path.join(folder, "a.json")))
    (model_,) = tree["children"]
    assert [c["fqn"] for c in model_["children"]] == ["Sequential.0", "Sequential.1", "Sequential.2"]
    assert model_["children"][2]["collectives_forward"] == [["c10d_functional.all_reduce", 1]]
    assert all(op["input_sharding"] for op in model_["children"][0]["operations_forward"])
    mode.log_comm_debug_tracing_table_to_file(os.path.join(folder, "a.txt"), noise_level=0)
    table = open(os.path.join(folder, "a.txt")).read()
    assert "*c10d_functional.all_reduce: 1" in table and "\033" not in table and "Sequential.2" in table

    with mode:      # counts begin again
        f.all_gather_tensor(torch.ones(2), 0, mesh)
        f.reduce_scatter_tensor(torch.ones(2), "sum", 0, mesh)
    assert dict(mode.get_comm_counts()) == {legacy.all_gather_into_tensor: 1, legacy.reduce_scatter_tensor: 1}
    total = legacy.wait_tensor(legacy.all_reduce(torch.ones(3), "sum", "", list(range(ranks)), ranks))
    assert total.tolist() == [2.0] * 3


def _shown(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor
    from rushlight.distributed.tensor.debug import _visualize_sharding as v, visualize_sharding

    mesh = dist.init_device_mesh("cpu", (ranks,))
    spread = distribute_tensor(torch.zeros(5, 4), mesh, [Shard(0)])
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        visualize_sharding(spread, header="weight")
    lines = said.getvalue().split("\n")
    if rank:
        assert said.getvalue() == ""
    else:
        assert lines[0] == "weight" and "Col 0-3" in lines[1]
        assert any("Row 0-2" in x and "cpu:0" in x for x in lines)
        assert any("Row 3-4" in x and "cpu:1" in x for x in lines)
    rows, columns, cells = v._cells(distribute_tensor(torch.zeros(6), mesh, [Replicate()]))
    assert (rows, columns, cells) == (["Row 0-5"], ["Col 0-0"], [["cpu:0, cpu:1"]])
    assert v._plain(rows, columns, cells).split("\n")[2] == "Row 0-5  cpu:0, cpu:1"
    try:
        visualize_sharding(distribute_tensor(torch.zeros(2, 2, 2), mesh, [Shard(0)]))
    except RuntimeError as error:
        assert "got 3" in str(error)
    else:
        raise AssertionError("three dimensions cannot be shown")


def _own_rules(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor
    from rushlight.distributed.tensor.experimental import register_sharding

    mesh = dist.init_device_mesh("cpu", (ranks,))

    @torch.library.custom_op("debug_test::twice_rows", mutates_args=(), schema="(Tensor x, float by) -> Tensor")
    def twice_rows(x: Any, by: float) -> Any:
        return x * by + x.sum(1, keepdim=True)

    @twice_rows.register_fake
    def _(x: Any, by: float) -> Any:
        return torch.empty_like(x)

    op = torch.ops.debug_test.twice_rows.default
    whole = torch.arange(12.0).view(4, 3)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    try:
        op(rows, 2.0)
    except NotImplementedError as error:
        assert "no sharding rule" in str(error)
    else:
        raise AssertionError("nothing is known of the op")

    @register_sharding(op)
    def rule(x: Any, by: float) -> Any:
        assert by == 2.0 and x.ndim == 2
        return [([Replicate()], [Replicate(), None]), ([Shard(0)], [Shard(0), None])]

    wanted = twice_rows(whole, 2.0)
    made = op(rows, 2.0)
    assert made.placements == (Shard(0),)
    torch.testing.assert_close(made.full_tensor(), wanted)
    moved = op(distribute_tensor(whole, mesh, [Shard(1)]), 2.0)      # must be moved first
    torch.testing.assert_close(moved.full_tensor(), wanted)

    @register_sharding([op])
    def wrong(x: Any, by: float) -> Any:
        return [([Shard(0)], [Shard(0), Shard(0)])]

    for bad in (lambda: op(rows, 2.0), lambda: register_sharding("relu")):
        try:
            bad()
        except (ValueError, TypeError) as error:
            assert "register_sharding" in str(error)
        else:
            raise AssertionError("a rule that does not fit")


def _balanced(rank: int, ranks: int) -> None:
    import rushlight as torch
    from rushlight import distributed as dist
    from rushlight.distributed.tensor.experimental._context_parallel import (
        _context_parallel_shard,
        _HeadTailLoadBalancer,
        _PerDocumentHeadTailLoadBalancer,
        context_parallel_unshard,
    )

    mesh = dist.init_device_mesh("cpu", (ranks,))
    assert _HeadTailLoadBalancer(8, 2, "cpu")._generate_indices().tolist() == [[0, 1, 6, 7, 2, 3, 4, 5]]
    documents = _PerDocumentHeadTailLoadBalancer([[4, 4], [8]], 2, "cpu")
    assert documents._generate_indices().tolist() == [[0, 3, 1, 2, 4, 7, 5, 6], [0, 1, 6, 7, 2, 3, 4, 5]]
    x = torch.arange(2 * 8 * 3.0).view(2, 8, 3)
    for balancer in (_HeadTailLoadBalancer(8, 2, "cpu"), documents):
        (part,) = _context_parallel_shard(mesh, [x], [1], balancer)
        assert part.shape == (2, 4, 3) and not part.equal(x[:, rank * 4 : rank * 4 + 4])
        (whole,) = context_parallel_unshard(mesh, [part], [1], balancer)
        assert whole.equal(x)
    named = _context_parallel_shard(mesh, {"a": x}, {"a": 1})
    assert named["a"].equal(x[:, rank * 4 : rank * 4 + 4])


def test_what_is_sent_and_where_parts_lie() -> None:
    results_of(run(2, all_of, [_counts, _shown, _own_rules, _balanced]))
