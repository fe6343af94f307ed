"""The same nests as objects for other processors, and as PTX that ptxas accepts."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess

import pytest

from rushlight import codegen
from rushlight.codegen.nvptx.lower import POINTS, ROWS, THREADS, shared_by_block, sharing
from rushlight.codegen.nvptx.points import PointClass
from rushlight.codegen.nvptx.vectors import definitions, vector_form
from rushlight.codegen.text.targets import find_target
from rushlight.loops import expr as e
from rushlight.loops.nest import Assign, Check, For, Local, Nest, Store, operands, pointwise_nest, reduction, rows

pytestmark = pytest.mark.share(2)   # of each test that has several cases

ZERO = e.const(0, "i64")
i, j, n = e.var("i"), e.var("j"), e.var("n")


def make_nests() -> dict[str, Nest]:
    x, y = e.arg(0, "f32"), e.arg(1, "f32")
    at = e.load(1, i, "i64")
    total = reduction("j", ZERO, n, ["acc"], [e.const(0.0, "f32")], lambda a: [a[0] + e.load(0, i * n + j, "f32")],
                      lambda a, b: [a[0] + b[0]], blocked=True)
    half = e.cast(e.fma(e.cast(e.arg(0, "bf16"), "f32"), e.cast(e.arg(1, "f16"), "f32"), 1.0), "f8e4m3fn")
    running = e.var("s", "f64")
    at_j = i * n + j
    top = reduction("j", ZERO, n, ["top"], [e.const(float("-inf"), "f32")],
                    lambda a: [e.max_(a[0], e.load(0, at_j, "f32"))], lambda a, b: [e.max_(a[0], b[0])])
    power = e.load(0, at_j, "f32") - e.var("top", "f32")
    powers = reduction("j", ZERO, n, ["sum"], [e.const(0.0, "f32")], lambda a: [a[0] + power * power],
                       lambda a, b: [a[0] + b[0]], body=[Store(1, at_j, power * power)])
    scale = For("j", ZERO, n, (Store(1, at_j, e.load(1, at_j, "f32") / e.var("sum", "f32")),), vector=True)

    def better(a, b):
        first = e.or_(e.gt(a[0], b[0]), e.and_(e.eq(a[0], b[0]), e.lt(a[1], b[1])))
        return [e.select(first, a[0], b[0]), e.select(first, a[1], b[1])]

    best = reduction("j", ZERO, n, ["value", "place"], [e.const(float("-inf"), "f64"), e.const(1 << 62, "i64")],
                     lambda a: better(a, [e.load(0, at_j, "f64"), j]), better)
    product = reduction("j", ZERO, n, ["acc"], [e.cast(e.const(1.0, "f32"), "c64")],
                        lambda a: [a[0] * e.load(0, at_j, "c64")], lambda a, b: [a[0] * b[0]])
    some = reduction(
        "j",
        ZERO,
        n,
        ["acc"],
        [e.const(False, "b1")],
        lambda a: [e.or_(a[0], e.load(0, at_j, "b1"))],
        lambda a, b: [e.or_(a[0], b[0])],
    )
    return {
        "add": pointwise_nest("add", ["f32", "f32"], ["f32"], [x + y]),
        "narrow": pointwise_nest("narrow", ["bf16", "f16"], ["f8e4m3fn"], [half]),
        "gaps": pointwise_nest("gaps", ["f32"], ["f32"], [x]),
        "gaps_of_pairs": pointwise_nest("gaps_of_pairs", ["c64"], ["c64"], [e.arg(0, "c64")]),
        "compare": pointwise_nest("compare", ["f32", "f32"], ["b1"], [e.lt(x, e.sqrt(y))]),
        "multiply": pointwise_nest("multiply", ["c64", "c64"], ["c64"], [e.arg(0, "c64") * e.arg(1, "c64")]),
        "integers": pointwise_nest("integers", ["f32"], ["i32"], [e.idiv(e.cast(x, "i32"), e.const(7, "i32"))]),
        "row_sum": Nest("row_sum", operands(["f32"], ["f32"]), ("n",), rows(total, Store(1, i, e.var("acc", "f32")))),
        "normalize": Nest("normalize", operands(["f32"], ["f32"]), ("n",), rows(top, powers, scale)),
        "best": Nest("best", operands(["f64"], ["i64"]), ("n",), rows(best, Store(1, i, e.var("place")))),
        "product": Nest("product", operands(["c64"], ["c64"]), ("n",), rows(product, Store(1, i, e.var("acc", "c64")))),
        "some": Nest("some", operands(["b1"], ["b1"]), ("n",), rows(some, Store(1, i, e.var("acc", "b1")))),
        "take": Nest("take", operands(["f32", "i64"], ["f32"], ["i64"]), ("n",), rows(
            Check(e.and_(e.ge(at, 0), e.lt(at, n)), 3, i + 1), Store(2, i, e.load(0, at, "f32")))),
        "scan": Nest("scan", operands(["f64"], ["f64"]), ("n",), rows(
            Local("s", e.const(0.0, "f64")),
            For("j", ZERO, n, (Assign("s", running + e.load(0, i * n + j, "f64")), Store(1, i * n + j, running))))),
        "scatter_add": Nest("scatter_add", operands(["f32", "i64"], ["f32"]), (), rows(
            Store(2, at, e.load(0, i, "f32"), "add"), vector=True)),
    }


NESTS = make_nests()


def test_elementwise_kernels_ask_early_for_what_they_read() -> None:
    """AArch64: one request per input and iteration, none for the output, which is overwritten whole; not elsewhere."""
    texts = {name: codegen.emit_llvm(NESTS["add"], name) for name in ("aarch64", "x86-64-avx512")}
    asks = {name: text.count("call void @llvm.prefetch") for name, text in texts.items()}
    assert asks == {"aarch64": 2, "x86-64-avx512": 0}


MACHINES = {"x86-64-avx2": 62, "x86-64-avx512": 62, "aarch64": 183, "riscv64": 243}


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("target", MACHINES)
def test_elf_objects_for_other_processors(target, name):
    code = codegen.emit_object(NESTS[name], target)
    assert code[:4] == b"\x7fELF" and code[4] == 2
    assert struct.unpack_from("<HH", code, 16) == (1, MACHINES[target])
    assert name.encode() in code


@pytest.mark.parametrize("name", NESTS)
def test_webassembly_objects(name):
    code = codegen.emit_object(NESTS[name], "wasm32")
    assert code[:8] == b"\0asm\x01\0\0\0" and name.encode() in code


@pytest.mark.parametrize("target,register", [("x86-64-avx2", "%ymm"), ("x86-64-avx512", "%zmm"), ("aarch64", ".4s"),
                                             ("riscv64", "vfadd"), ("wasm32", "f32x4.add")])
def test_add_uses_the_target_s_vectors(target, register):
    assert register in codegen.emit_asm(NESTS["add"], target)


@pytest.mark.parametrize("target", MACHINES)
def test_elements_that_lie_apart_are_put_together_by_shuffles(target):
    text = codegen.emit_llvm(NESTS["gaps"], target)
    lanes = int(re.search(r"= load <(\d+) x float>", text).group(1))
    seconds = [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)]
    assert f"<{', '.join(f'i32 {k}' for k in seconds)}>" in text
    assert not re.search(r"llvm\.(x86|aarch64|riscv|masked)", text)


@pytest.mark.parametrize("target", ["riscv64", "wasm32"])
def test_half_precision_needs_no_library(target):
    nest = pointwise_nest("halves", ["f16", "f8e5m2"], ["f16"], [e.arg(0, "f16") * e.const(3.0, "f16")])
    text = codegen.emit_asm(nest, target)
    assert "sf2" not in text and "hf2" not in text, "conversions are calls"
    assert "fmul" in text or "f32x4.mul" in text


def test_riscv_vectors_are_several_registers():
    text = codegen.emit_asm(NESTS["add"], "riscv64")
    assert "vsetvli" in text and "e32, m8" in text


def test_a_target_may_round_what_it_cannot_truncate():
    nest = pointwise_nest("whole", ["f32"], ["i32"], [e.cast(e.arg(0, "f32"), "i32")])
    target = find_target("riscv64")
    assert "vfcvt.rtz" in codegen.emit_asm(nest, target)
    assert "vfcvt.rtz" not in codegen.emit_asm(nest, target.but(truncates=False))


@pytest.mark.parametrize("name", NESTS)
def test_ptx_is_a_kernel(name):
    text = codegen.emit_ptx(NESTS[name])
    assert f".entry {name}(" in text and "%ctaid.x" in text


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("name", NESTS)
def test_ptxas_accepts(name, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(codegen.emit_ptx(NESTS[name]))
    done = subprocess.run(["ptxas", "-arch=sm_90", str(source), "-o", str(tmp_path / "kernel.cubin")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_gpu_arguments_travel_by_value():
    text = codegen.emit_ptx(NESTS["row_sum"])
    assert text.count(".param .u64") == 2 + 1 + 2   # operands, n, begin and end
    assert "ld.global" in text and "st.global" in text


def test_gpu_rows_are_shared_by_blocks():
    assert sharing(NESTS["row_sum"]) == sharing(NESTS["normalize"]) == sharing(NESTS["best"]) == ROWS
    text = codegen.emit_ptx(NESTS["row_sum"])
    assert "shfl.sync" in text and "bar.sync" in text and ".shared" in text
    # two words each, two accumulators
    assert codegen.emit_ptx(NESTS["best"]).count("shfl.sync") == 4 * codegen.emit_ptx(NESTS["row_sum"]).count(
        "shfl.sync"
    )


def test_gpu_elements_need_no_division():
    assert sharing(NESTS["add"]) == POINTS
    text = codegen.emit_ptx(NESTS["add"])
    before, _, loops = text.partition("ld.global")
    assert "%ctaid.y" in text and "rem." not in text
    assert "div." in before and "div." not in loops   # how many elements come several at a time, asked once


def test_gpu_threads_have_several_loads_under_way():
    text = codegen.emit_ptx(NESTS["add"])
    loads, _, _ = text.partition("st.global")
    assert loads.count("ld.global") == 2 * 4


def test_gpu_loops_in_order_stay_one_thread_s():
    assert sharing(NESTS["scan"]) == sharing(NESTS["take"]) == THREADS
    assert "bar.sync" not in codegen.emit_ptx(NESTS["scan"])


def test_gpu_combines_atomically():
    assert "atom." in codegen.emit_ptx(NESTS["scatter_add"]) or "red." in codegen.emit_ptx(NESTS["scatter_add"])
    product = Nest("product", operands(["f32", "i64"], ["f32"]), (), rows(
        Store(2, e.load(1, i, "i64"), e.load(0, i, "f32"), "mul")))
    with pytest.raises(NotImplementedError, match="atomic mul"):
        codegen.emit_ptx(product)


def test_unknown_target_names_the_known_ones():
    with pytest.raises(ValueError, match="riscv64"):
        find_target("pdp11")


def ptxas_accepts(text: str, folder) -> None:
    source = folder / "kernel.ptx"
    source.write_text(text)
    done = subprocess.run(["ptxas", "-arch=sm_90", str(source), "-o", str(folder / "kernel.cubin")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


POINTWISE = [name for name, nest in NESTS.items() if sharing(nest) == POINTS]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize(
    "ndim, first, vectors, wide", [(1, 2, True, False), (3, 2, True, True), (2, 3, False, False), (6, 3, False, True)]
)
def test_ptxas_accepts_variants(name, ndim, first, vectors, wide, tmp_path):
    nest = NESTS[name]
    kinds = (*[0 if k == 1 else first for k in range(len(nest.operands) - 1)], first)
    text, _ = codegen.emit_point_ptx(nest, PointClass(ndim, kinds, vectors, wide))
    ptxas_accepts(text, tmp_path)


def test_variants_in_vectors_use_accesses_of_16_bytes():
    text, times = codegen.emit_point_ptx(NESTS["add"], PointClass(1, (2, 2, 2), True, False))
    assert times == 2 and text.count("ld.global.v4") == 2 * 2 + 2 and text.count("st.global.v4") == 2 + 1
    assert "div." not in text and "rem." not in text
    text, _ = codegen.emit_point_ptx(NESTS["add"], PointClass(3, (2, 1, 2), False, False))
    assert "div." not in text and "rem." not in text      # by multiplications


@pytest.mark.parametrize("name", ["row_sum", "normalize"])
def test_rows_in_vectors(name, tmp_path):
    nest = NESTS[name]
    length, multiples = vector_form(nest, shared_by_block(nest.loop.body))
    if name == "normalize":
        assert length == 1      # its fold stores, too
        return
    assert (length, multiples) == (4, (0,))
    text = codegen.emit_ptx(nest, in_vectors=True)
    assert "ld.global.v4" in text and "ld.global.v4" not in codegen.emit_ptx(nest)
    if shutil.which("ptxas"):
        ptxas_accepts(text, tmp_path)


def test_names_that_blocks_use_for_different_things_promise_nothing():
    def loop(name: str, at: e.Value) -> For:
        inner = For("j", ZERO, n, (Store(1, e.var("t") + j, e.load(0, e.var("t") + j, "f32")),), vector=True)
        return For(name, ZERO, n, (Local("t", at), inner))

    k = e.var("k")
    for second, known in ((k * 8, {"t"}), (k * 3, set())):
        body = (loop("k", k * 8), For("outer", ZERO, n, (loop("k", second),)))
        assert set(definitions(body)) == known
        assert (vector_form(Nest("rows", operands(["f32"], ["f32"]), ("n",), rows(*body)), [body[0].body[1]])[0] > 1
                ) is bool(known)


def test_strided_rows_stay_single():
    strided = reduction(
        "j",
        ZERO,
        n,
        ["acc"],
        [e.const(0.0, "f32")],
        lambda a: [a[0] + e.load(0, i + j * n, "f32")],
        lambda a, b: [a[0] + b[0]],
    )
    nest = Nest("column_sum", operands(["f32"], ["f32"]), ("n",), rows(strided, Store(1, i, e.var("acc", "f32"))))
    assert vector_form(nest, shared_by_block(nest.loop.body)) == (1, ())
