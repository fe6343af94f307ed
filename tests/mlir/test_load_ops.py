"""`mlir.load`: every structural operation, in short and generic form, gives what XLA gives."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("jaxlib")
pytest.importorskip("torch_mlir")

from tests.mlir import loading

ADD = """({ ^bb0(%x: tensor<E>, %y: tensor<E>): %s = stablehlo.add %x, %y : tensor<E>
 "stablehlo.return"(%s) : (tensor<E>) -> () })"""
MAX = ADD.replace("stablehlo.add", "stablehlo.maximum")
MIN = ADD.replace("stablehlo.add", "stablehlo.minimum")
MUL = ADD.replace("stablehlo.add", "stablehlo.multiply")
PUT = '({ ^bb0(%x: tensor<E>, %y: tensor<E>): "stablehlo.return"(%y) : (tensor<E>) -> () })'
SUB = ADD.replace("stablehlo.add", "stablehlo.subtract")
ODD = """({ ^bb0(%x: tensor<E>, %y: tensor<E>): %p = stablehlo.compare GT, %x, %y : (tensor<E>, tensor<E>) -> tensor<i1>
 %n = stablehlo.negate %y : tensor<E>
 %s = stablehlo.select %p, %x, %n : tensor<i1>, tensor<E>
 %h = stablehlo.constant dense<2.0> : tensor<E>
 %q = stablehlo.multiply %s, %h : tensor<E>
 "stablehlo.return"(%q) : (tensor<E>) -> () })"""
GE = """({ ^bb0(%x: tensor<E>, %y: tensor<E>): %p = stablehlo.compare GE, %x, %y : (tensor<E>, tensor<E>) -> tensor<i1>
 "stablehlo.return"(%p) : (tensor<i1>) -> () })"""


def f32(text: str) -> str:
    return text.replace("<E>", "<f32>")


# name: arguments, results, body
CASES: dict[str, tuple[list[str], list[str], str]] = {}


def case(name: str, arguments: str, results: str, body: str) -> None:
    def types(text: str) -> list[str]:
        return [f"tensor<{t}>" for t in text.split()]

    body = re.sub(r"\bT<", "tensor<", body)
    CASES[name] = types(arguments), types(results), body


case("reshape", "2x6xf32", "3x4xf32", "%r = stablehlo.reshape %a0 : (T<2x6xf32>) -> T<3x4xf32>")
case("reshape to scalar", "1x1xi8", "i8", "%r = stablehlo.reshape %a0 : (T<1x1xi8>) -> T<i8>")
case("reshape empty", "0x3xf32", "3x0x2xf32", "%r = stablehlo.reshape %a0 : (T<0x3xf32>) -> T<3x0x2xf32>")
case("transpose", "2x3x4xbf16", "4x2x3xbf16",
     "%r = stablehlo.transpose %a0, dims = [2, 0, 1] : (T<2x3x4xbf16>) -> T<4x2x3xbf16>")
case("broadcast", "3xf32", "2x4x3xf32", "%r = stablehlo.broadcast %a0, sizes = [2, 4] : (T<3xf32>) -> T<2x4x3xf32>")
case("broadcast_in_dim", "3x1xf32", "2x5x3xf32",
     "%r = stablehlo.broadcast_in_dim %a0, dims = [2, 1] : (T<3x1xf32>) -> T<2x5x3xf32>")
case("broadcast_in_dim scalar", "i1", "2x2xi1", "%r = stablehlo.broadcast_in_dim %a0, dims = [] : (T<i1>) -> T<2x2xi1>")
for kind in ("i8", "ui32", "f16", "f64", "complex<f32>"):
    case(f"iota {kind}", "", f"3x4x{kind}", f"%r = stablehlo.iota dim = 1 : T<3x4x{kind}>")
case("reverse", "3x4xf32", "3x4xf32", "%r = stablehlo.reverse %a0, dims = [0, 1] : T<3x4xf32>")
case("reverse nothing", "3xi32", "3xi32", "%r = stablehlo.reverse %a0, dims = [] : T<3xi32>")
case("concatenate", "2x3xf32 2x0xf32 2x1xf32", "2x4xf32",
     "%r = stablehlo.concatenate %a0, %a1, %a2, dim = 1 : (T<2x3xf32>, T<2x0xf32>, T<2x1xf32>) -> T<2x4xf32>")
case("slice", "6x7xf32", "2x3xf32", "%r = stablehlo.slice %a0 [1:5:2, 1:7:2] : (T<6x7xf32>) -> T<2x3xf32>")
case("slice nothing", "6xf32", "0xf32", "%r = stablehlo.slice %a0 [3:3] : (T<6xf32>) -> T<0xf32>")
case("pad", "3x4xf32 f32", "8x4xf32",
     "%r = stablehlo.pad %a0, %a1, low = [2, -1], high = [1, -2], interior = [1, 1] : (T<3x4xf32>, T<f32>) ->"
         " T<8x4xf32>")
case("pad past", "1xf32 f32", "3xf32",
     "%r = stablehlo.pad %a0, %a1, low = [-3], high = [5], interior = [0] : (T<1xf32>, T<f32>) -> T<3xf32>")
case("pad empty", "0x2xi32 i32", "3x4xi32",
     "%r = stablehlo.pad %a0, %a1, low = [1, 1], high = [2, 0], interior = [5, 1] : (T<0x2xi32>, T<i32>) -> T<3x4xi32>")
case("pad constant", "3xi1", "7xi1", """%c = stablehlo.constant dense<true> : T<i1>
%r = stablehlo.pad %a0, %c, low = [1], high = [1], interior = [1] : (T<3xi1>, T<i1>) -> T<7xi1>""")
case("dynamic_slice", "5x6xf32 i32 i32", "2x3xf32",
     "%r = stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [2, 3] : (T<5x6xf32>, T<i32>, T<i32>) -> T<2x3xf32>")
case("dynamic_slice at ends", "5x6xf32", "2x3xf32", """%b = stablehlo.constant dense<100> : T<i64>
%c = stablehlo.constant dense<-3> : T<i64>
%r = stablehlo.dynamic_slice %a0, %b, %c, sizes = [2, 3] : (T<5x6xf32>, T<i64>, T<i64>) -> T<2x3xf32>""")
case("dynamic_update_slice", "5x6xf32 2x3xf32 ui8 i32", "5x6xf32", """%b = stablehlo.convert %a2 : (T<ui8>) -> T<i32>
%r = stablehlo.dynamic_update_slice %a0, %a1, %b, %a3 : (T<5x6xf32>, T<2x3xf32>, T<i32>, T<i32>) -> T<5x6xf32>""")
case("dynamic_update_slice at ends", "5x6xf32 2x3xf32", "5x6xf32", """%b = stablehlo.constant dense<4> : T<i64>
%c = stablehlo.constant dense<-1> : T<i64>
%r = stablehlo.dynamic_update_slice %a0, %a1, %b, %c : (T<5x6xf32>, T<2x3xf32>, T<i64>, T<i64>) -> T<5x6xf32>""")

for name, text in (("add", "add"), ("max", "maximum"), ("min", "minimum"), ("mul", "multiply")):
    for kind in ("f32", "i32", "ui8", "f64", "i1"):
        case(f"reduce {name} {kind}", f"3x4x5x{kind} {kind}", f"4x{kind}",
             f"%r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{text} across dimensions = [2, 0] :"
             f" (T<3x4x5x{kind}>, T<{kind}>) -> T<4x{kind}>")
for text in ("and", "or", "xor"):
    for kind in ("i1", "i16"):
        case(f"reduce {text} {kind}", f"3x7x{kind} {kind}", f"3x{kind}",
             f"%r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{text} across dimensions = [1] :"
             f" (T<3x7x{kind}>, T<{kind}>) -> T<3x{kind}>")
case("reduce nothing", "3xf32 f32", "3xf32",
     "%r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.add across dimensions = [] : (T<3xf32>, T<f32>) ->"
         " T<3xf32>")
case("reduce empty", "3x0xf32 f32", "3xf32", "%r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.maximum across"
     " dimensions = [1] : (T<3x0xf32>, T<f32>) -> T<3xf32>")
case("reduce to the largest and its place", "4x7xf32", "4xf32 4xi32", """%i = stablehlo.iota dim = 1 : T<4x7xi32>
%z = stablehlo.constant dense<0xFF800000> : T<f32>
%n = stablehlo.constant dense<0> : T<i32>
%q:2 = stablehlo.reduce(%a0 init: %z), (%i init: %n) across dimensions = [1] : (T<4x7xf32>, T<4x7xi32>, T<f32>, T<i32>)
 -> (T<4xf32>, T<4xi32>) reducer(%x: T<f32>, %y: T<f32>) (%k: T<i32>, %l: T<i32>) {
  %p = stablehlo.compare GE, %x, %y : (T<f32>, T<f32>) -> T<i1>
  %s = stablehlo.select %p, %x, %y : T<i1>, T<f32>
  %t = stablehlo.select %p, %k, %l : T<i1>, T<i32>
  stablehlo.return %s, %t : T<f32>, T<i32> }
%r0 = stablehlo.add %q#0, %q#0 : T<4xf32>
%r1 = stablehlo.add %q#1, %q#1 : T<4xi32>""")
case("reduce with a branch", "4x6xi32 i32", "4xi32", """%r = stablehlo.reduce(%a0 init: %a1) across dimensions = [1] :
 (T<4x6xi32>, T<i32>) -> T<4xi32> reducer(%x: T<i32>, %y: T<i32>) {
  %p = stablehlo.compare LT, %x, %y : (T<i32>, T<i32>) -> T<i1>
  %s = "stablehlo.if"(%p) ({ "stablehlo.return"(%y) : (T<i32>) -> () }, { "stablehlo.return"(%x) : (T<i32>) -> () })
   : (T<i1>) -> T<i32>
  stablehlo.return %s : T<i32> }""")

WINDOW = """%r = "stablehlo.reduce_window"(%a0, %a1) <{{{attributes}}}> {body} : (T<{x}>, T<f32>) -> T<{r}>"""
for name, body in (("add", ADD), ("max", MAX), ("min", MIN), ("mul", MUL)):
    case(f"reduce_window {name}", "2x8x9xf32 f32", "2x4x3xf32", WINDOW.format(
        attributes="window_dimensions = array<i64: 1, 3, 4>, window_strides = array<i64: 1, 2, 3>, "
        "padding = dense<[[0, 0], [1, 0], [2, 0]]> : tensor<3x2xi64>", body=f32(body), x="2x8x9xf32", r="2x4x3xf32"))
case("reduce_window dilated", "7x6xf32 f32", "5x3xf32", WINDOW.format(
    attributes="window_dimensions = array<i64: 3, 5>, window_strides = array<i64: 2, 2>, base_dilations = "
    "array<i64: 2, 1>, window_dilations = array<i64: 2, 1>, padding = dense<[[0, 0], [1, 2]]> : tensor<2x2xi64>",
    body=f32(ADD), x="7x6xf32", r="5x3xf32"))
case("reduce_window cumulative", "37xf32", "37xf32", "%z = stablehlo.constant dense<0.0> : T<f32>\n" + WINDOW.replace(
    "%a1", "%z").format(
    attributes="window_dimensions = array<i64: 37>, padding = dense<[[36, 0]]> : tensor<1x2xi64>",
    body=f32(ADD), x="37xf32", r="37xf32"))
case("reduce_window none", "3xf32 f32", "0xf32", WINDOW.format(
    attributes="window_dimensions = array<i64: 5>", body=f32(ADD), x="3xf32", r="0xf32"))


def both(*regions: str, kind: str) -> str:
    """Several regions in one pair of parentheses."""
    return "(" + ", ".join(r[1:-1] for r in regions).replace("<E>", f"<{kind}>") + ")"


case("select_and_scatter", "6x7xf32 3x3xf32 f32", "6x7xf32",
     '%r = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{window_dimensions = array<i64: 2, 3>, window_strides ='
     f' array<i64: 2, 2>}}> {both(GE, ADD, kind="f32")} : (T<6x7xf32>, T<3x3xf32>, T<f32>) -> T<6x7xf32>')
case("select_and_scatter padded", "5x5xi32 3x3xi32 i32", "5x5xi32",
     '%r = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{window_dimensions = array<i64: 3, 3>, window_strides ='
     ' array<i64: 2, 2>, padding = dense<1> : tensor<2x2xi64>}>'
     f' {both(GE, ADD, kind="i32")} : (T<5x5xi32>, T<3x3xi32>, T<i32>) -> T<5x5xi32>')

# --- sorts ------------------------------------------------------------------------------------------------------------

BEFORE = """({ ^bb0(%x: tensor<E>, %y: tensor<E>): %p = stablehlo.compare WAY, %x, %y HOW : (tensor<E>, tensor<E>)
  -> tensor<i1>
 "stablehlo.return"(%p) : (tensor<i1>) -> () })"""
for kind, way, how in (("f32", "LT", ", TOTALORDER"), ("f32", "GT", ""), ("i32", "LT", ", SIGNED"), ("ui8", "GT", ""),
                       ("f16", "GT", ", TOTALORDER"), ("i1", "LT", "")):
    region = BEFORE.replace("WAY", way).replace(" HOW", how).replace("<E>", f"<{kind}>")
    case(f"sort {kind} {way}{how}", f"4x9x{kind}", f"4x9x{kind}",
         f'%r = "stablehlo.sort"(%a0) <{{dimension = 1 : i64, is_stable = true}}> {region} :'
         f" (T<4x9x{kind}>) -> T<4x9x{kind}>")
case("sort by key", "11x3xi32 11x3xf32", "11x3xi32 11x3xf32",
     """%r0, %r1 = "stablehlo.sort"(%a0, %a1) <{dimension = 0 : i64, is_stable = true}> ({
 ^bb0(%x: T<i32>, %y: T<i32>, %k: T<f32>, %l: T<f32>): %u = stablehlo.abs %x : T<i32>
 %v = stablehlo.abs %y : T<i32>
 %p = stablehlo.compare GT, %u, %v, SIGNED : (T<i32>, T<i32>) -> T<i1>
 "stablehlo.return"(%p) : (T<i1>) -> () }) : (T<11x3xi32>, T<11x3xf32>) -> (T<11x3xi32>, T<11x3xf32>)""")
for n in (1, 2, 13):
    case(f"sort {n} by two keys", f"{n}xi1 {n}xf32 {n}xi32", f"{n}xi1 {n}xf32 {n}xi32",
         f"""%r0, %r1, %r2 = "stablehlo.sort"(%a0, %a1, %a2) <{{dimension = 0 : i64, is_stable = true}}> ({{
 ^bb0(%x: T<i1>, %y: T<i1>, %k: T<f32>, %l: T<f32>, %m: T<i32>, %n: T<i32>):
 %p = stablehlo.compare LT, %x, %y : (T<i1>, T<i1>) -> T<i1>
 %e = stablehlo.compare EQ, %x, %y : (T<i1>, T<i1>) -> T<i1>
 %q = stablehlo.compare GT, %k, %l : (T<f32>, T<f32>) -> T<i1>
 %s = stablehlo.and %e, %q : T<i1>
 %t = stablehlo.or %p, %s : T<i1>
 "stablehlo.return"(%t) : (T<i1>) -> () }}) : (T<{n}xi1>, T<{n}xf32>, T<{n}xi32>) -> (T<{n}xi1>, T<{n}xf32>,
   T<{n}xi32>)""")

# --- gathers and scatters ---------------------------------------------------------------------------------------------


def gather(x: str, i: str, r: str, numbers: str, sizes: str) -> str:
    return (f'%r = "stablehlo.gather"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes ='
            f" array<i64: {sizes}>}}> : (T<{x}>, T<{i}>) -> T<{r}>")


def scatter(x: str, i: str, u: str, numbers: str, region: str, unique: str = "false") -> str:
    region = region.replace("<E>", f"<{x.rpartition('x')[2]}>")
    return (f'%r = "stablehlo.scatter"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>,'
            f" unique_indices = {unique}}}> {region} : (T<{x}>, T<{i}>, T<{u}>) -> T<{x}>")


case("gather rows", "9x4xf32 3x2xi32", "3x2x4xf32", gather(
    "9x4xf32", "3x2xi32", "3x2x4xf32",
    "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2", "1, 4"))
case("gather columns", "4x9xf32 3xi64", "4x3xf32", gather(
    "4x9xf32", "3xi64", "4x3xf32",
    "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1", "4, 1"))
case("gather windows", "8x9xf32 5x2xi32", "5x2x3xf32", gather(
    "8x9xf32", "5x2xi32", "5x2x3xf32",
    "offset_dims = [1, 2], start_index_map = [1, 0], index_vector_dim = 1", "2, 3"))
case("gather windows elsewhere", "8x9x2xf32 2x5x3xi32", "2x5x4x3xf32", gather(
    "8x9x2xf32", "2x5x3xi32", "2x5x4x3xf32",
    "offset_dims = [0, 2], collapsed_slice_dims = [2], start_index_map = [2, 0], index_vector_dim = 0", "2, 4, 1"))
case("gather points", "8x9xi32 2x6xi32", "6xi32", gather(
    "8x9xi32", "2x6xi32", "6xi32",
    "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 0", "1, 1"))
case("gather in batches", "3x8xf32 3x5x1xi32", "3x5xf32", gather(
    "3x8xf32", "3x5x1xi32", "3x5xf32", "collapsed_slice_dims = [1], operand_batching_dims = [0],"
    " start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2", "1, 1"))
case("gather in batches elsewhere", "4x3x8xf32 3x5x4xi32", "3x5x2x4xf32", gather(
    "4x3x8xf32", "3x5x4xi32", "3x5x2x4xf32", "offset_dims = [2], operand_batching_dims = [0, 1],"
    " start_indices_batching_dims = [2, 0], start_index_map = [2], index_vector_dim = 3", "1, 1, 2"))
case("gather once", "8x9xf32 2xi32", "2x3xf32", gather(
    "8x9xf32", "2xi32", "2x3xf32", "offset_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 0", "2, 3"))
ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
for name, region in (("add", ADD), ("max", MAX), ("min", MIN), ("mul", MUL), ("subtract", SUB)):
    for kind in ("f32", "i32"):
        case(f"scatter {name} {kind}", f"9x3x{kind} 6x1xi32 6x3x{kind}", f"9x3x{kind}",
             scatter(f"9x3x{kind}", "6x1xi32", f"6x3x{kind}", ROWS, region))
case("scatter booleans", "9x3xi1 6x1xi32 6x3xi1", "9x3xi1", scatter("9x3xi1", "6x1xi32", "6x3xi1", ROWS, ADD))
case("scatter any", "9x3xf32 6x1xi32 6x3xf32", "9x3xf32", scatter("9x3xf32", "6x1xi32", "6x3xf32", ROWS, ODD))
case("scatter put", "9x3xf32 1x1xi32 1x3xf32", "9x3xf32", scatter("9x3xf32", "1x1xi32", "1x3xf32", ROWS, PUT))
case("scatter windows", "8x9xf32 4x2xi32 4x2x3xf32", "8x9xf32", scatter(
    "8x9xf32", "4x2xi32", "4x2x3xf32",
    "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1", ADD))
case("scatter windows elsewhere", "8x9xf32 2x4xi32 3x4xf32", "8x9xf32", scatter(
    "8x9xf32", "2x4xi32", "3x4xf32", "update_window_dims = [0], inserted_window_dims = [0],"
    " scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0", MAX))
case("scatter in batches", "3x8xf32 3x5x1xi32 3x5xf32", "3x8xf32", scatter(
    "3x8xf32", "3x5x1xi32", "3x5xf32", "inserted_window_dims = [1], input_batching_dims = [0],"
    " scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2", ADD))
case("scatter once", "8x9xf32 2xi32 2x3xf32", "8x9xf32", scatter(
    "8x9xf32", "2xi32", "2x3xf32",
    "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0", PUT, "true"))

# --- products ---------------------------------------------------------------------------------------------------------

case("dot_general", "2x3x4xf32 5x2x4xf32", "2x3x5xf32", "%r = stablehlo.dot_general %a0, %a1, batching_dims = [0] x"
    " [1],"
     " contracting_dims = [2] x [2] : (T<2x3x4xf32>, T<5x2x4xf32>) -> T<2x3x5xf32>")
case("dot_general several", "2x3x4x5xf64 4x3x6x2xf64", "3x5x6xf64", "%r = stablehlo.dot_general %a0, %a1,"
    " batching_dims ="
     " [1] x [1], contracting_dims = [0, 2] x [3, 0], precision = [HIGHEST, DEFAULT] :"
     " (T<2x3x4x5xf64>, T<4x3x6x2xf64>) -> T<3x5x6xf64>")
case("dot_general outer", "3xi32 4xi32", "3x4xi32",
     "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [] x [] : (T<3xi32>, T<4xi32>) -> T<3x4xi32>")
case("dot_general wide", "3x4xi8 4x5xi8", "3x5xi32",
     "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : (T<3x4xi8>, T<4x5xi8>) -> T<3x5xi32>")
case("dot_general inner", "4xcomplex<f32> 4xcomplex<f32>", "complex<f32>", "%r = stablehlo.dot_general %a0, %a1,"
     " contracting_dims = [0] x [0] : (T<4xcomplex<f32>>, T<4xcomplex<f32>>) -> T<complex<f32>>")
case("dot_general nothing", "3x0xf32 0x4xf32", "3x4xf32",
     "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : (T<3x0xf32>, T<0x4xf32>) -> T<3x4xf32>")
case("dot", "3x4xf32 4xf32", "3xf32", "%r = stablehlo.dot %a0, %a1 : (T<3x4xf32>, T<4xf32>) -> T<3xf32>")
case("einsum", "3x4xf32 4x5xf32", "5x3xf32",
     '%r = stablehlo.einsum %a0, %a1, config = "ab,bc->ca" : (T<3x4xf32>, T<4x5xf32>) -> T<5x3xf32>')


def conv(x: str, k: str, r: str, dims: str, window: str, groups: int = 1, batches: int = 1) -> None:
    case(f"convolution {len(CASES)}", f"{x} {k}", r, f"%r = stablehlo.convolution(%a0, %a1) dim_numbers = {dims},"
        f" window ="
         f" {{{window}}} {{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64}} :"
         f" (T<{x}>, T<{k}>) -> T<{r}>")


NCHW, NHWC = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
conv("2x3x8x9xf32", "4x3x3x2xf32", "2x4x8x4xf32", NCHW, "stride = [1, 2], pad = [[1, 1], [0, 0]]")
conv("2x8x9x3xf32", "3x2x3x4xf32", "2x8x5x4xf32", NHWC, "stride = [1, 2], pad = [[1, 1], [0, 1]]")
conv("2x4x8x9xf32", "6x2x3x3xf32", "2x6x4x6xf32", NCHW, "pad = [[0, 0], [2, -1]], rhs_dilate = [2, 2], reverse = [1,"
    " 0]", 2)
conv("2x4x5x5xf32", "4x6x3x3xf32", "2x6x11x10xf32", "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
     "pad = [[2, 2], [2, 1]], lhs_dilate = [2, 2], reverse = [true, true]")
conv("6x3x8x8xf32", "4x3x3x3xf32", "3x4x6x6xf32", NCHW, "", 1, 2)
conv("2x3x9xf64", "4x3x3xf64", "2x4x7xf64", "[b, f, 0]x[o, i, 0]->[b, f, 0]", "stride = [1]")
conv("1x2x5x5x5xf32", "3x2x2x2x2xf32", "1x3x4x4x4xf32", "[b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2]", "")
conv("2x3xf32", "4x3xf32", "2x4xf32", "[b, f]x[o, i]->[b, f]", "")

# --- control ----------------------------------------------------------------------------------------------------------

case("if", "i1 3xf32 3xf32", "3xf32 3xf32", """%r0, %r1 = "stablehlo.if"(%a0) ({
 %s = stablehlo.add %a1, %a2 : T<3xf32>
 stablehlo.return %s, %a1 : T<3xf32>, T<3xf32> }, { stablehlo.return %a2, %a2 : T<3xf32>, T<3xf32> })
 : (T<i1>) -> (T<3xf32>, T<3xf32>)""")
for n in (-1, 0, 1, 2, 7):
    case(f"case {n}", "3xf32", "3xf32", f"""%i = stablehlo.constant dense<{n}> : T<i32>
%r = "stablehlo.case"(%i) ({{ %s = stablehlo.add %a0, %a0 : T<3xf32>
 stablehlo.return %s : T<3xf32> }}, {{ %s = stablehlo.negate %a0 : T<3xf32>
 stablehlo.return %s : T<3xf32> }}, {{ stablehlo.return %a0 : T<3xf32> }}) : (T<i32>) -> T<3xf32>""")
case("while", "4x4xf32 i32", "4x4xf32 i32", """%n = stablehlo.constant dense<3> : T<i32>
%one = stablehlo.constant dense<1> : T<i32>
%zero = stablehlo.constant dense<0> : T<i32>
%q:4 = stablehlo.while(%i = %zero, %x = %a0, %y = %a0, %k = %a1) : T<i32>, T<4x4xf32>, T<4x4xf32>, T<i32> cond {
 %l = stablehlo.compare LT, %i, %n : (T<i32>, T<i32>) -> T<i1>
 stablehlo.return %l : T<i1>
} do {
 %j = stablehlo.add %i, %one : T<i32>
 %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (T<4x4xf32>, T<4x4xf32>) -> T<4x4xf32>
 stablehlo.return %j, %z, %y, %i : T<i32>, T<4x4xf32>, T<4x4xf32>, T<i32> }
%r0 = stablehlo.add %q#1, %q#2 : T<4x4xf32>
%r1 = stablehlo.add %q#3, %q#0 : T<i32>""")
case("while never", "3xf32", "3xf32", """%p = stablehlo.constant dense<false> : T<i1>
%r = stablehlo.while(%x = %a0) : T<3xf32> cond { stablehlo.return %p : T<i1> } do {
 %y = stablehlo.add %x, %x : T<3xf32>
 stablehlo.return %y : T<3xf32> }""")
case("while in while", "i32", "i32", """%zero = stablehlo.constant dense<0> : T<i32>
%one = stablehlo.constant dense<1> : T<i32>
%q:2 = stablehlo.while(%i = %zero, %s = %a0) : T<i32>, T<i32> cond {
 %n = stablehlo.constant dense<4> : T<i32>
 %l = stablehlo.compare LT, %i, %n : (T<i32>, T<i32>) -> T<i1>
 stablehlo.return %l : T<i1> } do {
 %in:2 = stablehlo.while(%j = %zero, %t = %s) : T<i32>, T<i32> cond {
  %l = stablehlo.compare LT, %j, %i : (T<i32>, T<i32>) -> T<i1>
  stablehlo.return %l : T<i1> } do {
  %k = stablehlo.add %j, %one : T<i32>
  %u = stablehlo.add %t, %i : T<i32>
  stablehlo.return %k, %u : T<i32>, T<i32> }
 %k = stablehlo.add %i, %one : T<i32>
 stablehlo.return %k, %in#1 : T<i32>, T<i32> }
%r = stablehlo.add %q#1, %zero : T<i32>""")
case("map", "3x4xf32 3x4xf32", "3x4xf32", '%r = "stablehlo.map"(%a0, %a1) <{dimensions = array<i64: 0, 1>}> '
     + f32(ODD) + " : (T<3x4xf32>, T<3x4xf32>) -> T<3x4xf32>")
case("tuples", "3xf32 i32", "3xf32 i32", """%t = stablehlo.tuple %a0, %a1 : tuple<T<3xf32>, T<i32>>
%r0 = stablehlo.get_tuple_element %t[0] : (tuple<T<3xf32>, T<i32>>) -> T<3xf32>
%b:2 = stablehlo.optimization_barrier %a0, %a1 : T<3xf32>, T<i32>
%r1 = stablehlo.add %b#1, %a1 : T<i32>""")

# --- libraries --------------------------------------------------------------------------------------------------------

C64 = "complex<f32>"
case("fft", f"3x8x{C64}", f"3x8x{C64}", f"%r = stablehlo.fft %a0, type = FFT, length = [8] : (T<3x8x{C64}>) ->"
    f" T<3x8x{C64}>")
case("ifft", f"4x8x{C64}", f"4x8x{C64}",
     f"%r = stablehlo.fft %a0, type = IFFT, length = [4, 8] : (T<4x8x{C64}>) -> T<4x8x{C64}>")
case("rfft", "2x4x7xf32", f"2x4x4x{C64}",
     f"%r = stablehlo.fft %a0, type = RFFT, length = [4, 7] : (T<2x4x7xf32>) -> T<2x4x4x{C64}>")
case("irfft", f"4x5x{C64}", "4x8xf32", f"%r = stablehlo.fft %a0, type = IRFFT, length = [8] : (T<4x5x{C64}>) ->"
    f" T<4x8xf32>")
for lower in ("true", "false"):
    case(f"cholesky {lower}", "2x4x4xf64", "2x4x4xf64", f"""%s = stablehlo.dot_general %a0, %a0, batching_dims =
      [0] x [0],
 contracting_dims = [2] x [2] : (T<2x4x4xf64>, T<2x4x4xf64>) -> T<2x4x4xf64>
%c = stablehlo.cholesky %s, lower = {lower} : T<2x4x4xf64>
%i = stablehlo.iota dim = 1 : T<2x4x4xi32>
%j = stablehlo.iota dim = 2 : T<2x4x4xi32>
%p = stablehlo.compare {"GE" if lower == "true" else "LE"}, %i, %j : (T<2x4x4xi32>, T<2x4x4xi32>) -> T<2x4x4xi1>
%z = stablehlo.constant dense<0.0> : T<2x4x4xf64>
%r = stablehlo.select %p, %c, %z : T<2x4x4xi1>, T<2x4x4xf64>""")
    for left in ("true", "false"):
        for how in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
            x = "4x2" if left == "true" else "2x4"
            case(f"triangular_solve {lower} {left} {how}", f"4x4xcomplex<f64> {x}xcomplex<f64>", f"{x}xcomplex<f64>",
                 f'%r = "stablehlo.triangular_solve"(%a0, %a1) <{{left_side = {left}, lower = {lower}, unit_diagonal ='
                 f" {lower}, transpose_a = #stablehlo<transpose {how}>}}> : (T<4x4xcomplex<f64>>, T<{x}xcomplex<f64>>)"
                 f" -> T<{x}xcomplex<f64>>")
X, P = "T<3x4x5xf32>", "T<4xf32>"
case("batch_norm_training", "3x4x5xf32 4xf32 4xf32", "3x4x5xf32 4xf32 4xf32",
     '%r0, %r1, %r2 = "stablehlo.batch_norm_training"(%a0, %a1, %a2) <{epsilon = 1.0e-3 : f32, feature_index = 1 :'
         ' i64}>'
     f" : ({X}, {P}, {P}) -> ({X}, {P}, {P})")
case("batch_norm_inference", "3x4x5xf32 4xf32 4xf32 4xf32 4xf32", "3x4x5xf32", """%v = stablehlo.multiply %a4, %a4
  : T<4xf32>
%r = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %v) <{epsilon = 1.0e-2 : f32, feature_index = 1 : i64}> """
     f": ({X}, {P}, {P}, {P}, {P}) -> {X}")
case("batch_norm_grad", "3x4x5xf32 4xf32 4xf32 4xf32 3x4x5xf32", "3x4x5xf32 4xf32 4xf32",
     """%v = stablehlo.multiply %a3, %a3 : T<4xf32>
%r0, %r1, %r2 = "stablehlo.batch_norm_grad"(%a0, %a1, %a2, %v, %a4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> """
     f": ({X}, {P}, {P}, {P}, {X}) -> ({X}, {P}, {P})")

# --- one by one, where the operands are not alike ---------------------------------------------------------------------

case("select", "i1 3xf32 3xf32", "3xf32", "%r = stablehlo.select %a0, %a1, %a2 : T<i1>, T<3xf32>")
case("clamp", "f32 3x4xf32 f32", "3x4xf32",
     "%r = stablehlo.clamp %a0, %a1, %a2 : (T<f32>, T<3x4xf32>, T<f32>) -> T<3x4xf32>")
case("bitcast_convert narrow", "3xi32", "3x4xui8", "%r = stablehlo.bitcast_convert %a0 : (T<3xi32>) -> T<3x4xui8>")
case("bitcast_convert wide", "2x3x2xui16", "2x3xf32",
     "%r = stablehlo.bitcast_convert %a0 : (T<2x3x2xui16>) -> T<2x3xf32>")
case("bitcast_convert", "3xf32", "3xi32", "%r = stablehlo.bitcast_convert %a0 : (T<3xf32>) -> T<3xi32>")
for form in ("e5m10", "e8m7", "e4m3", "e11m52", "e2m0"):
    case(f"reduce_precision {form}", "50xf32", "50xf32", f"%r = stablehlo.reduce_precision %a0, format = {form} :"
        f" T<50xf32>")


@pytest.mark.share(4)
@pytest.mark.parametrize("name", CASES)
def test_an_operation_gives_what_xla_gives(name):
    arguments, results, body = CASES[name]
    arrays = [loading.array(*shape_of(t), seed) for seed, t in enumerate(arguments)]
    if "triangular_solve" in name:
        arrays[0] = arrays[0] + 4 * np.eye(4)
    loading.compare(loading.function(arguments, results, body), arrays, tolerance=2e-2 if "bf16" in body else 3e-5)


def shape_of(kind: str) -> tuple[tuple[int, ...], str]:
    found = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", kind)
    assert found is not None
    return tuple(int(n) for n in found.group(1).split("x") if n), found.group(2)
