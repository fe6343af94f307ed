"""What callers include: a C header, a C++ header with a class, and for WebAssembly a JavaScript module.

Enters: the arguments and results of a program. Leaves: texts. The weights file begins with `MAGIC`, its length and a
sum of its bytes, so that a foreign or truncated one is refused before anything runs.
"""

from __future__ import annotations

import struct
from typing import Any

from .. import _C
from .plans import HEADER, Argument, Prepared

MAGIC = b"RLWEIGHT"
TYPES = {
    _C.float32: "float", _C.float64: "double", _C.int64: "int64_t", _C.int32: "int32_t", _C.int16: "int16_t",
    _C.int8: "int8_t", _C.uint8: "uint8_t", _C.bool: "uint8_t", _C.float16: "uint16_t", _C.bfloat16: "uint16_t",
}
ARRAYS = {
    "float": "Float32Array", "double": "Float64Array", "int64_t": "BigInt64Array", "int32_t": "Int32Array",
    "int16_t": "Int16Array", "int8_t": "Int8Array", "uint8_t": "Uint8Array", "uint16_t": "Uint16Array",
}


def checksum(data: bytes) -> int:
    """A sum over 32-bit words that changes when any of them does, or two change places."""
    import numpy  # noqa: PLC0415 - millions of words; most programs write no weights

    words = numpy.frombuffer(data + bytes(-len(data) % 4), "<u4").astype(numpy.uint64)
    weighted = (words * numpy.arange(len(words), 0, -1, dtype=numpy.uint64)).sum(dtype=numpy.uint64)
    return (int(weighted) & 0xFFFFFFFF) << 32 | (int(words.sum(dtype=numpy.uint64)) & 0xFFFFFFFF)


def sealed(weights: bytes) -> bytes:
    """The weights file: `MAGIC`, length and sum in the first 64 bytes."""
    body = weights[HEADER:]
    head = MAGIC + struct.pack("<QQ", len(weights), checksum(body))
    return head + bytes(HEADER - len(head)) + body


def type_of(argument: Argument) -> str:
    found = TYPES.get(argument.dtype)
    if found is None:
        raise NotImplementedError(f"aot_compile: {argument.name} is {argument.dtype}, which has no type in C")
    return found


def count_of(argument: Argument) -> str:
    """How many elements, as an expression in C."""
    return " * ".join(f"({n})" for n in argument.sizes) or "1"


def _shape(argument: Argument) -> str:
    return "[" + ", ".join(map(str, argument.sizes)) + "]"


def c_header(name: str, prepared: Prepared) -> str:
    """The C header."""
    upper = name.upper()
    dims = "".join(f"int64_t {d}, " for d in prepared.dims)
    params = [f"const {type_of(a)} *{a.name}" for a in prepared.inputs]
    params += [f"{type_of(a)} *{a.name}" for a in prepared.outputs]
    inputs = ", ".join(a.name for a in prepared.inputs) or "0"
    outputs = ", ".join(a.name for a in prepared.outputs) or "0"
    given = ", ".join(prepared.dims) or "0"
    described = "\n".join(
        [f" *   {a.name}: {type_of(a)}{_shape(a)}" for a in prepared.inputs]
        + [f" *   {a.name}: {type_of(a)}{_shape(a)}, written" for a in prepared.outputs]
        + [f" *   {d}: from {low} to {high}" for d, (low, high) in prepared.dims.items()]
    )
    counts = "\n".join(f"#define {upper}_{a.name.upper()}_COUNT({', '.join(prepared.dims)}) ({count_of(a)})"
                       for a in (*prepared.inputs, *prepared.outputs))
    return f"""/* {name}: written by rushlight.export.aot_compile. All arrays are row-major and dense.
 *
{described}
 */
#ifndef RUSHLIGHT_{upper}_H
#define RUSHLIGHT_{upper}_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_WEIGHTS_SIZE {len(prepared.weights)}
#define {upper}_NUM_INPUTS {len(prepared.inputs)}
#define {upper}_NUM_OUTPUTS {len(prepared.outputs)}
#define {upper}_NUM_DIMS {len(prepared.dims)}
{counts}

/* 0: done; 1: dims out of range; 2: a value out of range (an index). `weights` is the weights file, in memory at an
 * address divisible by 64; so must `workspace` be, which has {name}_workspace_size(dims) bytes. Nothing else is needed:
 * no memory is allocated, and calls with workspaces of their own may run at the same time. */
int32_t {name}_run(const void *weights, void *workspace, const void *const *inputs, void *const *outputs,
                   const int64_t *dims);
/* Bytes of workspace; -1: dims out of range. */
int64_t {name}_workspace_size(const int64_t *dims);

static inline int32_t {name}_call(const void *weights, void *workspace, {dims}{', '.join(params)}) {{
  const void *inputs[] = {{{inputs}}};
  void *outputs[] = {{{outputs}}};
  const int64_t dims[] = {{{given}}};
  return {name}_run(weights, workspace, inputs, outputs, dims);
}}

/* Whether bytes in memory are this program's weights file: 1 if so. */
static inline int {name}_check_weights(const void *data, int64_t size) {{
  const unsigned char *bytes = (const unsigned char *)data;
  const char *magic = "{MAGIC.decode()}";
  uint64_t length = 0, sum = 0;
  uint32_t a = 0, b = 0;
  if (size != {upper}_WEIGHTS_SIZE) return 0;
  for (int i = 0; i < 8; i++) {{
    if (bytes[i] != (unsigned char)magic[i]) return 0;
    length |= (uint64_t)bytes[8 + i] << (8 * i);
    sum |= (uint64_t)bytes[16 + i] << (8 * i);
  }}
  if (length != (uint64_t)size) return 0;
  for (int64_t i = {HEADER}; i < size; i += 4) {{
    uint32_t word = 0;
    for (int k = 0; k < 4 && i + k < size; k++) word |= (uint32_t)bytes[i + k] << (8 * k);
    a += word;
    b += a;
  }}
  return sum == ((uint64_t)b << 32 | a);
}}

#ifdef __cplusplus
}}
#endif
#endif
"""


def cpp_header(name: str, result: Prepared) -> str:
    """The C++ header: a class that reads the weights and keeps a workspace."""
    dims = [f"int64_t {d}" for d in result.dims]
    params = [*dims, *[f"const {type_of(a)}* {a.name}" for a in result.inputs],
              *[f"{type_of(a)}* {a.name}" for a in result.outputs]]
    names = [*result.dims, *[a.name for a in result.inputs], *[a.name for a in result.outputs]]
    given = ", ".join(result.dims) or "0"
    vectors = _vectors(result)
    return f"""// {name}: written by rushlight.export.aot_compile. C++14, nothing but the standard library.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "{name}.h"

namespace rushlight {{

class {name} {{
 public:
  // Reads and checks the weights file; throws std::runtime_error.
  explicit {name}(const std::string& weights_path) {{
    std::ifstream file(weights_path, std::ios::binary);
    if (!file) throw std::runtime_error("{name}: cannot read " + weights_path);
    weights_ = aligned({name.upper()}_WEIGHTS_SIZE);
    file.read(static_cast<char*>(weights_.get()), {name.upper()}_WEIGHTS_SIZE);
    const bool whole = file.gcount() == {name.upper()}_WEIGHTS_SIZE && file.peek() == std::ifstream::traits_type::eof();
    if (!whole || !{name}_check_weights(weights_.get(), {name.upper()}_WEIGHTS_SIZE))
      throw std::runtime_error("{name}: " + weights_path + " is not the weights file of this program");
  }}

  // Dense, row-major arrays; results are written. One object, one call at a time.
  void run({', '.join(params)}) {{
    const int64_t dims[] = {{{given}}};
    const int64_t size = {name}_workspace_size(dims);
    if (size < 0) throw std::out_of_range("{name}: dims out of range");
    if (size > room_) workspace_ = aligned(size), room_ = size;
    const int32_t code = {name}_call({', '.join(['weights_.get()', 'workspace_.get()', *names])});
    if (code == 1) throw std::out_of_range("{name}: dims out of range");
    if (code) throw std::runtime_error("{name}: a value is out of range");
  }}
{vectors}
 private:
  struct Free {{ void operator()(void* p) const {{ std::free(p); }} }};
  using Memory = std::unique_ptr<void, Free>;
  static Memory aligned(int64_t size) {{
    void* p = nullptr;
    const size_t bytes = static_cast<size_t>((size + 127) / 64 * 64);
    if (posix_memalign(&p, 64, bytes)) throw std::bad_alloc();
    return Memory(p);
  }}
  Memory weights_, workspace_;
  int64_t room_ = -1;
}};

}}  // namespace rushlight
"""


def _vectors(result: Prepared) -> str:
    """`run` on vectors, where there is one result."""
    if len(result.outputs) != 1:
        return ""
    out = result.outputs[0]
    dims = [f"int64_t {d}" for d in result.dims]
    params = ", ".join([*dims, *[f"const std::vector<{type_of(a)}>& {a.name}" for a in result.inputs]])
    checks = "".join(f"""    if (static_cast<int64_t>({a.name}.size()) != {count_of(a)})
      throw std::invalid_argument("{a.name}: expected {_shape(a)}");
""" for a in result.inputs)
    names = ", ".join([*result.dims, *[f"{a.name}.data()" for a in result.inputs], f"{out.name}.data()"])
    return f"""
  std::vector<{type_of(out)}> operator()({params}) {{
{checks}    std::vector<{type_of(out)}> {out.name}(static_cast<size_t>({count_of(out)}));
    run({names});
    return {out.name};
  }}
"""


def javascript(name: str, result: Prepared, data_end: int) -> str:
    """A module for Node and browsers: `await load(wasm, weights)` gives a function of typed arrays."""
    stack = -(-(data_end + (1 << 20)) // 64) * 64
    dims = list(result.dims)
    inputs = [{"name": a.name, "array": ARRAYS[type_of(a)], "count": count_of(a)} for a in result.inputs]
    outputs = [{"array": ARRAYS[type_of(a)], "count": count_of(a)} for a in result.outputs]

    def listed(entries: list[dict[str, Any]]) -> str:
        return ", ".join(f"[{e['array']}, ({', '.join(dims)}) => {e['count']}]" for e in entries)

    return f"""// {name}: written by rushlight.export.aot_compile. `wasm` and `weights` are the bytes of the two files.
const inputs = [{listed(inputs)}], outputs = [{listed(outputs)}];
const STACK = {stack}, WEIGHTS = {len(result.weights)}, NUM_DIMS = {len(dims)};
const up = (n) => Math.ceil(n / 64) * 64;

// A function of {len(dims) or "no"} dims and typed arrays; it returns an array of typed arrays.
export async function load(wasm, weights) {{
  if (weights.byteLength !== WEIGHTS) throw new Error("{name}: not the weights file of this program");
  const memory = new WebAssembly.Memory({{ initial: Math.ceil((STACK + up(WEIGHTS)) / 65536) + 1 }});
  const sp = new WebAssembly.Global({{ value: "i32", mutable: true }}, STACK);
  const table = new WebAssembly.Table({{ initial: 1, element: "anyfunc" }});
  const env = {{ __linear_memory: memory, __stack_pointer: sp, __indirect_function_table: table }};
  const {{ instance }} = await WebAssembly.instantiate(wasm, {{ env }});
  const {{ {name}_run: run, {name}_workspace_size: size }} = instance.exports;
  new Uint8Array(memory.buffer).set(new Uint8Array(weights.buffer ?? weights, weights.byteOffset ?? 0, WEIGHTS), STACK);
  return (...args) => {{
    const dims = args.slice(0, NUM_DIMS), arrays = args.slice(NUM_DIMS);
    let at = STACK + up(WEIGHTS);
    const take = (bytes) => {{ const here = at; at += up(bytes); return here; }};
    const need = (end) => {{
      const pages = Math.ceil((end - memory.buffer.byteLength) / 65536);
      if (pages > 0) memory.grow(pages);
    }};
    const dimsAt = take(8 * Math.max(1, NUM_DIMS)), inAt = take(4 * inputs.length), outAt = take(4 * outputs.length);
    need(at);
    new BigInt64Array(memory.buffer, dimsAt, NUM_DIMS).set(dims.map(BigInt));
    const workspace = Number(size(dimsAt));
    if (workspace < 0) throw new RangeError("{name}: dims out of range");
    const places = [...inputs, ...outputs].map(([kind, count]) => take(kind.BYTES_PER_ELEMENT * count(...dims)));
    const space = take(workspace);
    need(at);
    inputs.forEach(([kind, count], k) => {{
      const have = arrays[k].length;
      if (have !== count(...dims)) throw new RangeError(`{name}: argument ${{k}} has ${{have}} elements`);
      new kind(memory.buffer, places[k], arrays[k].length).set(arrays[k]);
    }});
    new Uint32Array(memory.buffer, inAt, inputs.length).set(places.slice(0, inputs.length));
    new Uint32Array(memory.buffer, outAt, outputs.length).set(places.slice(inputs.length));
    const code = run(STACK, space, inAt, outAt, dimsAt);
    if (code) throw new RangeError("{name}: " + (code === 1 ? "dims out of range" : "a value is out of range"));
    return outputs.map(([kind, count], k) =>
      new kind(memory.buffer.slice(places[inputs.length + k]), 0, count(...dims)));
  }};
}}
"""
