"""Functions of tensors that are no ops."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

EXPRESSIONS = """
torch.is_tensor(torch.ones(2))
torch.is_tensor([1])
torch.is_storage(torch.ones(2).untyped_storage())
torch.numel(torch.ones(2, 3))
torch.numel(3)
torch.is_floating_point(torch.ones(2))
torch.is_complex(torch.ones(2, dtype=torch.complex64))
torch.is_signed(torch.ones(2, dtype=torch.uint8))
torch.is_nonzero(torch.tensor([0.0]))
torch.is_nonzero(torch.ones(2))
torch.is_nonzero(torch.ones(0))
torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
torch.equal(torch.tensor([1, 2]), torch.tensor([1, 3]))
torch.equal(torch.tensor([1, 2]), torch.tensor([[1, 2]]))
torch.equal(torch.tensor([float('nan')]), torch.tensor([float('nan')]))
torch.equal(torch.ones(0), torch.ones(0))
torch.equal(1, torch.ones(1))
torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
torch.allclose(torch.tensor([1.0]), torch.tensor([1.1]))
torch.allclose(torch.tensor([1.0]), torch.tensor([1.1]), atol=0.2)
torch.allclose(torch.tensor([float('nan')]), torch.tensor([float('nan')]), equal_nan=True)
tuple(torch.broadcast_shapes((2, 1), (3,), (1, 1, 1)))
tuple(torch.broadcast_shapes(3, (2, 1)))
torch.broadcast_shapes((2,), (3,))
[tuple(t.shape) for t in torch.broadcast_tensors(torch.ones(2, 1), torch.ones(3))]
tuple(torch.arange(6).reshape(2, 3).t_().shape)
torch.arange(6).reshape(2, 3).transpose_(0, 1).tolist()
tuple(torch.ones(2, 3).unsqueeze_(1).shape)
tuple(torch.ones(1, 2, 1).squeeze_().shape)
torch.arange(6).as_strided_((2, 2), (1, 2)).tolist()
torch.ones(2).new_tensor([1, 2]).dtype == torch.float32
torch.tensor([1.0, 2.0]).apply_(lambda v: v * 2).tolist()
torch.tensor([1.0, 2.0]).map_(torch.tensor([3.0, 4.0]), lambda a, b: a * b).tolist()
torch.tensor([1 + 2j]).real.tolist()
torch.tensor([1 + 2j]).imag.tolist()
torch.ones(2).imag
torch.ones(3, 4).T.stride()
torch.ones(2, 3, 4).mT.shape[1]
torch.tensor([[1 + 2j]]).H.tolist()
np.add(torch.tensor([1.0]), 1).tolist()
type(np.sin(torch.ones(2))).__name__
torch.ones(2).get_device()
torch.ones(2).is_contiguous()
torch.ones(2).is_cuda
torch.ones(2).untyped_storage().nbytes()
torch.ones(2).untyped_storage().clone().tolist()
torch.ones(1).untyped_storage().fill_(1).tolist()
""".strip().split("\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_result_is_pytorchs(expression):
    results = []
    for module in (rl, torch):
        try:
            results.append(eval(expression, {"torch": module, "np": np}))
        except Exception as error:
            results.append(type(error).__name__)
    assert results[0] == results[1]


def test_parts_of_complex_tensors_can_be_assigned():
    z = rl.tensor([1 + 2j, 3 + 4j])
    z.real = 5
    z.imag = rl.tensor([7.0, 8.0])
    assert z.tolist() == [5 + 7j, 5 + 8j]


def test_metadata_of_tensors_that_require_grad_stays():
    with pytest.raises(RuntimeError, match=r"x = x\.t\("):
        rl.ones(2, 2, requires_grad=True).t_()
