"""Mistakes in extensions of C++ that are caught: registrations, results, handles, folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.utils.cpp_extension import load

pytestmark = pytest.mark.slow  # a compiler runs
SOURCE = str(Path(__file__).with_name("programs") / "bad_input.cpp")


@pytest.fixture(scope="module")
def library(compiler, tmp_path_factory):
    return load("bad_input", SOURCE, extra_cflags=["-O0"], is_python_module=False,
                build_directory=tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def own(library):
    return rl.ops.bad_results


def test_a_load_that_fails_leaves_nothing(compiler, tmp_path):
    with pytest.raises(RuntimeError) as raised:
        load("refused", SOURCE, extra_cflags=["-O0", "-DREFUSED"], is_python_module=False, build_directory=tmp_path)
    said = str(raised.value)
    for part in ("Nonsense", "bad_count::two", "gives (Tensor); its schema", "bad_arguments::more takes", "nowhere",
                 "bad_input.cpp"):
        assert part.replace(" takes", "") in said, said
    for space, name in (("bad_good", "fine"), ("bad_schema", "before"), ("bad_schema", "broken"), ("bad_count", "two")):
        assert not hasattr(getattr(rl.ops, space), name)
    with pytest.raises((AttributeError, RuntimeError)):
        rl.classes.bad_classes.Kept()
    again = rl.library.Library("bad_good", "DEF")      # the namespace is free again
    again.define("fine(Tensor x) -> Tensor")
    again._destroy()


@pytest.mark.parametrize("name, said", [("too_many", "Tensor, Tensor"), ("number", "int"), ("undefined", "NoneType")])
def test_results_that_are_not_the_schemas(own, name, said):
    with pytest.raises(TypeError, match=rf"bad_results::{name}: its schema gives \(Tensor\), the kernel gave.*{said}"):
        getattr(own, name)(rl.ones(2))


@pytest.mark.parametrize("name", ["asks_undefined", "calls_undefined"])
def test_undefined_tensors_raise(own, name):
    with pytest.raises((RuntimeError, TypeError)):
        getattr(own, name)(rl.ones(2))


def test_data_of_another_type_raises(own):
    with pytest.raises(RuntimeError, match="(?i)double"):
        own.wrong_type(rl.ones(2))
    assert own.wrong_type(rl.ones(2, dtype=rl.float64)) == 1.0


def test_a_kernel_of_another_element_type_than_its_meta_kernel_is_caught(own):
    with pytest.raises(Exception, match="(?i)dtype|int64"):
        rl.library.opcheck(own.as_long, (rl.ones(2),))


def test_a_library_in_a_folder_of_others_is_not_loaded(library, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    shutil.copy(library, folder / "x.so")
    folder.chmod(0o777)
    with pytest.raises(OSError, match="others may write"):
        rl.ops.load_library(str(folder / "x.so"))
