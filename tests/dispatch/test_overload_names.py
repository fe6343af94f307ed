"""`ops.aten.<op>.<overload>`: PyTorch's names answer, others do not exist."""

import pytest

import rushlight as rl


@pytest.mark.parametrize(
    "name",
    [
        "add.Tensor",
        "add.Scalar",
        "add.out",
        "sum.dim_IntList",
        "mul.Tensor",
        "mean.dim",
        "index_put_.default",
        "add_.Tensor",
        "_foreach_add.List",
    ],
)
def test_pytorchs_overloads_exist(name):
    op, _, label = name.partition(".")
    assert callable(getattr(getattr(rl.ops.aten, op), label))


@pytest.mark.parametrize("name", ["add.NoSuchOverload", "sum.Tensor_", "relu.Scalar", "add.tensor"])
def test_others_do_not(name):
    op, _, label = name.partition(".")
    packet = getattr(rl.ops.aten, op)
    assert not hasattr(packet, label)
    with pytest.raises(AttributeError, match="no overload name"):
        getattr(packet, label)


def test_every_name_of_pytorch_is_known():
    torch = pytest.importorskip("torch")
    for op in (
        "add",
        "sum",
        "mul",
        "div",
        "clamp",
        "index",
        "scatter",
        "std",
        "sort",
        "max",
        "where",
        "pow",
        "arange",
        "full",
        "to",
    ):
        for label in getattr(torch.ops.aten, op).overloads():
            assert hasattr(getattr(rl.ops.aten, op), label), (op, label)
