"""`mlir.load`: text that is no module says where, and no text does harm."""

from __future__ import annotations

import random
import re
import time

import pytest

import rushlight as torch
from rushlight import mlir
from rushlight.mlir.errors import UnsupportedText
from rushlight.mlir.loading import load

GOOD = """#loc1 = loc("model.py":7:2)
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<3x2xf32>) ->
    (tensor<4x2xf32>) {
    %cst = stablehlo.constant dense<[[1.0, 2.0], [3.0, -4.5], [0x7FC00000, 1.0e-3], [5.0, 6.0]]> : tensor<4x2xf32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] :
      (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32> loc(#loc1)
    %1:2 = call @inner(%0, %cst) : (tensor<4x2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xf32>)
    %2 = "stablehlo.broadcast_in_dim"(%1#1) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) ->
      tensor<4x2xf32>
    %3 = stablehlo.slice %2 [0:4, 0:2:1] : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = stablehlo.add %3, %1#0 : tensor<4x2xf32> // the end
    return %4 : tensor<4x2xf32>
  }
  func.func private @inner(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x2xf32>,
      tensor<f32>) -> tensor<4xf32>
    %p = stablehlo.compare GT, %a, %b, FLOAT : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xi1>
    %m = stablehlo.select %p, %a, %b : tensor<4x2xi1>, tensor<4x2xf32>
    return %m, %s : tensor<4x2xf32>, tensor<4xf32>
  }
}
"""


def body(text: str, results: str = "tensor<2xf32>") -> str:
    return f"func.func @main(%a: tensor<2xf32>, %i: tensor<2xi32>, %s: tensor<i32>) -> {results} {{\n{text}\n}}"


RETURN = "\nreturn %a : tensor<2xf32>"
BAD = {
    "no text": ("", 1, 1, "without functions"),
    "a word": ("hello", 1, 1, "not known"),
    "a character": ("func.func @main() { return }\n  ~", 2, 3, "begins no word"),
    "an open string": ('"stablehlo.add', 1, 1, "does not end"),
    "a missing brace": ("func.func @main() {\n return", 2, 8, "'}'"),
    "an undefined value": (body("%r = stablehlo.add %a, %b : tensor<2xf32>" + RETURN), 2, 24, "%b is not defined"),
    "a value used before": (body("%r = stablehlo.add %a, %q : tensor<2xf32>\n%q = stablehlo.negate %a :"
        " tensor<2xf32>" + RETURN),
                            2, 24, "%q is not defined"),
    "a value from another region": (body(
        '%p = stablehlo.constant dense<true> : tensor<i1>\n%c = "stablehlo.if"(%p) ({ %x = stablehlo.negate %a :'
            ' tensor<2xf32>\n'
        ' stablehlo.return %x : tensor<2xf32> }, { stablehlo.return %x : tensor<2xf32> }) : (tensor<i1>) ->'
            ' tensor<2xf32>'
        + RETURN), 4, 60, "%x is not defined"),
    "a value twice": (body("%a = stablehlo.negate %a : tensor<2xf32>" + RETURN), 2, 1, "defined twice"),
    "another type": (body("%r = stablehlo.negate %a : tensor<3xf32>" + RETURN), 2, 23, "has the type tensor<2xf32>"),
    "operands that differ": (body(
        "%r = stablehlo.add %a, %i : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>" + RETURN), 2, 6, "one type"),
    "another result": (body("%r = stablehlo.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>" + RETURN), 2,
        6,
                       "the result has the type tensor<2xf32>"),
    "an unknown op": (body("%r = stablehlo.frobnicate %a : tensor<2xf32>" + RETURN), 2, 6, "frobnicate"),
    "an unknown generic op": (body('%r = "stablehlo.frobnicate"(%a) : (tensor<2xf32>) -> tensor<2xf32>' + RETURN), 2, 6,
                              "not known"),
    "another dialect": (body('%r = "tosa.add"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>' + RETURN), 2,
        6,
                        "not known"),
    "an unknown function": (body("%r = call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>" + RETURN), 2, 6, "@f is not"
        " defined"),
    "a function of itself": (body(
        "%r = call @main(%a, %i, %s) : (tensor<2xf32>, tensor<2xi32>, tensor<i32>) -> tensor<2xf32>" + RETURN), 2, 6,
        "calls itself"),
    "a wrong return": (body("return %i : tensor<2xi32>"), 2, 1, "the function returns"),
    "no return": (body("%r = stablehlo.negate %a : tensor<2xf32>"), 1, 1, "must end with return"),
    "floats that are whole": (body("%r = stablehlo.constant dense<[1, 2]> : tensor<2xf32>" + RETURN), 2, 30,
        "floating-point"),
    "too few elements": (body("%r = stablehlo.constant dense<[1.0]> : tensor<2xf32>" + RETURN), 2, 30, "the shape"),
    "uneven lists": (body("%r = stablehlo.constant dense<[[1.0], [1.0, 2.0]]> : tensor<2x2xf32>" + RETURN), 2, 30,
                     "one length"),
    "too many bytes": (body('%r = stablehlo.constant dense<"0x000000000000000000000000"> : tensor<2xf32>' + RETURN), 2,
        30,
                       "12 bytes"),
    "a number too large": (body("%r = stablehlo.constant dense<300> : tensor<2xui8>" + RETURN), 2, 30, "no ui8"),
    "a huge tensor": (body("%r = stablehlo.constant dense<0> : tensor<9999999999x9999999999xi8>" + RETURN), 2, 42,
        "memory"),
    "a dimension too many": (body("%r = stablehlo.reverse %a, dims = [1] : tensor<2xf32>" + RETURN), 2, 6,
        "dimensions"),
    "a dimension twice": (body("%r = stablehlo.transpose %a, dims = [0, 0] : (tensor<2xf32>) -> tensor<2x2xf32>"
                               + RETURN), 2, 6, "permutation"),
    "a slice beyond": (body("%r = stablehlo.slice %a [0:3] : (tensor<2xf32>) -> tensor<3xf32>" + RETURN), 2, 6, "0:3"),
    "a missing attribute": (body('%r = "stablehlo.transpose"(%a) : (tensor<2xf32>) -> tensor<2xf32>' + RETURN), 2, 6,
                            "'permutation' is missing"),
    "an attribute of another kind": (body(
        '%r = "stablehlo.transpose"(%a) <{permutation = "x"}> : (tensor<2xf32>) -> tensor<2xf32>' + RETURN), 2, 6,
        "whole numbers"),
    "an alias": (body("%r = stablehlo.negate %a : !mine" + RETURN), 2, 28, "!mine is not defined"),
    "a location": (body("%r = stablehlo.negate %a : tensor<2xf32> loc(#l)" + RETURN), 2, 46, "#l is not defined"),
    "a resource": (body("%r = stablehlo.constant dense_resource<w> : tensor<2xf32>" + RETURN), 2, 6, "'w' is not in"),
    "a function twice": ("func.func @main() { return }\nfunc.func @main() { return }", 2, 1, "defined twice"),
    "floats as bits": (body("%r = stablehlo.and %a, %a : tensor<2xf32>" + RETURN), 2, 6, "f32 are not allowed"),
    "a region that returns something else": (body(
        '%p = stablehlo.constant dense<true> : tensor<i1>\n%c = "stablehlo.if"(%p) ({ stablehlo.return %a :'
            ' tensor<2xf32> },'
        " { stablehlo.return %i : tensor<2xi32> }) : (tensor<i1>) -> tensor<2xf32>" + RETURN), 3, 69, "must return"),
    "results that are not there": (body("%r:2 = stablehlo.negate %a : tensor<2xf32>" + RETURN), 2, 1, "1 results"),
    "a result that is not there": (body("%r = stablehlo.negate %a#1 : tensor<2xf32>" + RETURN), 2, 23, "has 1 results"),
}
REFUSED = {
    "custom_call": ('%r = stablehlo.custom_call @their_kernel(%a) : (tensor<2xf32>) -> tensor<2xf32>', "@their_kernel"),
    "rng_bit_generator": ('%r:2 = "stablehlo.rng_bit_generator"(%k) <{rng_algorithm = #stablehlo<rng_algorithm'
        ' DEFAULT>}> :'
                          " (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)", "rng_bit_generator"),
    "chlo": ("%r = chlo.erf %a : tensor<2xf32> -> tensor<2xf32>", "chlo.erf"),
    "generic chlo": ('%r = "chlo.erf"(%a) : (tensor<2xf32>) -> tensor<2xf32>', "CHLO"),
    "quantized": ("%r = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.1>>",
        "quant"),
    "four bits": ("%r = stablehlo.convert %a : (tensor<2xf32>) -> tensor<2xi4>", "i4"),
    "all_reduce": ('%r = "stablehlo.partition_id"() : () -> tensor<ui32>', "one device"),
    "no rank": ("%r = stablehlo.negate %a : tensor<*xf32>", "rank"),
}


def test_the_good_text_is_good():
    module = load(GOOD)
    assert module(torch.ones(4, 3), torch.ones(3, 2)).shape == (4, 2)
    assert any("model.py" in (n.meta.get("stack_trace") or "") for n in module.graph_module.graph.nodes)


@pytest.mark.parametrize("name", BAD)
def test_bad_text_says_where(name):
    text, line, column, said = BAD[name]
    with pytest.raises(mlir.ParseError) as caught:
        load(text)
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"{line}:{column}: ")


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused_by_name(name):
    text, said = REFUSED[name]
    text = body("%k = stablehlo.constant dense<1> : tensor<2xui64>\n" + text + RETURN)
    with pytest.raises(UnsupportedText, match=said) as caught:
        load(text)
    assert caught.value.line == 3
    assert isinstance(caught.value, (mlir.ParseError, mlir.UnsupportedOp))


def test_arguments_are_checked():
    module = load(GOOD)
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        module(torch.ones(4, 3))
    with pytest.raises(TypeError, match="tensor<3x2xf32>"):
        module(torch.ones(4, 3), torch.ones(3, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        module(torch.ones(4, 3), torch.ones(2, 3))
    with pytest.raises(TypeError, match="must be a tensor"):
        module(torch.ones(4, 3), 1.0)
    with pytest.raises(TypeError, match="str"):
        load(b"module {}")
    with pytest.raises(mlir.ParseError, match="@other"):
        load(GOOD, entry="other")


@pytest.mark.parametrize("text", [
    "(" * 100_000, "module {" * 5000, '"stablehlo.if"(' * 1000, "#a = " + "[" * 50_000, "!t = " + "tuple<" * 9000,
    "#x = loc(" + "callsite(" * 9000, "func.func @main(%a: " + "(" * 9000, "#a = dense<" + "[" * 9000 +
        "> : tensor<1xi8>",
    "#a = array<i64: " + "9" * 5000 + ">", "#a = " + "9" * 5000, "!t = tensor<" + "1x" * 5000 + "f32>",
    "!t = tensor<" + "9" * 5000 + "xf32>", "#a = #stablehlo.gather<" + "<" * 10_000, "%a:" + "9" * 4000 + " = x",
    "\x00", "\ud800", "//" + "x" * 100_000, '"' + "\\" * 99_999,
])
def test_deep_and_long_text_is_refused(text):
    with pytest.raises(mlir.ParseError):
        load(text)


def test_a_large_constant_that_is_all_one_number_takes_no_memory():
    text = """func.func @main() -> tensor<4xf32> {
      %c = stablehlo.constant dense<2.5> : tensor<1000000x1000000xf32>
      %s = stablehlo.slice %c [7:8, 0:4] : (tensor<1000000x1000000xf32>) -> tensor<1x4xf32>
      %r = stablehlo.reshape %s : (tensor<1x4xf32>) -> tensor<4xf32>
      return %r : tensor<4xf32> }"""
    assert load(text)().tolist() == [2.5] * 4


def test_calls_that_double_and_double_are_refused():
    functions = "\n".join(
        f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"%b = call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>\n%c = call @f{i + 1}(%b) : (tensor<f32>) ->"
            f" tensor<f32>\n"
        "return %c : tensor<f32> }" for i in range(70))
    text = ("func.func @main(%a: tensor<f32>) -> tensor<f32> {\n%b = call @f0(%a) : (tensor<f32>) -> tensor<f32>\n"
            "return %b : tensor<f32> }\n" + functions + "\nfunc.func private @f70(%a: tensor<f32>) -> tensor<f32> {\n"
            "%b = stablehlo.negate %a : tensor<f32>\nreturn %b : tensor<f32> }")
    with pytest.raises(mlir.ParseError, match="nested more than"):
        load(text)


PIECES = ["%", "#", "!", "<", ">", "(", ")", "{", "}", "[", "]", ",", ":", "=", "->", "?", "x", "f32", "i1",
    "tensor<", "0x",
          "-", "1", "99999999999999999999", '"', "\n", "stablehlo.", "dense<", "loc(", "@main", "%0", "%1#1", "//",
              "\x00",
          "é", "complex<", "tuple<", "array<i64: ", "return", "^bb0", "{-#", "#-}", " init: ", "2x", "?x", "0x3x"]


def mutated(text: str, rng: random.Random) -> str:
    """The text with a few pieces taken out, put in, doubled or exchanged, or cut."""
    for _ in range(rng.randint(1, 4)):
        a = rng.randrange(len(text) + 1)
        b = min(len(text), a + rng.randint(0, 12))
        what = rng.randrange(6)
        if what == 0:
            text = text[:a] + text[b:]
        elif what == 1:
            text = text[:a] + rng.choice(PIECES) + text[a:]
        elif what == 2:
            text = text[:a] + text[a:b] + text[a:]
        elif what == 3:
            c = rng.randrange(len(text) + 1)
            text = text[:a] + text[c:c + 9] + text[b:]
        elif what == 4:
            text = text[:a] + chr(rng.randrange(32, 127)) + text[a + 1:]
        elif rng.random() < 0.2:
            text = text[:a]
    return text


def fuzz(seeds: range) -> None:
    slowest = 0.0
    for seed in seeds:
        text = mutated(GOOD, random.Random(seed))
        begin = time.process_time()
        try:
            load(text)
        except mlir.ParseError as error:
            assert error.line >= 1 and error.column >= 1
        slowest = max(slowest, time.process_time() - begin)
    assert slowest < 5


def test_mutated_text_does_no_harm():
    fuzz(range(600))


@pytest.mark.slow
def test_much_mutated_text_does_no_harm():
    fuzz(range(600, 4000))


def changed(text: str, rng: random.Random) -> str:
    """The text with one number, element type or truth value exchanged."""
    places = list(re.finditer(r"(?<![%#\w.])\d+(?![\w.])|(?<=[<x,\[ ])\d+(?=[x,\]>: ])|\b(f32|i32|i64|f64|i1|true|false)\b",
                              text))
    place = rng.choice(places)
    found = place.group()
    swaps = {"f32": "i32", "i32": "f32", "i64": "i32", "f64": "f32", "i1": "i32", "true": "false", "false": "true"}
    new = swaps.get(found) or str(max(0, int(found) + rng.choice([1, -1, 1, 2])))
    return text[:place.start()] + new + text[place.end():]


def test_what_torch_mlir_refuses_is_refused():
    pytest.importorskip("jaxlib")
    pytest.importorskip("torch_mlir")
    from tests.mlir import loading
    from tests.mlir.test_load_ops import CASES
    from torch_mlir import ir
    from torch_mlir._mlir_libs import _stablehlo

    rng, names = random.Random(7), list(CASES)
    with ir.Context() as context:
        _stablehlo.register_dialect(context)
        for _ in range(120):
            text = loading.function(*CASES[rng.choice(names)])
            text = changed(loading.generic(text) if rng.random() < 0.5 else text, rng)
            try:
                load(text)
            except mlir.ParseError:
                continue
            if "dense<-0>" not in text and "epsilon" not in text:
                assert ir.Module.parse(text).operation.verify()
