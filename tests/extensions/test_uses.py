"""Which sources are compiled without the declarations of layers."""

from __future__ import annotations

import pytest

from rushlight.cxx import build, uses

LEAN = [uses.WITHOUT_LAYERS]


@pytest.fixture
def source(tmp_path):
    def write(text: str, name: str = "source.cpp", **headers: str) -> str:
        for header, content in headers.items():
            (tmp_path / f"{header}.h").write_text(content)
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("text, lean", [
    ("#include <torch/extension.h>\nat::Tensor f(at::Tensor x) { return x; }", True),
    ("at::Tensor inner(at::Tensor annex) { return annex; }  // nnz, optimal", True),
    ("torch::nn::Linear layer(1, 1);", False),
    ("using namespace torch;\nnn :: Linear layer(1, 1);", False),
    ("namespace layers = torch\n  ::nn;", False),
    ("torch::optim::SGD *step;", False),
    ("#define PART n\\\nn", False),
    ("#include HEADER", False),
    ('#include "missing.h"', True),
    ("#include <torch/nn.h>", True),               # that header declares them in any case
])
def test_what_names_layers_gets_them(source, text, lean):
    assert uses.without_layers([source(text)], [], []) == (LEAN if lean else [])


def test_headers_of_the_program_are_read(source, tmp_path):
    text = '#include <torch/extension.h>\n#include "one.h"\n'
    assert uses.without_layers([source(text, one="int x;", two="int y;")], [], []) == LEAN
    deep = source(text, one='#include "two.h"', two="torch::nn::Linear x{nullptr};")
    assert uses.without_layers([deep], [], []) == []
    angled = source("#include <two.h>", "other/source.cpp") if (tmp_path / "other").mkdir() is None else ""
    assert uses.without_layers([angled], [], []) == LEAN           # not found: the compiler decides
    assert uses.without_layers([angled], [f"-I{tmp_path}"], []) == []
    assert uses.without_layers([angled], ["-isystem", str(tmp_path)], []) == []
    assert uses.without_layers([angled], [], [str(tmp_path)]) == []


def test_flags_may_name_layers_and_folders_may_be_called_so(source):
    path = source("int x;")
    assert uses.without_layers([path], ["-DLAYER=torch::nn::Linear"], []) == []
    assert uses.without_layers([path], ["-I/somewhere/nn/include", "-O2"], []) == LEAN


def test_our_own_headers_are_not_read(source):
    path = source("#include <torch/extension.h>\n")
    assert uses.without_layers([path], [f"-I{build.HEADERS}"], [str(build.HEADERS)]) == LEAN


def test_a_compiler_that_misses_layers_gets_them():
    steps = [build.Step("x.o", ("x.cpp",), ("c++", uses.WITHOUT_LAYERS, "x.cpp"), "compile")]
    seen = []

    def run(given, words="error: 'nn' is not a member of 'torch'"):
        seen.append(given[0].command)
        if uses.WITHOUT_LAYERS in given[0].command:
            raise RuntimeError(words)

    uses.run_with_fallback(run, steps)
    assert seen == [steps[0].command, ("c++", "x.cpp")]
    with pytest.raises(RuntimeError, match="oops"):
        uses.run_with_fallback(lambda given: run(given, "error: 'oops' was not declared"), steps)
    assert len(seen) == 3
