"""Families of ops arrive late: what a process imports, what it can ask before,
and every way the kept tables can be bad."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.op import definitions, load_all, registry

ROOT = Path(__file__).parents[2]


def run(code: str, cache: Path, **environment: str) -> str:
    """What a fresh process prints."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "RUSHLIGHT_CACHE": str(cache), **environment}
    # Another copy than this tree's: without `site`, or the finder of an editable install would bring this one all the
    # same.
    options = ["-S"] if "PYTHONPATH" in environment else []
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        env=variables,
        capture_output=True,
        text=True,
        cwd=cache.parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FAMILIES = """
import sys, rushlight as rl
print(*sorted(m for m in sys.modules if m.startswith("rushlight.definitions.")))
"""
SURFACE = """
import rushlight as rl, rushlight.linalg, rushlight.nn.functional as F
from rushlight.op import ops, published
print(sorted(ops), sorted(n for n in vars(rl.Tensor)), sorted(published("")), sorted(published("linalg")), dir(rl),
    sorted(vars(F)))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A cache folder that one process has filled."""
    folder = tmp_path_factory.mktemp("cache")
    run("import rushlight", folder)
    return folder


def test_import_brings_no_family_and_nothing_heavy(cache: Path) -> None:
    assert run(FAMILIES, cache) == ""
    heavy = (
        "numpy",
        "llvmlite",
        "inspect",
        "dataclasses",
        "hashlib",
        "ast",
        "rushlight.codegen",
        "rushlight.loops",
        "rushlight.nn",
    )
    assert (
        run(
            f"import sys; had = set(sys.modules); import rushlight; print([m for m in {heavy} if m in sys.modules and m"
            " not in had])",
            cache,
        )
        == "[]"
    )


def test_the_first_call_brings_the_family_of_the_op(cache: Path) -> None:
    found = run("import rushlight as rl\nassert rl.ones(2).sin().shape == (2,)" + FAMILIES, cache)
    assert (
        "rushlight.definitions.pointwise.trig" in found
        and "rushlight.definitions.linalg" not in found
        and "rushlight.definitions.conv.convolution" not in found
    )


def test_short_transforms_do_without_numpy(cache: Path) -> None:
    """Its import took ten times as long as the rest of a first call whose kernels are on disk."""
    code = "import sys, rushlight as rl; rl.fft.fft(rl.ones(2, 64)); print('numpy' in sys.modules)"
    assert run(code, cache) == "False"


def test_the_surface_is_the_same_with_and_without_kept_tables(cache: Path, tmp_path: Path) -> None:
    assert run(SURFACE, cache) == run(SURFACE, tmp_path)


def test_ops_keep_their_identity_when_their_family_arrives(cache: Path) -> None:
    run("""
        import pickle, rushlight as rl
        sin, packet = rl.sin, rl.ops.aten.sin
        assert rl.Tensor.sin == sin and rl.op.find_op("sin") is sin and rl.op.ops["sin"] is sin
        assert pickle.loads(pickle.dumps(sin)) is sin
        assert "sin(Tensor" in sin.__doc__
        rl.op.load_all()
        assert rl.sin is sin and rl.Tensor.sin == sin and packet.op is sin and rl.op.definitions["sin"]
    """, cache)


def test_definitions_of_one_name_have_one_order(cache: Path) -> None:
    ordered = "print([c.__module__ + '.' + c.__name__ for c in rl.op.definitions['mse_loss']])"
    plain = run("import rushlight as rl\n" + ordered, cache)
    transposed = run("import rushlight as rl\nimport rushlight.definitions.loss.enumerated\n" + ordered, cache)
    assert plain == transposed


def test_methods_that_are_no_ops_arrive_late(cache: Path) -> None:
    run("""
        import rushlight as rl
        class Mine(rl.Tensor):
            def indices(self):
                return super().indices()
        try:
            rl.ones(2).as_subclass(Mine).indices()
        except RuntimeError as error:
            assert "sparse" in str(error)
        else:
            raise AssertionError("a strided tensor has no indices")
        assert rl.eye(2).to_sparse().indices().tolist() == [[0, 1], [0, 1]]
        assert type(vars(rl.Tensor)["indices"]).__name__ == "function"
    """, cache)


def test_threads_may_ask_for_a_family_at_once(cache: Path) -> None:
    run("""
        import threading, rushlight as rl
        x, found, start = rl.ones(3), [], threading.Barrier(8)
        def work(i):
            start.wait()
            op = (rl.sin, rl.cos, rl.tan, rl.Tensor.asin)[i % 4]
            found.append(op(x * 0.5).sum().item())
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert len(found) == 8
    """, cache)


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "bit": lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    "foreign": lambda data: b"something else",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_tables_are_made_again(tmp_path: Path, how: str) -> None:
    run("import rushlight", tmp_path)
    (path,) = tmp_path.glob("ops-*")
    good = path.read_bytes()
    path.write_bytes(DAMAGES[how](good))
    assert "rushlight.definitions.conv.convolution" in run(FAMILIES, tmp_path)
    assert run(FAMILIES, tmp_path) == ""


def test_no_folder_means_no_tables_and_no_complaint(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert "rushlight.definitions.conv.convolution" in run("import warnings\nwarnings.simplefilter('error')\n" +
    FAMILIES, blocked)


@pytest.fixture(scope="module")
def installation(tmp_path_factory) -> Path:
    """A copy of the package with the tables that a wheel brings."""
    home = tmp_path_factory.mktemp("installed")
    shutil.copytree(Path(rl.__file__).parent, home / "rushlight", ignore=shutil.ignore_patterns("__pycache__"))
    built = [rl._C.__file__, rl._extras.__file__]
    for file in built:
        if not (home / "rushlight" / Path(file).name).exists():     # an editable install keeps the core elsewhere
            shutil.copy2(file, home / "rushlight")
    tool = [sys.executable, str(ROOT / "tools" / "make_tables.py")]
    subprocess.run([*tool, *built, str(home / "rushlight" / "op" / "ops.tables")], check=True)
    assert (
        "of these sources"
        in subprocess.run(
            [*tool, "--check", str(home / "rushlight" / "op" / "ops.tables")],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ).stdout
    )
    return home


def test_shipped_tables_make_the_first_import_quick(installation: Path, tmp_path: Path) -> None:
    assert run(FAMILIES, tmp_path / "empty", PYTHONPATH=str(installation)) == ""
    unwritable = tmp_path / "file"
    unwritable.write_text("in the way")
    assert run(FAMILIES, unwritable, PYTHONPATH=str(installation)) == ""
    assert run(SURFACE, unwritable, PYTHONPATH=str(installation)) == run(SURFACE, tmp_path)


def test_shipped_tables_are_of_one_content(installation: Path, tmp_path: Path) -> None:
    """An edit that keeps a file's size and its time is noticed all the same."""
    edited = tmp_path / "edited"
    shutil.copytree(installation, edited)
    source = edited / "rushlight" / "definitions" / "pointwise" / "hyperbolic.py"
    times, text = (source.stat().st_atime_ns, source.stat().st_mtime_ns), source.read_text()
    source.write_text(text.replace('"sinh(', '"sinq('))
    os.utime(source, ns=times)
    names = "import rushlight as rl; print(hasattr(rl, 'sinh'), hasattr(rl, 'sinq'))"
    assert run(names, tmp_path / "one", PYTHONPATH=str(installation)) == "True False"
    assert run(names, tmp_path / "two", PYTHONPATH=str(edited)) == "False True"


def test_a_changed_source_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "one.py").write_text("x = 1\n")
    (tmp_path / "__init__.py").write_text("")
    before = registry.list_sources(str(tmp_path))
    assert [name for name, _, _ in before] == ["one", "pack"]
    (tmp_path / "one.py").write_text("x = 12\n")
    (tmp_path / "pack" / "two.py").write_text("")
    after = registry.list_sources(str(tmp_path))
    assert after != before and [name for name, _, _ in after] == ["one", "pack", "pack.two"]


def test_a_definition_made_later_becomes_an_op() -> None:
    from rushlight.op import Composite

    class StartupTwice(Composite):
        """Twice the input."""

        schema = "_startup_twice(Tensor input) -> Tensor"

        def compute(self, input):
            return input * 2

    assert rl.ops.aten._startup_twice(rl.ones(1)).item() == 2
    assert definitions["_startup_twice"] == [StartupTwice] and "_startup_twice" in definitions


def test_walking_definitions_brings_everything() -> None:
    load_all()
    assert len(definitions) == len(list(definitions)) == len(dict(definitions.items())) > 900
    assert all(classes for classes in definitions.values())
    with pytest.raises(KeyError):
        definitions["no_such_op"]
    with pytest.raises(AttributeError, match="no op called"):
        rl.op.find_op("no_such_op")
