"""functorch's functions of modules, which PyTorch keeps: parameters as tuples, ensembles under vmap."""

import pytest

import rushlight as rl
from rushlight import functorch, nn

pytestmark = pytest.mark.filterwarnings("ignore:functorch")


def model():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()


def test_a_module_as_a_function_of_its_parameters():
    layer = nn.Linear(3, 2)
    with pytest.warns(FutureWarning, match="functional_call"):
        function, params = functorch.make_functional(layer)
    x = rl.ones(1, 3)
    assert rl.equal(function(params, x), layer(x)) and all(p.requires_grad for p in params)
    assert params[0] is not layer.weight and function.stateless_model.weight.is_meta
    grads = functorch.grad(lambda p: function(p, x).sum())(params)
    assert grads[0].tolist() == [[1.0] * 3] * 2 and grads[1].tolist() == [1.0, 1.0]
    assert not functorch.make_functional(layer, disable_autograd_tracking=True)[1][0].requires_grad


def test_tied_weights_are_one_parameter():
    layer = nn.Linear(2, 2)
    function, params = functorch.make_functional(nn.Sequential(layer, layer))
    assert len(params) == 2
    assert rl.equal(function(params, rl.ones(1, 2)), layer(layer(rl.ones(1, 2))))


def test_an_ensemble_is_one_call():
    models, x = [model() for _ in range(3)], rl.rand(4, 3)
    function, params, buffers = functorch.combine_state_for_ensemble(models)
    together = functorch.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    assert [tuple(p.shape) for p in params[:2]] == [(3, 2, 3), (3, 2)] and not params[0].requires_grad
    rl.testing.assert_close(together, rl.stack([m(x) for m in models]).detach())
    one, params, buffers = functorch.make_functional_with_buffers(models[0])
    rl.testing.assert_close(one(params, buffers, x), models[0](x))


@pytest.mark.parametrize(
    "call",
    [
        lambda: functorch.make_functional(model()),
        lambda: functorch.combine_state_for_ensemble([]),
        lambda: functorch.combine_state_for_ensemble([nn.Linear(1, 1), nn.ReLU()]),
        lambda: functorch.combine_state_for_ensemble([model(), model().train()]),
    ],
)
def test_what_makes_no_function_is_refused(call):
    with pytest.raises(RuntimeError):
        call()
