"""What the op sweep cannot show: custom Functions and ops, modules, randomness, refusals."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from rushlight import library
from rushlight.autograd import Function, forward_ad as fwad
from rushlight.func import (
    debug_unwrap,
    functional_call,
    functionalize,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)


def f64(values):
    return rl.tensor(values, dtype=rl.float64)


def close(a, b, tol=1e-9) -> bool:
    return a.shape == b.shape and (a - b).abs().max().item() <= tol


# --- custom Functions -------------------------------------------------------------------------------------------------


class Cube(Function):
    """x**3, with rules of its own for everything; the backward is marked by a factor so that its use shows."""

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * x

    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == x.shape[in_dims[0]] and info.randomness == "error"
        return Cube.apply(x), in_dims[0]

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * t * x * x


class Generated(Function):
    generate_vmap_rule = True
    forward, setup_context, backward, jvp = (Cube.__dict__[n] for n in ("forward", "setup_context", "backward", "jvp"))


@pytest.mark.parametrize("cube", [Cube, Generated])
def test_function_composes(cube) -> None:
    x = f64([[1.0, 2.0], [3.0, -1.0]])
    total = lambda x: cube.apply(x).sum()  # noqa: E731
    assert close(grad(total)(x), 3 * x**2)
    assert close(grad(lambda x: grad(total)(x).sum())(x), 6 * x)
    assert close(vmap(cube.apply)(x), x**3)
    assert close(vmap(cube.apply, in_dims=1, out_dims=1)(x), x**3)
    assert close(vmap(grad(total))(x), 3 * x**2)
    assert close(grad(lambda x: vmap(cube.apply)(x).sum())(x), 3 * x**2)
    assert close(jvp(cube.apply, (x,), (x,))[1], 3 * x**3)
    assert close(vmap(lambda x: jvp(cube.apply, (x,), (x,))[1])(x), 3 * x**3)
    assert close(jvp(vmap(cube.apply), (x,), (x,))[1], 3 * x**3)
    assert close(jacrev(total)(x), 3 * x**2) and close(jacfwd(total)(x), 3 * x**2)
    assert close(vmap(vmap(cube.apply))(x), x**3)
    assert hessian(total)(x).shape == (2, 2, 2, 2)


class TwoInputs(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w, power):
        return x * w**power, w.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.power = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * w**ctx.power, g * x * ctx.power * w ** (ctx.power - 1) + h, None


def test_generated_rule_sums_over_examples_for_shared_inputs() -> None:
    x, w = f64([[1.0, 2.0], [3.0, 4.0]]), f64([2.0, 5.0])
    f = lambda w: vmap(lambda x: TwoInputs.apply(x, w, 2)[0])(x).sum()  # noqa: E731
    assert close(grad(f)(w), (x * 2 * w).sum(0))
    out, total = vmap(lambda x: TwoInputs.apply(x, w, 2))(x)
    assert close(out, x * w**2) and total.tolist() == [7.0, 7.0]


def test_function_refusals() -> None:
    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    class NoRule(Function):
        forward, setup_context, backward = (Cube.__dict__[n] for n in ("forward", "setup_context", "backward"))

    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda x: Old.apply(x).sum())(f64([1.0]))
    with pytest.raises(RuntimeError, match="generate_vmap_rule"):
        vmap(NoRule.apply)(f64([1.0]))


# --- custom ops -------------------------------------------------------------------------------------------------------


def test_custom_op_under_transforms() -> None:
    @library.custom_op("functest::scaled", mutates_args=())
    def scaled(x: rl.Tensor, factor: float) -> rl.Tensor:
        return x * factor

    scaled.register_autograd(
        lambda ctx, g: (g * ctx.factor * 10, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    x = f64([1.0, 2.0])
    # the registered derivative, not the kernel's
    assert grad(lambda x: scaled(x, 3.0).sum())(x).tolist() == [30.0, 30.0]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert vmap(lambda x: scaled(x, 3.0))(x).tolist() == [3.0, 6.0]
    assert any("once per example" in str(w.message) for w in seen)
    calls = []

    @scaled.register_vmap
    def rule(info, in_dims, x, factor):
        calls.append((info.batch_size, in_dims))
        return scaled(x, factor), in_dims[0]

    assert vmap(lambda x: scaled(x, 3.0))(x).tolist() == [3.0, 6.0] and calls == [(2, (0, None))]
    assert vmap(grad(lambda x: scaled(x, 3.0)))(x).tolist() == [30.0, 30.0]


# --- modules ----------------------------------------------------------------------------------------------------------


class Module:
    """What functional_call needs of a module, and nothing else."""

    def __init__(self, **tensors) -> None:
        self._parameters = {k: t for k, t in tensors.items() if t.requires_grad}
        self._buffers = {k: t for k, t in tensors.items() if not t.requires_grad}
        self._modules: dict = {}
        self.training = True

    def __getattr__(self, name):
        for table in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(table, {}):
                return self.__dict__[table][name]
        raise AttributeError(name)

    def named_parameters(self):
        yield from self._parameters.items()

    def named_buffers(self):
        yield from self._buffers.items()

    def __call__(self, x, scale=1.0):
        return (x @ self.weight + self.shift) * scale


def module(seed: float = 1.0) -> Module:
    return Module(weight=f64([[1.0, 2.0], [3.0, 4.0]]).mul(seed).requires_grad_(), shift=f64([0.5, 0.5]))


def test_functional_call() -> None:
    m, x = module(), f64([1.0, 1.0])
    before = dict(m._parameters)
    assert functional_call(m, {"weight": f64([[1.0, 0.0], [0.0, 1.0]])}, (x,)).tolist() == [1.5, 1.5]
    assert functional_call(
        m, ({"weight": f64([[1.0, 0.0], [0.0, 1.0]])}, {"shift": f64([0.0, 0.0])}), x, {"scale": 2.0}
    ).tolist() == [2.0, 2.0]
    assert m._parameters == before
    g = grad(lambda p: functional_call(m, p, (x,)).sum())({"weight": m.weight.detach()})
    assert g["weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="Missing key"):
        functional_call(m, {"weight": m.weight}, (x,), strict=True)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        functional_call(m, {"weight": m.weight, "shift": m.shift, "other": m.shift}, (x,), strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(m, [{"weight": m.weight}, {"weight": m.weight}], (x,))


def test_updated_buffers_reach_the_caller() -> None:
    m = module()
    type(m).__call__, plain = (lambda self, x: self._buffers.update(shift=self.shift + x) or x), type(m).__call__
    try:
        state = {"shift": f64([0.0, 0.0])}
        functional_call(m, state, (f64([1.0, 2.0]),))
    finally:
        type(m).__call__ = plain
    assert state["shift"].tolist() == [1.0, 2.0] and m.shift.tolist() == [0.5, 0.5]


def test_tied_weights() -> None:
    m = module()
    inner = Module()
    inner._parameters["weight"] = m.weight
    m._modules["inner"] = inner
    other = f64([[1.0, 0.0], [0.0, 1.0]])
    seen = []
    type(m).__call__, plain = (lambda self, x: seen.append(self.inner.weight) or x), type(m).__call__
    try:
        functional_call(m, {"weight": other}, (other,))
        functional_call(m, {"weight": other}, (other,), tie_weights=False)
    finally:
        type(m).__call__ = plain
    assert seen[0] is other and seen[1] is m.weight
    with pytest.raises(ValueError, match="tied"):
        functional_call(m, {"weight": other, "inner.weight": other.clone()}, (other,))


def test_ensembles() -> None:
    models = [module(1.0), module(2.0), module(3.0)]
    params, buffers = stack_module_state(models)
    assert params["weight"].shape == (3, 2, 2) and params["weight"].requires_grad and buffers["shift"].shape == (3, 2)
    x = f64([[1.0, 2.0], [3.0, 4.0]])
    base = module()
    out = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, x)
    assert close(out, rl.stack([m(x) for m in models]))


def test_numbers_of_each_example_as_indices() -> None:
    x, at = rl.arange(12, dtype=rl.float64).reshape(3, 4), rl.tensor([0, 2, 3])

    def write(a, i):
        a = a.clone()
        a[i] = 7.0
        a[..., i] += 1
        return a

    for f in (
        lambda a, i: a[i],
        write,
        lambda a, i: x[:, i],
        lambda a, i: x[None, 1, i],
        lambda a, i: x[i.clamp(max=2), i],
        grad(lambda a, i: a[i] ** 2),
    ):
        assert close(vmap(f)(x, at), rl.stack([f(a, i) for a, i in zip(x, at, strict=True)]))


# --- randomness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: rl.randn(3),
        lambda x: rl.rand_like(x),
        lambda x: rl.nn.functional.dropout(rl.ones(3) * x, 0.5),
        lambda x: x.clone().uniform_(),
    ],
)
def test_randomness(draw) -> None:
    x = rl.ones(4, 3)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(draw)(x)
    rl.manual_seed(0)
    same = vmap(draw, randomness="same")(x)
    assert all(rl.equal(same[0], row) for row in same)
    different = vmap(draw, randomness="different")(x)
    assert different.shape == (4, 3) and not all(rl.equal(different[0], row) for row in different)
    assert grad(lambda x: draw(x).sum())(rl.ones(3)).shape == (3,)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use", [lambda x: x.item(), lambda x: x if x > 0 else -x, lambda x: float(x), lambda x: x.tolist()]
)
def test_data_dependent_values_are_refused(use) -> None:
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(use)(f64([1.0, 2.0]))


@pytest.mark.parametrize(
    "use", [lambda x: x.nonzero(), lambda x: x[x > 0], lambda x: x.unique(), lambda x: x.masked_select(x > 0)]
)
def test_data_dependent_shapes_are_refused(use) -> None:
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(use)(f64([[1.0, 2.0], [0.0, 1.0]]))


def test_arguments_are_checked() -> None:
    x = f64([[1.0, 2.0], [3.0, 4.0]])
    for bad in (
        lambda: vmap(lambda x: x)(),
        lambda: vmap(lambda x, y: x + y)(x, f64([1.0, 2.0, 3.0])),
        lambda: vmap(lambda x: x, in_dims=3)(x),
        lambda: vmap(lambda x: x, in_dims=(0, 0))(x),
        lambda: vmap(lambda x: x, in_dims=(None,))(x),
        lambda: vmap(lambda x: x)(2.0),
        lambda: vmap(lambda x: 1)(x),
        lambda: vmap(lambda x: x, out_dims=None)(x),
        lambda: vmap(lambda x: x, chunk_size=0),
    ):
        with pytest.raises((ValueError, IndexError)):
            bad()
    for bad in (
        lambda: vmap(lambda x: x, randomness="maybe"),
        lambda: grad(lambda x: x)(x),
        lambda: grad(lambda x: 1.0)(x),
        lambda: grad(lambda x: x.sum(), argnums=2)(x),
        lambda: grad(lambda x: x.sum())(rl.tensor([1, 2])),
        lambda: jvp(lambda x: x, (x,), (x[0],)),
        lambda: jvp(lambda x: f64(1.0), (x,), (x,), strict=True),
        lambda: vjp(lambda x: x, x)[1]((x, x)),
    ):
        with pytest.raises(RuntimeError):
            bad()


def test_writes_outside_are_refused() -> None:
    outside = rl.zeros(2, dtype=rl.float64)
    with pytest.raises(RuntimeError, match="made outside"):
        grad(lambda x: (outside.copy_(x) * x).sum())(f64([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="in place"):
        vmap(lambda x: outside.add_(x))(f64([[1.0, 2.0]]))


def test_writes_inside_are_followed() -> None:
    def f(x):
        y = rl.zeros(2, 2, dtype=rl.float64)
        y[0] = x
        y[1].copy_(x * x)
        return (y * y).sum()

    x = f64([1.0, 2.0])
    assert close(grad(f)(x), 2 * x + 4 * x**3)
    assert close(jvp(f, (x,), (f64([1.0, 0.0]),))[1], f64(6.0))


def test_levels_end() -> None:
    kept = []
    grad(lambda x: kept.append(x) or (x * x).sum())(f64([3.0]))
    vmap(lambda x: kept.append(x) or x)(f64([1.0, 2.0]))
    assert (kept[0] + 1).tolist() == [4.0] and not (kept[0] * 2).requires_grad
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 // 0)(f64([1.0]))
    assert rl.ones(2).add(1).tolist() == [2.0, 2.0] and not rl._C.get_thread_keys()[0] & 4
    vmap(lambda x: kept.append(debug_unwrap(x)) or x)(f64([1.0, 2.0]))
    assert kept[-1].shape == (2,)


def test_functionalize() -> None:
    def f(x):
        y = x.view(-1)
        y.add_(1)
        return y

    x = f64([[1.0, 2.0]])
    assert functionalize(f)(x).tolist() == [2.0, 3.0] and x.tolist() == [[2.0, 3.0]]
    with pytest.raises(RuntimeError, match="mutations"):
        functionalize(f, remove="other")


# --- forward mode -----------------------------------------------------------------------------------------------------


def test_dual_levels_compose_with_transforms() -> None:
    x = f64([0.5, 1.5])
    with fwad.dual_level():
        dual = fwad.make_dual(x, f64([1.0, 1.0]))
        g = grad(lambda x: (x**3).sum())(dual)
        assert close(fwad.unpack_dual(g).tangent, 6 * x)
        batched = vmap(lambda x: x.sin())(dual)
        assert close(fwad.unpack_dual(batched).tangent, x.cos())
        inner = jvp(lambda y: y * y * dual, (x,), (f64([1.0, 1.0]),))[1]
        assert close(fwad.unpack_dual(inner).tangent, 2 * x)


def test_reverse_through_duals() -> None:
    x = f64([0.5]).requires_grad_()
    with fwad.dual_level():
        y = fwad.make_dual(x.detach(), f64([1.0])).requires_grad_()
        (g,) = rl.autograd.grad((y**3).sum(), y, create_graph=True)
        assert fwad.unpack_dual(g).tangent.tolist() == pytest.approx([3.0])


def test_vjp_of_one_primal_gives_a_tuple() -> None:
    x = rl.ones(3)
    _, pull = vjp(rl.sin, x)
    (g,) = pull(x)
    assert rl.allclose(g, x.cos())
    _, pull = vjp(lambda tree: tree["a"].sin(), {"a": x})
    (tree,) = pull(x)
    assert set(tree) == {"a"}


def test_indices_of_batches_of_many_shapes() -> None:
    """A plan of one shape of a batch must not serve another."""
    for shape in ((2, 3, 5), (2, 3, 8), (3, 2, 8), (2, 1, 13), (3, 3, 5)):
        x = rl.randn(*shape)
        values, places = x.sort(-1)
        assert rl.func.vmap(lambda x, i: x.gather(-1, i))(x, places).equal(values)
        zeros = rl.zeros(*shape)
        assert rl.func.vmap(lambda z, i, v: z.scatter(-1, i, v))(zeros, places, values).equal(x)
        assert rl.func.vmap(rl.func.grad(lambda x: (x.sort(-1)[0] * 2).sum()))(x).equal(rl.full(shape, 2.0))
