"""Programs that leave for XLA as wholes: compile(backend="openxla"), exported ones as StableHLO, control flow."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("jaxlib")

import rushlight as rl
from rushlight import export
from rushlight.xla import stablehlo


def model() -> rl.nn.Module:
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Tanh(), rl.nn.Linear(8, 2))


def test_openxla_with_gradients():
    eager = model()
    compiled = rl.compile(eager, backend="openxla")
    x = rl.randn(3, 4, requires_grad=True)
    want = rl.autograd.grad(eager(x).square().sum(), [x, *eager.parameters()])
    got = rl.autograd.grad(compiled(x).square().sum(), [x, *eager.parameters()])
    for a, b in zip(got, want, strict=True):
        assert rl.allclose(a, b, atol=1e-5)


def test_openxla_with_sizes_that_vary():
    eager = model()
    compiled = rl.compile(eager, backend="openxla")
    for n in (3, 5, 7, 1, 5):
        x = rl.randn(n, 4)
        assert rl.allclose(compiled(x), eager(x), atol=1e-6)


def test_openxla_draws_what_eager_mode_draws():
    def f(x: rl.Tensor) -> rl.Tensor:
        return rl.nn.functional.dropout(x * 2, 0.3, True) + rl.rand_like(x).t().contiguous().t()

    compiled = rl.compile(f, backend="openxla")
    for _ in range(2):
        rl.manual_seed(5)
        want = f(rl.ones(3, 4))
        rl.manual_seed(5)
        got = compiled(rl.ones(3, 4))
        assert got.equal(want) and got.stride() == want.stride()


def test_openxla_writes_to_arguments_and_returns_numbers():
    def f(x: rl.Tensor, k: int) -> tuple:
        x.add_(k)
        return x.t(), x.shape[0] * 2, x[0]

    compiled = rl.compile(f, backend="openxla")
    x, y = rl.zeros(2, 3), rl.zeros(2, 3)
    want, got = f(x, 3), compiled(y, 3)
    assert y.equal(x) and got[0].equal(want[0]) and got[1] == want[1] and got[2].equal(want[2])
    got[0].zero_()
    assert y.sum() == 0


def test_openxla_says_what_it_does_not_draw():
    def f(x: rl.Tensor) -> rl.Tensor:
        return rl.bernoulli((x * 0.1).sigmoid())

    with pytest.raises(NotImplementedError, match="bernoulli"):
        rl.compile(f, backend="openxla")(rl.ones(3))


def test_openxla_on_the_device_itself():
    eager = model().to("xla")
    x = rl.randn(3, 4).to("xla")
    got = rl.compile(eager, backend="openxla")(x)
    assert got.device.type == "xla" and rl.allclose(got.cpu(), eager(x).cpu(), atol=1e-6)


def test_an_exported_program_is_called_saved_and_loaded(tmp_path):
    eager, x = model(), rl.randn(3, 4)
    module = stablehlo.exported_program_to_stablehlo(export.export(eager, (x,)))
    assert "stablehlo.dot_general" in module.get_stablehlo_text()
    assert module.get_stablehlo_bytecode().startswith(b"ML")
    assert rl.allclose(module(x), eager(x), atol=1e-6)
    module.save(tmp_path)
    loaded = stablehlo.StableHLOGraphModule.load(tmp_path)
    assert loaded(x).equal(module(x))
    for wrong in (x[:2], x.double(), 3):
        with pytest.raises((ValueError, TypeError), match="argument 0"):
            loaded(wrong)
    with pytest.raises(ValueError, match="arguments"):
        loaded(x, x)


def test_cut_and_foreign_files_are_refused(tmp_path):
    x = rl.randn(3, 4)
    stablehlo.save_torch_model_as_stablehlo(model(), (x,), tmp_path)
    for name in ("functions/forward.bytecode", "data.pt", "functions/forward.meta"):
        whole = (tmp_path / name).read_bytes()
        for damaged in (whole[:-7], b"", b"x" * 50):
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(RuntimeError, match="holds no saved program"):
                stablehlo.StableHLOGraphModule.load(tmp_path)
        (tmp_path / name).write_bytes(whole)
    note = json.loads((tmp_path / "functions/forward.meta").read_text())
    for key, value in (("format", "other"), ("files", {}), ("function", {"arguments": 3})):
        (tmp_path / "functions/forward.meta").write_text(json.dumps({**note, key: value}))
        with pytest.raises(RuntimeError, match="holds no saved program"):
            stablehlo.StableHLOGraphModule.load(tmp_path)
    (tmp_path / "data.pt").unlink()
    (tmp_path / "functions/forward.meta").write_text(json.dumps(note))
    with pytest.raises(FileNotFoundError, match=r"data\.pt"):
        stablehlo.StableHLOGraphModule.load(tmp_path)


def test_sizes_that_vary_in_an_exported_program(tmp_path):
    eager = model()
    program = export.export(eager, (rl.randn(3, 4),), dynamic_shapes=({0: export.Dim("batch")},))
    stablehlo.save_as_stablehlo(program, tmp_path)
    loaded = stablehlo.StableHLOGraphModule.load(tmp_path)
    assert "?x4xf32" in loaded.get_stablehlo_text()
    for n in (2, 5, 2):
        x = rl.randn(n, 4)
        assert rl.allclose(loaded(x), eager(x), atol=1e-6)


def test_structures_keywords_numbers_and_buffers(tmp_path):
    class Counts(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", rl.zeros(()))

        def forward(self, pair: dict, by: int, *, more: rl.Tensor) -> tuple:
            self.seen += 1
            return {"sum": pair["a"] + more * by}, [self.seen * 1, 7]

    module, a, b = Counts(), rl.ones(2), rl.full((2,), 3.0)
    program = export.export(module, ({"a": a}, 2), {"more": b})
    made = stablehlo.exported_program_to_stablehlo(program)
    first, second = made({"a": a}, 2, more=b), made({"a": a}, 2, more=b)
    assert first[0]["sum"].tolist() == [7.0, 7.0] and first[1][1] == 7
    assert second[1][0].item() == first[1][0].item() + 1
    with pytest.raises(ValueError, match="is 2 in the program"):
        made({"a": a}, 5, more=b)
    made.save(tmp_path)
    assert stablehlo.StableHLOGraphModule.load(tmp_path)({"a": a}, 2, more=b)[0]["sum"].tolist() == [7.0, 7.0]


def test_control_flow_becomes_stablehlos():
    from rushlight._higher_order_ops import cond, while_loop

    class Branches(rl.nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            y = cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
            return while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y + y), (rl.tensor(0), y))[1]

    module = stablehlo.exported_program_to_stablehlo(export.export(Branches(), (rl.ones(3),)))
    text = module.get_stablehlo_text()
    assert "stablehlo.while" in text and ("stablehlo.case" in text or "stablehlo.if" in text)
    assert module(rl.ones(3)).tolist() == [16.0] * 3 and module(-rl.ones(3)).tolist() == [-16.0] * 3


def test_what_is_no_program_is_refused():
    with pytest.raises(TypeError, match="Export the model first"):
        stablehlo.exported_program_to_stablehlo(model())
    with pytest.raises(ValueError, match="forward"):
        stablehlo.exported_program_to_stablehlo(export.export(model(), (rl.randn(1, 4),))).get_stablehlo_text("back")
