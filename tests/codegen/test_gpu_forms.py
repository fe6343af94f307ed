"""Rows kept in registers, tiles of columns, and functions for half types: which nests have these forms, and that ptxas
takes their PTX. What they compute is compared on a card (tests/cuda/test_rows.py)."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rushlight import codegen
from rushlight.codegen.nvptx.columns import WARPS, column_form
from rushlight.codegen.nvptx.held import Held, held_form
from rushlight.codegen.nvptx.lower import shared_by_block
from rushlight.codegen.nvptx.points import PointClass
from rushlight.loops import expr as e
from rushlight.loops.nest import For, Local, Nest, Store, operands, pointwise_nest, reduction, rows

ZERO = e.const(0, "i64")
i, n = e.var("i"), e.var("n")


def softmax(code: str) -> Nest:
    def x(j: str) -> e.Value:
        return e.cast(e.load(0, i * n + e.var(j), code), "f32")

    top = reduction("j0", ZERO, n, ["top"], [e.const(float("-inf"), "f32")],
                    lambda a: [e.call("maximum", a[0], x("j0"))], lambda a, b: [e.call("maximum", a[0], b[0])])
    total = reduction("j1", ZERO, n, ["total"], [e.const(0.0, "f32")],
                      lambda a: [a[0] + e.call("exp", x("j1") - e.var("top", "f32"))], lambda a, b: [a[0] + b[0]])
    result = e.call("exp", x("j") - e.var("top", "f32")) / e.var("total", "f32")
    last = For("j", ZERO, n, (Store(1, i * n + e.var("j"), e.cast(result, code)),), vector=True)
    return Nest("softmax", operands([code], [code]), ("n",), rows(top, total, last))


def column_sums(code: str) -> Nest:
    x = e.cast(e.load(0, e.var("column") + e.var("r") * e.var("pitch"), code), "f32")
    fold = reduction("r", ZERO, e.var("count"), ["acc"], [e.const(0.0, "f32")], lambda a: [a[0] + x],
                     lambda a, b: [a[0] + b[0]])
    body = (Local("column", e.irem(i, e.var("columns"))), fold, Store(1, i, e.var("acc", "f32")))
    return Nest("sums", operands([code], ["f32"]), ("columns", "pitch", "count"), rows(*body, vector=True))


def accepted(text: str, folder) -> str:
    if shutil.which("ptxas"):
        (folder / "kernel.ptx").write_text(text)
        done = subprocess.run(["ptxas", "-arch=sm_90", "-v", str(folder / "kernel.ptx"), "-o", str(folder / "out")],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr
    return text


@pytest.mark.parametrize(("code", "vectors"), [("bf16", 4), ("bf16", 8), ("f32", 8)])
@pytest.mark.parametrize("exact", [False, True])
def test_rows_are_read_once(code, vectors, exact, tmp_path):
    nest = softmax(code)
    assert held_form(nest, shared_by_block(nest.loop.body)) >= vectors
    text = accepted(codegen.emit_held_ptx(nest, Held(vectors, exact, False)), tmp_path)
    assert text.count("ld.global.v4") == text.count("st.global.v4") == vectors
    lanes = vectors * (8 if code == "bf16" else 4)
    assert text.count("ex2.approx") == lanes      # one for both loops


def test_one_warp_meets_nowhere(tmp_path):
    text = accepted(codegen.emit_held_ptx(softmax("bf16"), Held(3, True, True)), tmp_path)
    assert "bar.sync" not in text and "barrier" not in text and "st.shared" not in text
    assert "st.shared" in codegen.emit_held_ptx(softmax("bf16"), Held(3, True, False))


def test_rows_of_other_forms_are_not_kept():
    nest = softmax("bf16")
    top, _, last = nest.loop.body
    shorter = For("j", ZERO, e.var("m"), last.body, vector=True)
    other = Nest("other", nest.operands, ("n", "m"), rows(top, shorter))
    assert held_form(other, shared_by_block(other.loop.body)) == 0


@pytest.mark.parametrize(("code", "size"), [("bf16", 8), ("f32", 4), ("f64", 2)])
def test_columns_go_in_vectors(code, size, tmp_path):
    nest = column_sums(code)
    assert column_form(nest) == (size, (0, 1), frozenset((0,)))
    text = accepted(codegen.emit_column_ptx(nest), tmp_path)
    assert "ld.global.v4" in text or "ld.global.v2.b64" in text
    assert text.count("ld.shared") == WARPS      # a thread for each column, once for each warp's part


def test_columns_apart_stay_single():
    x = e.load(0, i * e.var("pitch") + e.var("r"), "f32")
    fold = reduction("r", ZERO, e.var("count"), ["acc"], [e.const(0.0, "f32")], lambda a: [a[0] + x],
                     lambda a, b: [a[0] + b[0]])
    nest = Nest("sums", operands(["f32"], ["f32"]), ("pitch", "count"),
                rows(fold, Store(1, i, e.var("acc", "f32")), vector=True))
    assert column_form(nest)[0] == 1


def test_functions_are_short_for_half_results_only(tmp_path):
    def text(code: str, value) -> str:
        nest = pointwise_nest("f", [code], [code], [e.cast(value(e.cast(e.arg(0, code), "f32")), code)])
        return accepted(codegen.emit_point_ptx(nest, PointClass(1, (2, 2), False, False))[0], tmp_path)

    def halved(x):
        return e.call("exp", x) / (x + 1.0)

    assert "div.rn" in text("f32", halved) and "div.rn" not in text("bf16", halved)
    assert "ex2.approx.ftz" in text("bf16", halved)
    whole = text("bf16", lambda x: e.floor(x / 3.0))      # a quotient that is rounded down must be the nearest
    assert "div.rn" in whole
