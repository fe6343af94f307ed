"""The graph of every op record against PyTorch's: names of nodes, how many next functions, where they lead.

`graph_differs.txt` lists the records whose bodies take other steps here (docs/coming_from_pytorch.md says which kinds).
Where PyTorch is not installed, tests/autograd/test_graph_nodes.py holds stored answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import torch  # noqa: E402

import rushlight as rl  # noqa: E402
from tests.parity.checks import _pair, describe, leaves, samples, seeded  # noqa: E402
from tests.parity.convert import thing  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

DIFFERS = frozenset((Path(__file__).parent / "graph_differs.txt").read_text().split())
COUNTED = [name for name, record in RECORDS.items() if record.supports_autograd and torch.float64 in record.dtypes]
LIMIT = 60      # nodes of a graph that are looked at


def shown(node: Any, inputs: list[Any], left: list[int]) -> str:
    """A graph as text: leaves by their place among the inputs."""
    if node is None or left[0] < 0:
        return "-"
    left[0] -= 1
    if type(node).__name__ == "AccumulateGrad":
        return f"A{[i for i, t in enumerate(inputs) if t is node.variable]}"
    following = (shown(n, inputs, left) + (f":{nr}" if nr else "") for n, nr in node.next_functions)
    return f"{type(node).__name__}({', '.join(following)})"


def graphs(results: Any, inputs: list[Any], tensor: type) -> list[str]:
    found = [t for t in leaves(results) if isinstance(t, tensor) and t.requires_grad and t.grad_fn is not None]
    return [f"{shown(t.grad_fn, inputs, [LIMIT])}:{t.output_nr}" for t in found]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [name for name in COUNTED if name not in DIFFERS])
def test_record(name: str) -> None:
    pair = _pair(RECORDS[name])
    for sample in samples(RECORDS[name], torch.float64, "dtypes", requires_grad=True):
        memo: dict[int, Any] = {}
        first, args, kwargs = thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
        result, refused = pair.oracle(sample)
        inputs = [t for t in leaves((sample.input, sample.args, sample.kwargs))
                  if isinstance(t, torch.Tensor) and t.requires_grad]
        wanted = [] if refused else graphs(result, inputs, torch.Tensor)
        if wanted:
            found = seeded(pair.ours, first, *args, **kwargs)
            assert graphs(found, [memo[id(t)] for t in inputs], rl.Tensor) == wanted, describe(sample)


def test_most_records_agree() -> None:
    assert DIFFERS <= set(RECORDS) and len(DIFFERS) <= 0.155 * len(COUNTED)
