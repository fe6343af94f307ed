"""The life of `x + y`: one op followed from the method to machine code, and back through autograd.

Run it (`python docs/life_of_add.py`): every step prints what that layer really made, and asserts what it claims.
The tests run it too, so it cannot drift from the code.
"""

from __future__ import annotations

import ctypes
import time

from tour import asked_nests, excerpt, heading

import rushlight
from rushlight import codegen
from rushlight.op import definitions, find_op


def call_kernel(address: int, x: object, y: object) -> object:
    """Run the machine code on the tensors' memory with nothing between: pointers, parameters, a range."""
    out = rushlight.zeros(x.shape[0], x.shape[1])
    tensors = (x, y, out)
    pointers = (ctypes.c_void_p * 3)(*(tensor.data_ptr() for tensor in tensors))
    strides = [tensor.stride(dim) * tensor.element_size() for dim in (1, 0) for tensor in tensors]
    parameters = (ctypes.c_int64 * 7)(x.shape[1], *strides)  # n0, inner byte strides, outer byte strides
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    kernel(ctypes.addressof(pointers), ctypes.addressof(parameters), 0, x.shape[0])
    return out


def main() -> None:
    x = rushlight.arange(16, dtype=rushlight.float32).reshape(4, 4)
    y = rushlight.ones(4, 4)

    heading(1, "The definition", "One class in rushlight/definitions says all there is to say about add:")
    definition_class = definitions["add"][0]
    for text in definition_class.schema:
        print(f"    {text}")
    print(
        f"    {definition_class.__doc__}  It is a {definition_class.__mro__[1].__name__} op: its kind derives the rest."
    )

    heading(2, "The op object and its overloads",
            "`rushlight.add`, `Tensor.add` and `x + y` share it. Calling it binds arguments by the schema, in C++.")
    op = find_op("add")
    assert rushlight.add is op
    overload = op.overload_list[0]
    print(f"    {overload.definition}: parameters {list(overload.param_names)}")

    heading(3, "The plan, and the loops it asks for",
            "The first call with these types finds no plan and asks Python. The definition's scalar expression, traced",
            "for two float32 operands, becomes a loop nest: two strided dimensions, whatever the shape.")
    with asked_nests() as asked:
        overload.definition.plan((x, y))
    (nest,) = asked
    print(excerpt(str(nest), lines=20))

    heading(4, "LLVM", "The code generator writes LLVM IR with explicit vectors; this is the middle of the fast loop:")
    print(excerpt(codegen.emit_llvm(nest), "fadd <", lines=6))

    heading(5, "Machine code", "LLVM turns it into instructions for this processor ...")
    print(excerpt(codegen.emit_asm(nest), "fadd", "addps", lines=8))
    print("... or, from the same nest, for a GPU:")
    print(excerpt(codegen.emit_ptx(nest), "add.rn.f32", "add.f32", lines=3))

    heading(6, "The kernel", "Loaded, it is an address with one calling convention for every op. Called by hand:")
    kernel = codegen.compile(nest)
    by_hand = call_kernel(kernel.address, x, y)
    print(f"    {kernel.name} at {kernel.address:#x}: first row {by_hand[0].tolist()}")
    assert by_hand.tolist() == (x + y).tolist()

    heading(7, "The second call", "From now on the core replays the plan: no Python, no lookup by name.")
    number, start = 20_000, time.perf_counter()
    for _ in range(number):
        x + y
    print(f"    x + y: {(time.perf_counter() - start) / number * 1e9:.0f} ns")

    heading(8, "Autograd", "If an input requires grad the core also records a node. The derivative comes from the same",
            "expression: for add both gradients are found to be the incoming one, so no kernel is needed; for mul",
            "the derived gradient is a pointwise op of its own, with derivatives of any order.")
    a = rushlight.ones(4, 4, requires_grad=True)
    b = rushlight.full((4,), 2.0, requires_grad=True)
    z = a + b
    print(f"    z.grad_fn: {z.grad_fn}")
    gradient_op, _, outputs, _ = overload.definition.derived(0b11)
    assert gradient_op is None and outputs == (-1, -1)
    product_gradient, passed, *_ = find_op("mul").overload_list[0].definition.derived(0b11)
    print(f"    the gradient op of mul: {product_gradient.definition}; it reads {len(passed)} of the inputs")
    z.sum().backward()
    print(f"    b was broadcast over 4 rows, so its gradient is summed back to its shape: {b.grad.tolist()}")
    assert a.grad.tolist() == [[1.0] * 4] * 4 and b.grad.tolist() == [4.0] * 4

    print("\nNext: docs/life_of_backward.py, docs/life_of_compile.py.")
    print("See it for any program: RUSHLIGHT_SHOW=dispatch,loops,llvm,asm python program.py")


if __name__ == "__main__":
    main()
