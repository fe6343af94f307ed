"""How sources are built: folders, tools, errors, setuptools and CMake."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.cxx import build, generate, inline
from rushlight.utils import cpp_extension

ROOT = Path(rl.__file__).resolve().parents[1]
HEADERS = sorted(path.relative_to(build.HEADERS).as_posix() for path in build.HEADERS.rglob("*.h"))


def test_a_missing_compiler_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    source = tmp_path / "x.cpp"
    source.write_text("")
    with pytest.raises(RuntimeError, match=r"C\+\+ compiler no-such-compiler was not found"):
        cpp_extension.load("x", [source], build_directory=tmp_path / "build")


def test_missing_tools_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda *a, **k: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(RuntimeError, match="pip install ninja"):
        cpp_extension.verify_ninja_availability()
    with pytest.raises(RuntimeError, match="CUDA_HOME"):
        build.nvcc(None)
    assert cpp_extension.is_ninja_available() is False


def test_folders_of_others_are_refused(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(RuntimeError, match="others may write"):
        cpp_extension.load_inline("x", "", functions=[], build_directory=shared)
    made = inline.folder_of("mine", str(tmp_path / "a" / "b"), False)
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_source_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.cpp"):
        cpp_extension.load("x", [tmp_path / "missing.cpp"], build_directory=tmp_path / "build")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("9.0", ["-gencode=arch=compute_90,code=sm_90"]),
        (
            "8.0;9.0+PTX",
            [
                "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90,code=sm_90",
                "-gencode=arch=compute_90,code=compute_90",
            ],
        ),
    ],
)
def test_architectures_become_flags(monkeypatch, text, expected):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", text)
    assert inline.cuda_arch_flags([]) == expected and inline.cuda_arch_flags(["-arch=sm_70"]) == []
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "Volta")
    with pytest.raises(ValueError, match="Volta"):
        inline.cuda_arch_flags([])


def test_ninja_follows_headers_and_escapes_paths():
    step = build.Step(
        "a.o", ("/x y/a.cpp",), ("c++", "-MF", "a.o.d", "-c", "/x y/a.cpp", "-DA=$B"), "compile", ("pch/h.gch",)
    )
    text = build.ninja_text([step])
    assert "deps = gcc" in text and "/x$ y/a.cpp" in text and "$$B" in text and "| pch/h.gch" in text


def test_every_op_with_a_cxx_form_is_generated_once():
    functions, methods = generate.collected()
    keys = [(f.name, tuple(p.type for p in f.parameters)) for f in functions]
    assert len(keys) == len(set(keys)) and len(functions) > 1500 and len(methods) > 500
    names = {f.name for f in functions}
    assert {"add", "add_out", "conv2d", "index_select", "linalg_qr", "softmax", "zeros"} <= names
    assert {"view", "mul_", "scatter_add_", "sum", "masked_fill"} <= {m.name for m in methods}


@pytest.fixture
def small(compiler, tmp_path):
    def make(text: str, **options):
        return cpp_extension.load_inline(
            "small", text, extra_cflags=["-O0"], build_directory=tmp_path / "small", **options
        )

    return make


@pytest.mark.slow
def test_changed_sources_are_imported_anew_and_same_ones_are_not_compiled(small, tmp_path, capfd):
    first = small("int answer() { return 1; }", functions=["answer"])
    again = small("int answer() { return 1; }", functions=["answer"], verbose=True)
    assert "no work to do" in capfd.readouterr().out or shutil.which("ninja") is None
    second = small("int answer() { return 2; }", functions={"answer": "what it is"})
    assert (first.answer(), again.answer(), second.answer()) == (1, 1, 2) and "what it is" in second.answer.__doc__
    with pytest.raises(RuntimeError, match=r"main\.cpp:2:\d+: error"):
        small("int answer() { return oops; }", functions=["answer"])


@pytest.mark.slow
def test_programs_are_built_alone(compiler, tmp_path):
    source = tmp_path / "main.cpp"
    source.write_text(
        "#include <torch/torch.h>\n#include <iostream>\nint main() { torch::manual_seed(3); "
        'std::cout << torch::rand({2}).sum().item<double>() << "\\n"; }\n'
    )
    program = cpp_extension.load(
        "alone", source, extra_cflags=["-O0"], is_standalone=True, build_directory=tmp_path / "build"
    )
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    rl.manual_seed(3)
    assert float(said) == pytest.approx(rl.rand(2).sum().item(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("use_ninja", [True, False])
def test_setup_py_builds(compiler, tmp_path, use_ninja):
    pytest.importorskip("setuptools")
    folder = tmp_path / "package"
    shutil.copytree(ROOT / "examples" / "extension", folder)
    setup = folder / "setup.py"
    setup.write_text(
        setup.read_text().replace("BuildExtension}", f"BuildExtension.with_options(use_ninja={use_ninja})}}")
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CFLAGS": "-O0"}
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    program = "import rushlight as rl, softclip; print(softclip.softclip(rl.tensor([0.0, 100.0]), 2.0).tolist())"
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[0.0, 2.0]"


@pytest.mark.slow
def test_cmake_finds_torch(compiler, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake here")
    source = ROOT / "examples" / "cpp" / "linear"
    flags = [f"-DCMAKE_PREFIX_PATH={rl.utils.cmake_prefix_path}", f"-DPython_EXECUTABLE={sys.executable}"]
    done = subprocess.run(["cmake", "-S", source, "-B", tmp_path, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True, text=True)
    said = subprocess.run([tmp_path / "linear"], capture_output=True, text=True)
    assert said.returncode == 0 and "refused: view" in said.stdout, said.stdout + said.stderr


def names_another(name: str) -> str | None:
    """The header that one of PyTorch's name stands for, where it says nothing else."""
    found = re.fullmatch(r"// [^\n]*\n#pragma once\n#include <([^>]+)>\n", (build.HEADERS / name).read_text())
    return found and found[1]


OTHER_NAMES = {name: other for name in HEADERS if (other := names_another(name))}


def test_headers_of_pytorchs_names_stand_for_one_that_is_there():
    assert len(OTHER_NAMES) > 150
    for name, other in OTHER_NAMES.items():
        assert (build.HEADERS / other).exists() or "generated" in other, (name, other)      # in the folder of builds


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("name", [h for h in HEADERS if h not in OTHER_NAMES and not h.endswith("cuda_stream.h")
                                  and "cuda/" not in h.lower()])
def test_each_header_compiles_alone(compiler, tmp_path, name):
    source = tmp_path / "alone.cpp"
    source.write_text(f"#include <{name}>\n#include <{name}>\n")
    folders = [*cpp_extension.include_paths(), *build.python_includes()]
    done = subprocess.run(
        [*compiler.split(), "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", *(f"-I{f}" for f in folders), source],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:3000]
