"""Regions of a program: without gradients, with other types, conditional. They stay what they are: in training, in
files of both frameworks, and once decomposed."""

from __future__ import annotations

import io

import pytest

import rushlight as rl
import rushlight.export as ex


def averaged(t):
    class Averaged(t.nn.Module):
        """A layer and, without gradients, the same layer of it and a running mean."""

        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 4)
            self.register_buffer("mean", t.zeros(4))

        def forward(self, x):
            with t.no_grad():
                self.mean.mul_(0.5).add_(x.mean(0))
                fixed = self.lin(x)
            return fixed + self.lin(x) * 2 + self.mean

    model = Averaged()
    with t.no_grad():
        model.lin.weight.fill_(0.25), model.lin.bias.fill_(0.5)
    return model


def autocast(t):
    class Autocast(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 4)

        def forward(self, x):
            with t.autocast("cpu", t.bfloat16):
                y = self.lin(x)
            with t.autocast("cpu", enabled=False):
                return y.float() + self.lin(x)

    model = Autocast()
    with t.no_grad():
        model.lin.weight.fill_(0.26), model.lin.bias.fill_(0.5)
    return model


def chosen(t):
    class Chosen(t.nn.Module):
        def forward(self, x):
            return t.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))

    return Chosen()


def saved(t, program):
    stream = io.BytesIO()
    t.export.save(program, stream)
    return io.BytesIO(stream.getvalue())


def numbers(t, make, module):
    """Results, gradients and buffers after a step."""
    x = t.full((3, 4), -1.5)
    result = module(x)
    if result.requires_grad:
        result.sum().backward()
    grads = [p.grad.tolist() for _, p in sorted(module.named_parameters())]
    return result.tolist(), grads, [b.tolist() for b in module.buffers()]


def leaves(found):
    return rl.utils._pytree.tree_leaves(found)


def test_programs_that_are_trained_again_have_no_gradients_where_they_had_none():
    model = averaged(rl)
    program = rl.export.export(averaged(rl), (rl.ones(3, 4),))
    calls = program.graph.find_nodes(op="call_function", target=rl.ops.higher_order.wrap_with_set_grad_enabled)
    assert len(calls) == 1 and calls[0].args[0] is False
    assert numbers(rl, averaged, program.module()) == numbers(rl, averaged, model)
    assert model.lin.weight.grad.eq(-9.0).all()       # twice 3 rows of -1.5: the region adds nothing


def test_modes_of_a_whole_call_are_no_regions():
    with rl.no_grad():
        program = rl.export.export(averaged(rl), (rl.ones(3, 4),))
    assert not program.graph.find_nodes(op="get_attr")


def test_decomposed_regions_are_part_of_the_graph():
    program = rl.export.export(averaged(rl), (rl.ones(3, 4),)).run_decompositions()
    assert not program.graph.find_nodes(op="get_attr")
    assert program.graph_signature.buffers_to_mutate == {"add": "mean"}
    assert numbers(rl, averaged, program.module())[0] == numbers(rl, averaged, averaged(rl))[0]


def test_regions_in_modules_and_compiled():
    program = rl.export.export(averaged(rl), (rl.ones(3, 4),))
    expected = numbers(rl, averaged, averaged(rl))
    assert numbers(rl, averaged, ex.unflatten(program)) == expected
    compiled = rl.compile(rl.export.export(averaged(rl), (rl.ones(3, 4),)).module(), fullgraph=True)
    assert numbers(rl, averaged, compiled) == expected


def test_unflattened_modules_have_tensors_of_their_own():
    program = rl.export.export(averaged(rl), (rl.ones(3, 4),))
    module = ex.unflatten(program)
    module(rl.ones(3, 4))
    assert module.mean.eq(1).all() and program.state_dict["mean"].eq(0).all()


@pytest.mark.parametrize("make", [averaged, autocast, chosen])
def test_files_of_regions(make):
    expected = numbers(rl, make, make(rl))
    program = rl.export.export(make(rl), (rl.ones(3, 4),))
    again = ex.load(saved(rl, program))
    assert len(again.graph.nodes) == len(program.graph.nodes)
    assert numbers(rl, make, again.module()) == expected


@pytest.mark.parametrize("make", [averaged, autocast, chosen])
def test_files_of_regions_go_both_ways(make):
    torch = pytest.importorskip("torch")
    theirs = torch.export.export(make(torch), (torch.ones(3, 4),))
    expected = numbers(torch, make, make(torch))
    for found in (numbers(rl, make, ex.load(saved(torch, theirs)).module()),
                  numbers(torch, make, torch.export.load(saved(rl, ex.export(make(rl), (rl.ones(3, 4),)))).module())):
        for a, b in zip(leaves(found), leaves(expected), strict=True):
            assert a == pytest.approx(b, rel=1e-5)


def test_files_with_graphs_of_bad_names_are_refused():
    from rushlight.export.reading import read  # noqa: PLC0415 - what `load` calls
    from rushlight.export.writing import written  # noqa: PLC0415

    program = rl.export.export(averaged(rl), (rl.ones(3, 4),))
    said = written(program)
    for node in said["graph_module"]["graph"]["nodes"]:
        for given in node["inputs"]:
            if "as_graph" in given["arg"]:
                given["arg"]["as_graph"]["name"] = "forward"
    with pytest.raises(ValueError, match="'forward' cannot be the name of a graph"):
        read(said, dict(program.state_dict), {}, None)


def both(t):
    class Both(t.nn.Module):
        """Mixed precision, a part of it without gradients."""

        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 4)

        def forward(self, x):
            with t.autocast("cpu", t.bfloat16):
                y = self.lin(x)
                with t.no_grad():
                    z = self.lin(y)
            return y.float() * z.float() + self.lin(x)

    model = Both()
    with t.no_grad():
        model.lin.weight.fill_(0.26), model.lin.bias.fill_(0.5)
    return model


@pytest.mark.parametrize("make", [autocast, both])
def test_mixed_precision_stays_a_region(make):
    def calls(program):
        return program.graph.find_nodes(op="call_function", target=rl.ops.higher_order.wrap_with_autocast)

    program = rl.export.export(make(rl), (rl.ones(3, 4),))
    assert calls(program)[0].args[:4] == ("cpu", rl.bfloat16, True, False)
    inner = getattr(program.graph_module, calls(program)[0].args[4].target)
    assert [str(n.target) for n in inner.graph.nodes if n.op == "call_function"] == ["aten.linear.default"]
    expected = numbers(rl, make, make(rl))
    for version in (program.module(), ex.unflatten(program), ex.load(saved(rl, program)).module(),
                    rl.compile(rl.export.export(make(rl), (rl.ones(3, 4),)).module(), fullgraph=True)):
        version.zero_grad()
        for a, b in zip(leaves(numbers(rl, make, version)), leaves(expected), strict=True):
            assert a == pytest.approx(b, rel=1e-2)
    core = program.run_decompositions()
    assert not calls(core) and rl.ops.aten._to_copy.default in {n.target for n in core.graph.nodes}
    assert rl.equal(core.module()(rl.ones(3, 4)), make(rl)(rl.ones(3, 4)))


def test_mixed_precision_around_an_export_is_part_of_the_program():
    model = rl.nn.Linear(4, 4)
    with rl.autocast("cpu", rl.bfloat16):
        program = rl.export.export(model, (rl.ones(3, 4),))
    assert program.module()(rl.ones(3, 4)).dtype is rl.bfloat16
