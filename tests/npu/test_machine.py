"""What instructions do, and how long programs take: small cases worked out by hand."""

from __future__ import annotations

import math

import pytest

from .chip import MACHINE, chip, look, np, put, run

HEAD = "vcfg 16\nli s1, 1\nli s2, {n}\nli s3, {size}\nvl s2\nli s10, 4096\nli s11, 8192\nli s12, 16384\n"
LOAD = "dld.{t} v0, s10, s1, s0, s2, s3\ndld.{t} v1, s11, s1, s0, s2, s3\n"
KINDS = {"f32": "f4", "f64": "f8", "i64": "i8", "i32": "i4", "u8": "u1", "b1": "?", "f16": "f2"}


def apply(name: str, code: str, a: list, b: list, result: str | None = None) -> list:
    """An instruction over two vectors, by way of memory."""
    kind = KINDS[code]
    put(4096, a, kind)
    put(8192, b, kind)
    head = (HEAD + LOAD).format(t=code, n=len(a), size=np.dtype(kind).itemsize)
    out = result or code
    size = np.dtype(KINDS[out]).itemsize
    run(f"{head}{name}.{code} v2, v0, v1\nli s4, {size}\ndst.{out} v2, s12, s1, s0, s2, s4")
    return look(16384, len(a), KINDS[out])


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "code", "a", "b", "expected"),
    [
        ("vadd", "f32", [1, 2.5], [3, -4], [4, -1.5]),
        ("vadd", "u8", [250], [10], [4]),
        ("vmul", "i64", [1 << 62, -3], [4, 5], [0, -15]),
        ("vquot", "i32", [7, -7, 7, 5, -(1 << 31)], [2, 2, -2, 0, -1], [3, -3, -3, 0, -(1 << 31)]),
        ("vrem", "i32", [7, -7, 7, 5], [2, 2, -2, 0], [1, -1, 1, 0]),
        ("vmin", "f32", [NAN, 1, 2], [1, NAN, 3], [1, NAN, 2]),           # a < b ? a : b
        ("vmaxn", "f32", [NAN, 1, 2], [1, NAN, 3], [NAN, NAN, 3]),        # a NaN wins
        ("vsgn", "f64", [3.0, -2.0], [-0.0, 1.0], [-3.0, 2.0]),
        ("vshr", "i64", [-8, 9], [1, 3], [-4, 1]),
        ("vfmod", "f32", [5.5, -5.5], [2, 2], [1.5, -1.5]),
        ("vpow", "f32", [2, -1, 0], [10, 0.5, 0], [1024, NAN, 1]),
        ("vdiv", "f16", [1, 1], [3, 0], [float(np.float16(1 / 3)), INF]),
    ],
)
def test_lanes_compute(name, code, a, b, expected):
    assert np.array_equal(apply(name, code, a, b), expected, equal_nan=True)


def test_comparisons_give_booleans_and_choose():
    assert apply("vlt", "f32", [1, NAN, 3], [2, 2, 2], "b1") == [True, False, False]
    put(4096, [1.0, 2.0, 3.0], "f4")
    run(HEAD.format(n=3, size=4) + "dld.f32 v0, s10, s1, s0, s2, s3\nli s5, 0x40000000\nvge.f32 v1, v0, s5\n"
        "vsel.f32 v2, v1, v0, s0\ndst.f32 v2, s12, s1, s0, s2, s3")
    assert look(16384, 3, "f4") == [0.0, 2.0, 3.0]


def test_products_are_rounded_once():
    put(4096, [1 + 2**-12], "f4")
    run(HEAD.format(n=1, size=4) + "dld.f32 v0, s10, s1, s0, s2, s3\nli s5, 0xBF800000\nvfma.f32 v1, v0, v0, s5\n"
        "dst.f32 v1, s12, s1, s0, s2, s3")
    assert look(16384, 1, "f4") == [2**-11 + 2**-24]


@pytest.mark.parametrize(
    ("target", "source", "value", "bits"),
    [("bf16", "f32", 1 + 2**-8, 0x3F80), ("bf16", "f32", 1 + 3 * 2**-8, 0x3F82), ("bf16", "f32", NAN, 0x7FC0),
     ("f16", "f32", 65520.0, 0x7C00), ("u8", "f32", -1.0, 0xFF), ("f8e4m3fn", "f32", 500.0, 0x7E),
     ("f8e5m2", "f32", 1e9, 0x7C), ("f8e4m3fnuz", "f32", -0.0, 0), ("f8e4m3fn", "f32", -0.0, 0x80),
     ("f8e8m0fnu", "f32", 3.0, 129),
     ("i32", "f64", -2.9, 0xFFFFFFFE)],
)
def test_conversions_round_and_wrap(target, source, value, bits):
    from rushlight_npu.isa import SIZE

    put(4096, [value], KINDS[source])
    run(HEAD.format(n=1, size=SIZE[source]) + f"dld.{source} v0, s10, s1, s0, s2, s3\nvcvt.{target}.{source} v1, v0\n"
        f"li s4, {SIZE[target]}\ndst.{target} v1, s12, s1, s0, s2, s4")
    assert look(16384, 1, f"u{SIZE[target]}") == [bits]


def test_boxes_repeat_turn_and_slide():
    put(4096, range(6), "i8")
    run(HEAD.format(n=6, size=8) + "li s4, 2\nli s5, 3\nli s6, 24\ndld.i64 v0, s10, s5, s3, s4, s6\n"      # turned
        "dst.i64 v0, s12, s1, s0, s2, s3\nvl s5\nvslide.i64 v1, v0, s5\nli s7, 16448\ndst.i64 v1, s7, s1, s0, s5, s3\n"
        "vl s2\nviota v2, s5, s4, s5\nli s7, 16512\ndst.i64 v2, s7, s1, s0, s2, s3\n"
        "vrep.i64 v3, v0, s1, s4\nli s7, 16576\ndst.i64 v3, s7, s1, s0, s2, s3")
    assert look(16384, 6, "i8") == [0, 3, 1, 4, 2, 5]
    assert look(16448, 3, "i8") == [4, 2, 5]
    assert look(16512, 6, "i8") == [3, 3, 4, 4, 5, 5]
    assert look(16576, 6, "i8") == [0, 3, 0, 3, 0, 3]


def test_lanes_that_meet_are_added_up_or_taken_in_turn():
    put(4096, [2, 0, 2, 2], "i8")
    put(16384, [0] * 4, "f4")
    run(HEAD.format(n=4, size=8) + "dld.i64 v0, s10, s1, s0, s2, s3\nli s5, 0x3F800000\nvmov.f32 v1, s5\n"
        "dputadd.f32 v1, s12, v0, -\nvuniq v2, v0, -\nli s7, 16512\ndst.b1 v2, s7, s1, s0, s2, s1")
    assert look(16384, 4, "f4") == [1, 0, 3, 0]
    assert look(16512, 4, "?") == [True, True, False, False]


def test_masked_lanes_touch_no_memory():
    put(4096, [1 << 40, 1], "i8")      # the first place is nowhere
    put(8192, [False, True], "?")
    put(16384, [7.0, 8.0], "f4")
    run(HEAD.format(n=2, size=8) + "dld.i64 v0, s10, s1, s0, s2, s3\ndld.b1 v1, s11, s1, s0, s2, s1\n"
        "dgat.f32 v2, s12, v0, v1\nli s4, 4\nli s7, 16512\ndst.f32 v2, s7, s1, s0, s2, s4")
    assert look(16512, 2, "f4") == [0.0, 8.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("li s1, 1\nvl s1\nvcfg 2\nvmov.f32 v2, s0", "word 4, `vmov.f32 v2, s0`: v2 does not exist"),
        ("li s1, 9999999\nvl s1\nvmov.f32 v0, s0", "9999999 lanes of f32 do not fit"),
        ("li s1, 1\nvl s1\nli s2, 1048577\nli s3, 4\ndld.f32 v0, s2, s1, s0, s1, s3", "dld.f32"),
        ("li s1, 1\nvl s1\ndld.f32 v0, s0, s1, s0, s1, s1", "address 0 is nobody's"),
        ("larg s1, 3", "the launch has 0 arguments"),
    ],
)
def test_what_the_chip_cannot_do_names_the_instruction(text, words):
    with pytest.raises(chip.Fault, match=words):
        run(text)


# --- cycles -----------------------------------------------------------------------------------------------------------


def cycles(text: str) -> int:
    run(text)
    return MACHINE.clock.total()


START = "vcfg 8\nli s1, 1\nli s2, 4096\nli s3, 4\nli s10, 65536\nli s11, 131072\nvl s2\n"      # 7 cycles


def test_scalar_instructions_take_a_cycle_and_branches_that_are_taken_two_more():
    assert cycles("li s1, 3\nli s2, 1\nagain: ssub s1, s1, s2\nbnz s1, again") == 2 + 3 * 2 + 2 * 2


def test_a_load_an_addition_and_a_store_follow_each_other():
    # the load is issued in cycle 8, moves 4096 * 4 / 64 = 256 beats and is there 80 cycles later; the addition works
    # for 4096 / 128 = 32 cycles, 4 until its result; the store 256 + 80
    load = 8 + 256 + 80
    assert cycles(START + "dld.f32 v0, s10, s1, s0, s2, s3") == load
    assert cycles(START + "dld.f32 v0, s10, s1, s0, s2, s3\nvadd.f32 v1, v0, v0") == load + 32 + 4
    whole = START + "dld.f32 v0, s10, s1, s0, s2, s3\nvadd.f32 v1, v0, v0\ndst.f32 v1, s11, s1, s0, s2, s3"
    assert cycles(whole) == load + 36 + 256 + 80


def test_units_overlap_unless_registers_say_otherwise():
    first = "dld.f32 v0, s10, s1, s0, s2, s3\nvadd.f32 v1, v0, v0\n"
    # another load into a register of its own begins when the first has left the unit: 256 cycles later, not 376
    assert cycles(START + first + "dld.f32 v2, s10, s1, s0, s2, s3") == 8 + 512 + 80
    # into the same register it waits until the addition has read it
    assert cycles(START + first + "dld.f32 v0, s10, s1, s0, s2, s3") == 8 + 256 + 80 + 32 + 256 + 80
    # behind a fence it waits for the store
    store = "dst.f32 v1, s11, s1, s0, s2, s3\n"
    assert cycles(START + first + store + "fence\ndld.f32 v2, s10, s1, s0, s2, s3") == 8 + 336 + 36 + 336 + 256 + 80


def test_wide_types_and_special_functions_take_longer():
    at = len(START.splitlines()) + 1
    assert cycles(START + "vadd.f32 v0, v0, v0") == at + 32 + 4
    assert cycles(START + "vadd.f64 v0, v0, v0") == at + 64 + 4
    assert cycles(START + "vexp.f32 v0, v0") == at + 128 + 4


def test_dma_pays_for_rows_and_for_elements_apart():
    # 64 rows of 64 neighbours, 4 beats each; and 4096 elements two apart
    assert cycles(START + "li s4, 64\nli s5, 1024\ndld.f32 v0, s10, s4, s5, s4, s3") == 10 + 64 * 4 + 80
    assert cycles(START + "li s4, 8\ndld.f32 v0, s10, s1, s0, s2, s4") == 9 + 4096 + 80
    # the same rows turned cost no more; one row 64 times is moved once
    assert cycles(START + "li s4, 64\nli s5, 1024\ndld.f32 v0, s10, s4, s3, s4, s5") == 10 + 64 * 4 + 80
    assert cycles(START + "li s4, 64\ndld.f32 v0, s10, s4, s0, s4, s3") == 9 + 4 + 80


def test_the_array_changes_weights_behind_rows():
    # 100 rows, 2 x 3 tiles of weights: the first are loaded in 16 cycles, 31 until the last sum is out
    text = START + "li s4, 100\nli s5, 40\nli s6, 32\namul.f32 v0, v1, v2, s4, s5, s6"
    assert cycles(text) == 11 + 16 + 6 * 100 + 31
    assert MACHINE.clock.busy["array"] == 616
