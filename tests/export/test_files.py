""".pt2 files: PyTorch's load and run here, ours there; damaged and foreign ones are refused, nothing in them runs."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

import rushlight as rl
from rushlight import export as ex, nn
from rushlight.export import Dim, export
from tests.export.models import MODELS, arguments, make, torch_arguments


def leaves(x):
    return [np.asarray(t.detach()) if hasattr(t, "detach") else t for t in rl.utils._pytree.tree_leaves(x)]


def near(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


def stored(program, save) -> io.BytesIO:
    stream = io.BytesIO()
    save(program, stream)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("name", MODELS)
def test_files_go_both_ways(name, decomposed):
    torch = pytest.importorskip("torch")
    theirs, ours = torch.export.export(*torch_arguments(name)), export(make(rl, name), arguments(rl, name))
    if decomposed:
        theirs, ours = theirs.run_decompositions(), ours.run_decompositions()
    expected = make(torch, name)(*arguments(torch, name))
    here = ex.load(stored(theirs, torch.export.save))
    near(here.module()(*arguments(rl, name)), expected)
    near(ex.load(stored(here, ex.save)).module()(*arguments(rl, name)), expected)
    there = torch.export.load(stored(ours, ex.save))
    near(there.module()(*arguments(torch, name)), expected)


def state(t):
    class State(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 3)
            self.register_buffer("n", t.zeros(()))
            self.register_buffer("hidden", t.ones(3), persistent=False)
            self.table = t.tensor([1.0, 2.0, 3.0])

        def forward(self, x, d, *, flag=True, y=None):
            self.n.add_(1)
            a, _ = t.split(x, 2, dim=1)
            h = self.lin(x) * self.hidden + self.table
            n = x.shape[0]
            return {"h": h, "z": [h[:, 0] + d["q"], a.max(1)[0]], "n": n, "m": n * 2 + 1, "r": x.reshape(n * 2, 2)}

    model = State()
    with t.no_grad():
        for p in model.parameters():
            p.fill_(0.25)
    return model


def exported(t, count=5):
    batch = t.export.Dim("batch", max=64)
    shapes = {"x": {0: batch}, "d": {"q": {0: batch}}, "flag": None, "y": {0: batch}}
    args = (t.ones(count, 4), {"q": t.ones(count)}), {"flag": True, "y": t.ones(count)}
    return t.export.export(state(t), *args, dynamic_shapes=shapes)


def run(t, module, count):
    return module((x := t.ones(count, 4)), {"q": x[:, 0]}, flag=True, y=x[:, 0])


def test_sizes_state_and_structures_go_both_ways():
    torch = pytest.importorskip("torch")
    expected = run(torch, state(torch), 9)
    here = ex.load(stored(exported(torch), torch.export.save))
    module = here.module()
    near(run(rl, module, 9), expected)
    run(rl, module, 3)
    assert module.n == 2 and here.graph_signature.non_persistent_buffers == ("hidden",)
    with pytest.raises(AssertionError, match=r"at most 64, got 65"):
        run(rl, module, 65)
    there = torch.export.load(stored(exported(rl), ex.save))
    near(run(torch, there.module(), 9), expected)
    assert [str(r) for r in there.range_constraints.values()] == ["VR[0, 64]"]
    with pytest.raises((RuntimeError, AssertionError)):
        run(torch, there.module(), 65)


def test_a_file_keeps_everything_of_ours(tmp_path):
    program = exported(rl)
    ex.save(program, tmp_path / "model.pt2", extra_files={"note.txt": "hello"})
    extra = {"note.txt": ""}
    again = ex.load(tmp_path / "model.pt2", extra_files=extra)
    assert extra["note.txt"] == "hello"
    assert str(again.graph) == str(program.graph)
    assert str(again.graph_signature) == str(program.graph_signature)
    assert again.range_constraints == program.range_constraints
    assert [e.fqn for e in again.module_call_graph] == [e.fqn for e in program.module_call_graph]
    assert again.example_inputs[0][0].shape == (5, 4)
    near(run(rl, again.module(), 7), run(rl, program.module(), 7))
    assert ex.unflatten(again).lin is not None


# --- damaged and foreign ----------------------------------------------------------------------------------------------


def edited(stream: io.BytesIO, change) -> io.BytesIO:
    """The archive with other records."""
    with zipfile.ZipFile(stream) as old:
        records = {n: old.read(n) for n in old.namelist()}
    change(records)
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_STORED) as new:
        for name, data in records.items():
            new.writestr(name, data)
    result.seek(0)
    return result


def plain() -> io.BytesIO:
    return stored(export(nn.Linear(4, 3), (rl.ones(2, 4),), dynamic_shapes=({0: Dim("b")},)), ex.save)


def test_truncated_files_are_refused():
    data = plain().getvalue()
    for part in (0, 1, 30, len(data) // 3, len(data) // 2, len(data) - 1):
        with pytest.raises((RuntimeError, ValueError, EOFError)):
            ex.load(io.BytesIO(data[:part]))


def test_damaged_bytes_never_run_and_never_crash():
    data = bytearray(plain().getvalue())
    draw = np.random.default_rng(0)
    for _ in range(150):
        broken = bytearray(data)
        for at in draw.integers(0, len(data), 6):
            broken[at] = draw.integers(0, 256)
        try:
            ex.load(io.BytesIO(bytes(broken)))
        except (RuntimeError, ValueError, NotImplementedError):
            pass


def change_json(path):
    def change(records):
        name = next(n for n in records if n.endswith("models/model.json"))
        said = json.loads(records[name])
        path(said)
        records[name] = json.dumps(said).encode()

    return change


def target(name):
    return change_json(lambda said: said["graph_module"]["graph"]["nodes"][0].update(target=name))


def cut_weight(records):
    name = next(n for n in records if n.endswith("weights/weight_0"))
    records[name] = records[name][:8]


def pickled(records):
    name = next(n for n in records if n.endswith("model_weights_config.json"))
    said = json.loads(records[name])
    next(iter(said["config"].values()))["use_pickle"] = True
    records[name] = json.dumps(said).encode()


def expression(text):
    def change(said):
        sizes = said["graph_module"]["graph"]["tensor_values"]["input"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = text

    return change_json(change)


@pytest.mark.parametrize(("change", "words"), [
    (target("os.system"), "is no op"), (target("torch.ops.aten.__class__.default"), "not known here"),
    (target("torch.ops.none.such.default"), "not known here"), (target("builtins.eval"), "is no op"),
    (cut_weight, "too few"), (pickled, "pickle"),
    (expression("__import__('os').system('true')"), "no size"), (expression("open('x')"), "computed with open|no size"),
    (change_json(lambda said: said["schema_version"].update(major=99)), "version 99"),
    (change_json(lambda said: said["graph_module"].pop("signature")), "damaged"),
    (change_json(lambda said: said["graph_module"]["graph"]["nodes"].clear()), "before it is computed"),
])
def test_files_that_contradict_themselves_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        ex.load(edited(plain(), change))


def test_other_files_are_refused(tmp_path):
    rl.save({"x": rl.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"no \.pt2 file"):
        ex.load(tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError, match="no file"):
        ex.load(tmp_path / "none.pt2")
    with pytest.raises(TypeError, match="ExportedProgram"):
        ex.save(nn.Linear(2, 2), tmp_path / "y.pt2")


def elements(t):
    """Programs whose numbers are elements: bounded ones, counts, floats."""

    class Cut(t.nn.Module):
        def forward(self, x, n):
            k = n.item()
            t._check(k >= 1)
            t._check(k <= x.shape[0])
            return x[:k].sum()

    class Count(t.nn.Module):
        def forward(self, x, n):
            return x.nonzero() + n

    class Scaled(t.nn.Module):
        def forward(self, x, n):
            return x * x.max().item() + n

    return Cut(), Count(), Scaled()


@pytest.mark.parametrize("which", [0, 1, 2], ids=["cut", "count", "scaled"])
def test_numbers_that_are_elements_go_both_ways(which):
    args = (rl.tensor([1.0, 0.0, 3.0]), rl.tensor(2))
    expected = elements(rl)[which](*args)
    program = export(elements(rl)[which], args)
    assert {str(k): str(r) for k, r in program.range_constraints.items()} == (
        {"u0": "VR[1, 3]"}, {"u0": "VR[0, 3]"}, {})[which]
    again = ex.load(stored(program, ex.save))
    assert rl.equal(again.module()(*args), expected)
    assert rl.equal(ex.load(stored(again, ex.save)).module()(*args), expected)
    if which == 0:
        with pytest.raises(RuntimeError, match="u0 <= 3"):
            again.module()(args[0], rl.tensor(4))
    torch = pytest.importorskip("torch")
    given = (torch.tensor([1.0, 0.0, 3.0]), torch.tensor(2))
    theirs = torch.export.export(elements(torch)[which], given)
    assert rl.equal(ex.load(stored(theirs, torch.export.save)).module()(*args), expected)
    assert torch.export.load(stored(program, ex.save)).module()(*given).tolist() == expected.tolist()
