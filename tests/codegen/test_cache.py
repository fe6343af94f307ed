"""The disk cache and the object loader: warm starts, and every way an entry can be bad."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from harness import run_pointwise

from rushlight import codegen
from rushlight._C import load_object
from rushlight.codegen.stored import cache
from rushlight.loops import expr as e
from rushlight.loops.nest import pointwise_nest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEST = pointwise_nest("twice", ["f32"], ["f32"], [e.arg(0, "f32") * 2.0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder and an empty memory."""
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(cache, "_LOADED", {})
    cache._warn_once.cache_clear()
    return tmp_path / "kernels"


def forget() -> None:
    cache._LOADED.clear()


def kernels_in(folder) -> list[str]:
    """Names of the entries; the folder also holds the index of ops and the time of the last look at its size."""
    return [path.name for path in folder.iterdir() if len(path.name) == 32]


def works() -> None:
    x = np.arange(40, dtype=np.float32).reshape(2, 20)
    out = np.zeros_like(x)
    run_pointwise(NEST, [x], [out])
    np.testing.assert_array_equal(out, x * 2)


def count_makes(monkeypatch) -> list[int]:
    result: list[int] = []
    original = codegen._host_object
    monkeypatch.setattr(codegen, "_host_object", lambda nest: result.append(1) or original(nest))
    return result


def test_second_use_comes_from_memory_then_from_disk(folder, monkeypatch):
    result = count_makes(monkeypatch)
    works()
    assert codegen.compile(NEST) is codegen.compile(NEST)
    forget()
    works()
    assert len(result) == 1
    assert kernels_in(folder) == [cache.key_of(NEST).hex()]




DAMAGES = {
    "empty": lambda data: b"",
    "header only": lambda data: data[: len(cache.MAGIC)],
    "cut in half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"x",
    "bit in the code": lambda data: data[:200] + bytes([data[200] ^ 4]) + data[201:],
    "bit in the checksum": lambda data: data[:30] + bytes([data[30] ^ 4]) + data[31:],
    "other version": lambda data: b"RLKERNEL0\n" + data[10:],
    "text": lambda data: b"not a kernel at all\n" * 100,
    "zeros": lambda data: bytes(len(data)),
    "sound checksum, no object": lambda data: cache.pack(cache.key_of(NEST), b"junk" * 50),
    "entry of another kernel": lambda data: cache.pack(b"k" * 16, data),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_entry_is_made_again(folder, monkeypatch, how):
    works()
    path = folder / cache.key_of(NEST).hex()
    good = path.read_bytes()
    path.write_bytes(DAMAGES[how](good))
    forget()
    result = count_makes(monkeypatch)
    works()
    assert result == [1] and path.read_bytes() == good


def test_changed_sources_and_other_processors_have_other_keys(folder, monkeypatch):
    key = cache.key_of(NEST)
    monkeypatch.setattr(cache, "source_identity", lambda: b"x" * 16)
    other = cache.key_of(NEST)
    monkeypatch.setattr(cache, "host_identity", lambda: b"y" * 16)
    assert len({key, other, cache.key_of(NEST)}) == 3


def test_unwritable_folder_warns_once_and_works(tmp_path, monkeypatch, folder):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(blocked))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        works()
        forget()
        works()
    assert len([w for w in seen if "kernel cache" in str(w.message)]) == 1


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX permissions")
def test_folder_that_others_can_write_is_not_trusted(folder, monkeypatch):
    works()
    folder.chmod(0o777)
    forget()
    result = count_makes(monkeypatch)
    with pytest.warns(RuntimeWarning, match="other users"):
        works()
    assert result == [1]


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from test_cache import NEST, works
works()
assert {warm} == ("llvmlite" not in sys.modules), "warm start must not import LLVM"
"""


def start(folder, warm: bool) -> subprocess.Popen:
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(folder), "PYTHONPATH": ROOT}
    script = textwrap.dedent(SCRIPT).format(tests=os.path.dirname(os.path.abspath(__file__)), warm=warm)
    if not warm:
        script = script.replace("assert False ==", "False ==")
    return subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_concurrent_processes_then_a_warm_one(folder):
    racing = [start(folder, warm=False) for _ in range(3)]
    for process in racing:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert kernels_in(folder) == [cache.key_of(NEST).hex()]
    warm = start(folder, warm=True)
    _, errors = warm.communicate()
    assert warm.returncode == 0, errors


def test_loader_refuses_broken_objects_without_crashing():
    """Any byte changed, any length cut: an error or a load, never a crash."""
    good = codegen.emit_object(NEST)
    assert "twice" in load_object(good)
    rng = random.Random(0)
    for length in [0, 1, 16, 63, 64, 65, *[rng.randrange(len(good)) for _ in range(100)]]:
        with pytest.raises(ValueError):
            load_object(good[:length])
    for _ in range(2000):
        changed = bytearray(good)
        for _ in range(rng.choice([1, 1, 2, 8])):
            changed[rng.randrange(len(good))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            load_object(bytes(changed))
        except ValueError as error:
            assert "load_object" in str(error)
    with pytest.raises(TypeError):
        load_object("text")


def test_loader_resolves_calls_out_of_the_object():
    """Large constant tables and libm calls need relocations and stubs."""
    pytest.importorskip("llvmlite")
    from rushlight.codegen.llvm.cpu import compile_ir, host_target

    text = f"""
target triple = "{host_target().triple}"
declare double @cbrt(double)
@numbers = private unnamed_addr constant [4 x double] [double 8.0, double 27.0, double 64.0, double 125.0]
define double @root(i64 %k) #0 {{
  %p = getelementptr double, ptr @numbers, i64 %k
  %x = load double, ptr %p
  %y = call double @cbrt(double %x)
  ret double %y
}}
attributes #0 = {{ nounwind }}
"""
    import ctypes

    root = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(load_object(compile_ir(text, host_target()))["root"])
    assert [round(root(k), 9) for k in range(4)] == [2.0, 3.0, 4.0, 5.0]
    missing = text.replace("@cbrt", "@no_such_function_anywhere")
    with pytest.raises(ValueError, match="no_such_function_anywhere"):
        load_object(compile_ir(missing, host_target()))
    asked = []
    triple = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 3 * x)
    address = ctypes.cast(triple, ctypes.c_void_p).value
    found = load_object(compile_ir(missing, host_target()), lambda name: asked.append(name) or address)
    assert asked == ["no_such_function_anywhere"]
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(found["root"])(1) == 81.0
    assert "root" in load_object(compile_ir(text, host_target()), lambda name: None)     # the process has it
    with pytest.raises(ZeroDivisionError):
        load_object(compile_ir(missing, host_target()), lambda name: 1 // 0)
    with pytest.raises(TypeError):
        load_object(compile_ir(missing, host_target()), lambda name: "somewhere")


def test_products_share_their_tiles(folder, monkeypatch):
    """Two kernels of products: their tiles are made once, kept once, and made again where their entry is damaged."""
    from rushlight.codegen.schedule.cpu.product import product_nest
    from rushlight.codegen.stored import tile_objects

    names: list[str] = []
    original = tile_objects.make_tiles
    monkeypatch.setattr(tile_objects, "make_tiles", lambda tiles: names.append(tiles.name) or original(tiles))
    nests = [product_nest("f64", None, form) for form in ("packed", "own")]
    for nest in nests:
        codegen.compile(nest)
    assert len(names) == len(set(names)) and any(name.startswith("multiply_f64") for name in names)
    assert len(kernels_in(folder)) == len(nests) + len(names)
    count = len(names)
    forget()
    for nest in nests:
        codegen.compile(nest)
    assert len(names) == count
    forget()
    multiply = next(name for name in names if name.startswith("multiply_f64"))
    entry = folder / cache.key_of(tile_objects.TileObject(multiply)).hex()
    entry.write_bytes(entry.read_bytes()[:-100])
    codegen.compile(nests[0])
    assert names[count:] == [multiply]
    assert cache._shared("sin") is None
    with pytest.raises(ValueError, match="multiply_f64_0"):
        cache._shared("multiply_f64_0")
    assert "declare void @multiply" not in codegen.emit_llvm(nests[0])      # for other machines it is whole


def test_show_prints_each_layer(folder, monkeypatch, capfd):
    monkeypatch.setenv("RUSHLIGHT_SHOW", "loops,llvm,asm")
    codegen.compile(NEST)
    printed = capfd.readouterr().err
    for piece in ("--- loops: twice", "x1[.] = (x0 * 2.0)", "--- llvm: twice", "define void @twice", "--- asm: twice"):
        assert piece in printed
