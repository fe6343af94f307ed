"""The first five minutes: `rushlight` alone, info, demo, compat; progress; what notebooks show; drawings."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import __main__, nn
from rushlight.compat import coverage
from rushlight.utils.progress import progress

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "rushlight", *words], capture_output=True, text=True, cwd=ROOT)


def test_alone_it_says_what_to_do_first() -> None:
    done = run()
    assert done.returncode == 0 and "rushlight demo" in done.stdout and "import rushlight" in done.stdout


def test_a_reader_who_has_seen_enough_gets_no_traceback() -> None:
    words = [sys.executable, "-m", "rushlight", "compat", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout and process.stderr
        assert process.stdout.read(1) == "{"
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait() == 1


def test_info_names_devices_the_cache_and_what_to_install(capsys) -> None:
    assert __main__.main(["info"]) == 0
    text = capsys.readouterr().out
    assert "devices   cpu" in text and "MiB of at most" in text
    assert text.count("installed") + text.count("pip install 'rushlight[") == 9


def test_extras_are_those_of_the_package() -> None:
    import tomllib

    from rushlight.welcome import EXTRAS

    with open(ROOT / "pyproject.toml", "rb") as file:
        assert set(EXTRAS) <= set(tomllib.load(file)["project"]["optional-dependencies"])


def test_the_demo_learns(capsys) -> None:
    assert __main__.main(["demo", "--steps", "150"]) == 0
    text = capsys.readouterr().out
    assert "learning: 150 of 150 loss" in text and "100% of the points" in text
    assert __main__.main(["demo", "--steps", "0"]) == 2


def test_compat_counts_and_answers(capsys) -> None:
    assert __main__.main(["compat", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"names", "ops", "devices", "libraries"} and set(told["names"]) == set(coverage.MODULES)
    assert told["names"]["torch"]["public"] > 900 and told["names"]["nn"]["missing"] == 0
    assert told["devices"]["cpu"]["available"] and told["ops"]["passed"] <= told["ops"]["checks"]
    for name, code in (("torch.add", 0), ("torch.Tensor.addmm", 0), ("torch.Tensor.no_such", 1), ("nn.Linear", 0),
                       ("torch.distributed.Reducer", 1), ("torch.Capsule", 1), ("torch.nn.Lienar", 1)):
        assert __main__.main(["compat", name]) == code, name
    assert "torch.nn.Linear" in capsys.readouterr().out.splitlines()[-1]


WORK = (
    "torch", "torch.nn", "torch.utils.data", "torch.float32", "torch.float32.itemsize", "torch.quint8", "torch.strided",
    "torch.Tensor.add_", "torch.Tensor.grad", "torch.Tensor.__add__", "torch.nn.Linear.forward", "torch.Size",
    "torch.nn.Module.training", "torch.nn.modules.conv.Conv2d", "torch.optim.Adam.step", "torch.cuda.is_available",
    "torch.jit.script", "torch.ops.aten.add.Tensor", "torch.backends.cudnn.benchmark", "torch.__version__",
    "torch.add()", " torch.add ", "rushlight.nn.Linear", "nn.functional.relu", "Tensor.view",
)
FAIL = {
    "torch.add.foo": "not known", "torch.float32.foo": "not known", "torch.nn.Linear.forward.x": "not known",
    "torch.ops.no_such.x": "not known", "torch.classes.foo.x": "not known", "torch.nn.no_such": "not known",
    "torch.Tensor.no_such": "not known", "torch.distributed.Reducer": "missing", "torch._C.no_such": "not known",
    "torch.nn.Lienar": "torch.nn.Linear", "torch.loops": "rushlight.loops is Rushlight's own", "torch.add_": "own",
    "rushlight.codegen.emit_ptx": "own", "torchvision.ops.nms": "rushlight check torchvision",
    "torchaudio": "a package of its own", "numpy.ndarray": "package", "torch.Capsule": "not used",
    "torch.Capsule.x": "not used", "": "dotted name", ".": "dotted name", "torch.": "dotted name",
    "torch..add": "dotted name", "torch nn": "dotted name", "torch.add(1)": "dotted name", "torch\nnn": "dotted name",
    "日本": "not known", "x" * 5000: "not known", "--": "dotted name",
}


def test_compat_answers_for_names_of_every_sort() -> None:
    assert {name: coverage.told(name)[1] for name in WORK if not coverage.told(name)[0]} == {}
    for name, says in FAIL.items():
        works, sentence = coverage.told(name)
        assert not works and re.search(says, sentence), (name[:40], sentence)
        assert "\n" not in sentence and len(sentence) < 400 and sentence.endswith((".", "?")), sentence


def test_compat_counts_what_it_answers() -> None:
    for module, row in coverage.names().items():
        lacking = {*row["refuse_names"], *row["missing_names"]}
        public = coverage.records()["names"][module]
        assert {name for name in public if not coverage.told(coverage.dotted(module, name))[0]} == lacking, module


def test_compat_needs_no_torch() -> None:
    code = ("import sys; sys.modules['torch'] = None\n"
            "from rushlight.__main__ import main; raise SystemExit(main(['compat', '--json']))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and json.loads(done.stdout)["libraries"], done.stderr


def test_the_page_is_what_compat_says() -> None:
    page = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
    assert page == coverage.page(), "python tools/make_compat.py"


def test_records_are_those_of_this_tree() -> None:
    """Without PyTorch: the programs of the ecosystem; with it, its names."""
    from tests.ecosystem.compare import case_files, cases_of

    known = coverage.records()["libraries"]
    assert {path.stem: len(cases_of(path)) for path in case_files()} == {k: v["cases"] for k, v in known.items()}
    torch = pytest.importorskip("torch")
    if torch.__version__.startswith("2.13"):
        assert coverage.records()["names"]["fft"] == sorted(set(torch.fft.__all__))


def test_progress_without_a_terminal_is_plain_lines() -> None:
    out = io.StringIO()
    assert list(progress(range(20), "counting", tell=lambda: "well", file=out)) == list(range(20))
    lines = out.getvalue().splitlines()
    assert len(lines) == 10 and lines[-1].startswith("counting: 20 of 20 well (")
    out = io.StringIO()
    assert list(progress(iter("abc"), file=out)) == ["a", "b", "c"] and out.getvalue().startswith("3 (")
    assert list(progress([], "none", file=io.StringIO())) == []


def test_progress_on_a_terminal_keeps_the_items() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert list(progress(range(5), "bar", tell=lambda: "x", file=Terminal())) == list(range(5))


def test_tensors_are_shown_at_once_and_bounded() -> None:
    since = time.process_time()
    for x in (rl.empty(50_000, 50_000, device="meta"), rl.zeros(1).expand(9999, 9999, 4, 4, 4), rl.rand(999, 999),
              rl.ones([2] * 20), rl.zeros(0, 3), rl.tensor(3.0), rl.eye(2).to_sparse(), rl.ones(2, dtype=rl.complex64),
              rl.quantize_per_tensor(rl.ones(2), 0.5, 0, rl.qint8), rl.ones(2, requires_grad=True),
              rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)]),
              rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)], layout=rl.jagged)):
        page = x._repr_html_()
        assert page.startswith("<div>") and page.endswith("</div>") and len(page) < 6000
    assert time.process_time() - since < 3


def test_modules_are_shown_with_parameter_counts_escaped_and_bounded() -> None:
    class Odd(nn.Module):
        def extra_repr(self) -> str:
            return "<script>alert(1)</script>"

    page = nn.Sequential(nn.Linear(3, 4), Odd(), nn.LazyLinear(2))._repr_html_()
    assert ">16<" in page and "<script>" not in page and "&lt;script&gt;" in page
    shared = nn.Linear(3, 3)
    assert "12 parameters" in nn.Sequential(shared, shared)._repr_html_()
    assert len(nn.Sequential(*[nn.ReLU() for _ in range(500)])._repr_html_()) < 10_000


def test_graphs_are_drawn_and_large_ones_named() -> None:
    traced = rl.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    assert "<svg" in traced._repr_html_()
    exported = rl.export.export(nn.Linear(3, 2), (rl.ones(1, 3),))
    assert "<svg" in exported._repr_html_() and "1 × 2" in exported._repr_html_()

    def long(x: rl.Tensor) -> rl.Tensor:
        for _ in range(300):
            x = x + 1
        return x

    page = rl.fx.symbolic_trace(long)._repr_html_()
    assert "too many to draw" in page and len(page) < 10_000


def test_a_model_whose_sizes_decide_is_drawn_as_export_sees_it() -> None:
    class Decides(nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x + 1 if x.size(0) > 2 else x

    with pytest.raises(rl.fx.proxy.TraceError, match=r"utils\.draw\(export\.export\(model, args\)\)"):
        rl.utils.draw(Decides(), rl.ones(5, 3))
    assert "5 × 3 float32" in rl.utils.draw(rl.export.export(Decides(), (rl.ones(5, 3),)))


def test_a_model_is_drawn_with_shapes_and_stays_as_it_is(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    picture = rl.utils.draw(model, rl.ones(5, 3))
    assert "5 × 2 float32" in picture and picture.startswith("<svg") and picture._repr_svg_() == picture
    assert all(rl.equal(value, before[name]) for name, value in model.state_dict().items())
    picture.save(tmp_path / "model.svg")
    assert (tmp_path / "model.svg").read_text(encoding="utf-8") == picture
    assert "2 × 2" in rl.utils.draw(lambda a, b: a @ b, rl.ones(2, 3), b=rl.ones(3, 2))
    with pytest.raises(TypeError, match="no argument 'c'"):
        rl.utils.draw(lambda a, b: a @ b, rl.ones(2, 3), c=rl.ones(3, 2))
