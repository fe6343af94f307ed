"""Exported programs mean what the module does: gradients, tensors made on the way, writes; and errors are PyTorch's."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._dynamo.exc import TorchDynamoException, Unsupported, UserError
from rushlight._export.verifier import SpecViolationError, TrainingIRVerifier, Verifier
from rushlight.export import Dim, export
from rushlight.export.passes import move_to_device_pass
from rushlight.fx.experimental.symbolic_shapes import ConstraintViolationError


def of(function, *parts):
    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            for i, part in enumerate(parts):
                setattr(self, f"part{i}", part)

        def forward(self, *args):
            return function(self, *args)

    return Program()


def targets(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_no_gradient_passes_what_was_detached():
    rl.manual_seed(0)
    model = of(lambda m, x: ((y := m.part0(x)).detach() * y + y.data).sum(), nn.Linear(3, 3))
    x = rl.ones(2, 3)
    program = export(model, (x,))
    assert targets(program).count("aten.detach.default") == 2
    run = program.module()
    model(x).backward()
    wanted = model.part0.weight.grad.clone()
    model.part0.weight.grad = None
    run(x).backward()
    assert rl.allclose(model.part0.weight.grad, wanted)      # the program's parameters are the model's


def test_tensors_made_of_data_are_new_in_every_run():
    def grow(m, x):
        t = rl.tensor([1.0, 2.0])
        t.add_(x)
        return t

    x = rl.ones(2)
    program = export(of(grow), (x,))
    for version in (program, program.run_decompositions()):
        run = version.module()
        assert run(x).tolist() == run(x).tolist() == [2.0, 3.0]


def test_data_of_the_programs_own_can_be_read():
    def shaped(m, x):
        sizes = rl.tensor([3, 2])
        a, b = sizes.tolist()
        return x.reshape(a, b) * (2 if rl.tensor(True) else 3) * int(rl.as_tensor(4))

    x = rl.arange(6.0)
    assert rl.equal(export(of(shaped), (x,)).module()(x), x.reshape(3, 2) * 8)


def test_numbers_of_a_tensor_as_a_list():
    def cut(m, x, n):
        a, b = n.tolist()
        rl._check(a >= 0)
        rl._check(b >= 0)
        rl._check(a + b <= 5)
        return x.new_zeros(a), x.new_ones(b)

    x = rl.arange(5.0)
    run = export(of(cut), (x, rl.tensor([2, 3]))).module()
    assert [t.shape[0] for t in run(x, rl.tensor([4, 1]))] == [4, 1]
    with pytest.raises(RuntimeError, match="<= 5|5 >="):
        run(x, rl.tensor([4, 2]))


def test_transforms_inside_programs():
    x = rl.randn(2, 3)
    held = rl.randn(3)
    run = export(of(lambda m, x: rl.vmap(lambda row: (row * held).sin().sum())(x)), (x,)).module()
    assert rl.allclose(run(x + 1), ((x + 1) * held).sin().sum(1), atol=1e-6)


def test_sizes_are_results():
    x = rl.ones(2, 3)
    assert tuple(export(of(lambda m, x: x.size()), (x,)).module()(x)) == (2, 3)


def test_attributes_are_as_before_and_it_is_said():
    class Counts(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x + self.calls

    model = Counts()
    with pytest.warns(UserWarning, match=r"changes Counts\.calls"):
        program = export(model, (rl.zeros(2),))
    assert model.calls == 0 and program.module()(rl.zeros(2)).tolist() == [1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(nn.Linear(2, 2), (rl.zeros(2),))


def test_checks_have_pytorchs_name():
    program = export(of(lambda m, x, n: (rl._check((k := n.item()) > 1), x + k)[1]), (rl.ones(2), rl.tensor(5)))
    assert "aten._assert_scalar.default" in targets(program)
    assert "torch.ops.aten._assert_scalar.default(" in program.graph_module.code
    assert rl.ops.aten._assert_scalar.default(True, "") is None
    with pytest.raises(RuntimeError, match="no"):
        rl.ops.aten._assert_scalar.default(False, "no")
    assert rl.ops.aten.item.default(rl.tensor(3)) == 3
    with pytest.raises(RuntimeError):
        program.module()(rl.ones(2), rl.tensor(0))


def test_slices_and_new_tensors_are_written_as_pytorch_does():
    def code(function):
        return export(of(function), (rl.ones(4, 6),)).graph_module.code

    assert "slice.Tensor(args_0, 0, 1, 9223372036854775807)" in code(lambda m, x: x[1:])
    assert "slice.Tensor(args_0, 1, 0, 2)" in code(lambda m, x: x[:, :2])
    assert "slice.Tensor(args_0, 0, 0, 9223372036854775807, 2)" in code(lambda m, x: x[::2])
    assert "zeros.default([3], device = device(type='cpu'), pin_memory = False)" in code(lambda m, x: rl.zeros(3))


def test_errors_are_of_pytorchs_classes():
    linear, x = nn.Linear(4, 8), rl.ones(3, 4)
    for error, call in [
        (TypeError, lambda: export(linear, (x, x))), (ValueError, lambda: export(linear, (object(),))),
        (IndexError, lambda: export(linear, (x,), dynamic_shapes=({5: Dim("b")},))),
        (ConstraintViolationError, lambda: export(linear, (x,), dynamic_shapes=({0: Dim("b", max=2)},))),
        (AssertionError, lambda: Dim("b", min=5, max=3)), (AssertionError, lambda: Dim("no name")),
        (UserError, lambda: export(linear, x)),
    ]:
        with pytest.raises(error):
            call()
    assert issubclass(UserError, TorchDynamoException) and not issubclass(UserError, Unsupported)


# --- programs as objects ----------------------------------------------------------------------------------------------


def test_verifiers_check_graphs():
    program = export(of(lambda m, x: x.add_(1)), (rl.ones(2),))
    assert program.verifier is TrainingIRVerifier and program.verifiers == [TrainingIRVerifier]
    core = program.run_decompositions()
    assert core.verifier is Verifier and core.dialect == "ATEN"
    with pytest.raises(SpecViolationError, match="writes"):
        Verifier().check(program)

    class NoAdd(Verifier):
        dialect = "NO_ADD"

        def check_valid_op(self, op):
            if op == rl.ops.aten.add.Tensor:
                raise SpecViolationError("add")

    with pytest.raises(SpecViolationError, match="add"):
        core._update(core.graph_module, core.graph_signature, verifiers=[NoAdd])
    core.graph_signature.input_specs.clear()
    with pytest.raises(SpecViolationError, match="signature"):
        core.validate()


def test_parts_of_a_program_are_not_set():
    program = export(nn.Linear(2, 2), (rl.ones(1, 2),))
    for name in ("graph", "state_dict", "graph_signature", "dialect"):
        with pytest.raises(RuntimeError, match=name):
            setattr(program, name, None)
    program.example_inputs = ((rl.zeros(1, 2),), {})
    with pytest.raises(ValueError, match="tuple of arguments"):
        program.example_inputs = rl.zeros(1, 2)
    with pytest.raises(ValueError, match="exported for 1"):
        program.example_inputs = ((), {})


def test_programs_move_to_another_device():
    model = of(lambda m, x: m.part0(x) + rl.zeros(2), nn.Linear(2, 2))
    program = move_to_device_pass(export(model, (rl.ones(1, 2),)), "meta")
    assert {p.device.type for p in program.parameters()} == {"meta"}
    assert "device = device(type='meta')" in program.graph_module.code
    assert program.module()(rl.ones(1, 2, device="meta")).device.type == "meta"
    assert model.part0.weight.device.type == "cpu"
    back = move_to_device_pass(export(model, (rl.ones(1, 2),)), {"cuda:0": "cpu"})
    assert rl.allclose(back.module()(rl.ones(1, 2)), model(rl.ones(1, 2)))


def test_writes_of_custom_ops_are_results_of_decomposed_programs():
    @rl.library.custom_op("tests_meaning::add_to", mutates_args={"x"})
    def add_to(x: rl.Tensor, y: rl.Tensor) -> None:
        x.add_(y)

    @add_to.register_fake
    def _(x, y):
        return None

    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sum", rl.zeros(2, 2))

        def forward(self, x):
            add_to(self.sum[0], x)
            add_to(self.sum[0], y=x)
            return self.sum * 2

    program = export(Sums(), (rl.ones(2),))
    core = program.run_decompositions()
    assert list(core.graph_signature.buffers_to_mutate.values()) == ["sum"]
    for version in (program, core):
        run = version.module()
        before = run.sum.clone()
        assert rl.equal(run(rl.ones(2)), (before + rl.tensor([[2.0], [0.0]])) * 2)
        assert rl.equal(run.sum, before + rl.tensor([[2.0], [0.0]]))


def to_two_rows(m, x):
    y = x * 2
    z = y.view(-1)
    y.resize_(2, 2).add_(1)
    return y, z


def behind_the_first(m, x):
    y = x * 2
    part = y[1:]
    part.resize_(2)
    part.mul_(5)
    return y


def as_another(m, x):
    return (x * 2).resize_as_(x.new_empty(2, 1)).t()


@pytest.mark.parametrize("function", (to_two_rows, behind_the_first, as_another))
def test_what_is_resized_has_its_new_sizes(function):
    model, x = of(function), rl.arange(4.0)
    program = export(model, (x,))
    assert "aten.as_strided.default" in targets(program)
    for version in (program, program.run_decompositions()):
        rl.testing.assert_close(version.module()(x), model(x), rtol=0, atol=0)


def test_memory_does_not_grow_in_a_graph():
    with pytest.raises(NotImplementedError, match=r"resize_ to \[8\]"):
        export(of(lambda m, x: (x * 2).resize_(8)), (rl.arange(4.0),))
