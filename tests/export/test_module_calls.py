"""Modules inside exported programs: names of tensors they share, how they are called, modules made of them again."""

from __future__ import annotations

import io

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import export, load, save, unflatten


def program(library, nn):
    """The same modules for Rushlight and for PyTorch."""

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x, *, extra):
            return {"a": self.l(x) + extra, "b": (x, extra)}

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def forward(self, x):
            r = self.part(x + 1, extra=x * 2)
            return r["a"] + r["b"][0] * r["b"][1]

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(10, 4)
            self.out = nn.Linear(4, 10, bias=False)
            self.out.weight = self.emb.weight

        def forward(self, x):
            return self.out(self.emb(x))

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            return self.a(self.a(x).relu())

    return {"whole": Whole, "tied": Tied, "twice": Twice}


@pytest.fixture(params=["whole", "tied", "twice"])
def pair(request):
    torch = pytest.importorskip("torch")
    models = []
    for library, own in ((rl, nn), (torch, torch.nn)):
        library.manual_seed(0)
        models.append(program(library, own)[request.param]())
    x = torch.randint(0, 10, (2, 3)) if request.param == "tied" else torch.randn(2, 4)
    kept = ("part",) if request.param == "whole" else ()
    return *models, rl.tensor(x.tolist()), x, kept


def graphs(module):
    return {name: str(m.graph) for name, m in module.named_modules() if hasattr(m, "graph") and len(m.graph.nodes)}


def test_signatures_calls_and_modules_are_pytorchs(pair):
    torch = pytest.importorskip("torch")
    ours, theirs, x, tx, kept = pair
    ep = export(ours, (x,), preserve_module_call_signature=kept)
    tep = torch.export.export(theirs, (tx,), preserve_module_call_signature=kept)
    assert str(ep.graph_signature) == str(tep.graph_signature)
    assert ep.graph_module.code.strip() == tep.graph_module.code.strip()
    assert [repr(e) for e in ep.module_call_graph] == [repr(e) for e in tep.module_call_graph]
    tree, torch_tree = unflatten(ep), torch.export.unflatten(tep)
    assert [n for n, _ in tree.named_modules()] == [n for n, _ in torch_tree.named_modules()]
    assert graphs(tree) == graphs(torch_tree)
    assert list(tree.state_dict()) == list(torch_tree.state_dict())
    assert rl.allclose(tree(x), rl.tensor(torch_tree(tx).tolist()), atol=1e-5)


def test_a_module_whose_signature_is_kept_may_be_exchanged():
    model = program(rl, nn)["whole"]()
    x = rl.randn(2, 4)
    stream = io.BytesIO()
    ep = export(model, (x,), preserve_module_call_signature=("part",))
    save(ep, stream)
    stream.seek(0)

    class Other(nn.Module):
        def forward(self, x, *, extra):
            return {"a": x, "b": (extra, extra + 1)}

    wanted = (x + 1) + (x * 2) * (x * 2 + 1)
    for version in (ep, ep.run_decompositions(), load(stream)):
        tree = unflatten(version)
        assert rl.allclose(tree(x), model(x), atol=1e-6)
        tree.part = Other()
        assert rl.allclose(tree(x), wanted, atol=1e-6)


def test_calls_of_different_structure_each_keep_their_own():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x, y=None):
            return self.l(x) if y is None else (self.l(x) + y)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def forward(self, x):
            return self.part(self.part(x), x)

    model, x = Whole(), rl.randn(2, 4)
    ep = export(model, (x,), preserve_module_call_signature=("part",))
    assert [e.fqn for e in ep.module_call_graph if e.signature] == ["", "part", "part@1"]
    tree = unflatten(ep)
    for _ in range(2):       # it knows which call is next, and begins anew
        assert rl.allclose(tree(x), model(x), atol=1e-6)
    assert sorted(tree.state_dict()) == ["part.l.bias", "part.l.weight"]


def test_arguments_nobody_uses_are_still_arguments():
    class Part(nn.Module):
        def forward(self, x, unused):
            return x + 1

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def forward(self, x):
            return self.part(x, x * 3)

    x = rl.randn(3)
    tree = unflatten(export(Whole(), (x,), preserve_module_call_signature=["part"]))

    class Other(nn.Module):
        def forward(self, x, unused):
            return unused

    tree.part = Other()
    assert rl.equal(tree(x), x * 3)


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match=r"no module 'nope'.*\['0'\]"):
        export(nn.Sequential(nn.ReLU()), (rl.ones(2),), preserve_module_call_signature=("nope",))


def test_writes_to_tied_buffers_reach_both_names():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("u", rl.zeros(2))
            self.register_buffer("v", self.u)

        def forward(self, x):
            self.u.add_(1)
            return x + self.v

    ep = export(Counts(), (rl.zeros(2),))
    assert ep.graph_signature.buffers == ("u", "v")
    for version in (ep, ep.run_decompositions()):
        run = version.module()
        start = run.u.clone()
        assert rl.equal(run(rl.zeros(2)), start + 1)
        assert rl.equal(run.u, run.v) and rl.equal(run.u, start + 1)
