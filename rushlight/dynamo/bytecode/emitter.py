"""Writing code: sequences of instructions that mean the same on every version of CPython.

Enters: what to load, call, build and store, in the order of a stack machine. Leaves: instructions, and at the end a
function. Its free variables are those of the code it stands in for, followed by one per object that it holds: objects
live in cells of the function, not among the constants of its code, because the collector looks into cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from .instructions import NOWHERE, VERSION, Handler, Instruction, Positions, assemble

if TYPE_CHECKING:
    from ..values.sources import Source

_LITERALS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_BINARY = {"+": 0, "&": 1, "//": 2, "<<": 3, "@": 4, "*": 5, "%": 6, "|": 7, "**": 8, ">>": 9, "-": 10, "/": 11,
           "^": 12}
_SUBSCRIPT = 26         # among the operators of 3.14
_HELD = "<held {}>"     # no name of a program can clash with these


def is_literal(value: Any) -> bool:
    """Whether a value may stand among the constants of a code object."""
    kind = type(value)
    return kind in _LITERALS or (kind is tuple and all(map(is_literal, value)))


class Emitter:
    """Writes the body of one function. `parameters` are its positional parameters; other locals may be stored to."""

    def __init__(self, code: CodeType, parameters: Sequence[str]) -> None:
        self.code, self.parameters = code, tuple(parameters)
        self.instructions: list[Instruction] = []
        self.positions: Positions = Positions(code.co_firstlineno)    # of what is written from now on
        self.handler: Handler | None = None
        self.graph_call: tuple[Any, tuple[Source, ...]] | None = None      # a graph that is called, and with what
        self._held: dict[int, tuple[str, Any]] = {}
        self._shared: dict[Source, str] = {}      # locals that hold what several paths start with
        self._fresh = 0

    # -- one instruction ------------------------------------------------------------------------------------------

    def emit(self, name: str, arg: int | None = None, argval: Any = None, target: Instruction | None = None
             ) -> Instruction:
        """Write one instruction by its name."""
        one = Instruction(name, arg, argval, target, self.positions, self.handler)
        self.instructions.append(one)
        return one

    def append(self, one: Instruction) -> None:
        """Write an instruction that was made elsewhere, as it is."""
        self.instructions.append(one)

    def fresh_local(self, hint: str = "value") -> str:
        """The name of a local that nobody else has."""
        self._fresh += 1
        return f"<{hint} {self._fresh}>"

    # -- loads and stores -----------------------------------------------------------------------------------------

    def load_const(self, value: Any) -> None:
        """Push an object: any object."""
        if is_literal(value):
            self.emit("LOAD_CONST", None, value)
        else:
            self.emit("LOAD_DEREF", None, self._held.setdefault(
                id(value), (_HELD.format(len(self._held)), value))[0])

    def source(self, source: Source) -> None:
        """Push what is at a source."""
        if source in self._shared:
            self.load_local(self._shared[source])
        else:
            source.emit(self)

    def share(self, wanted: Iterable[Source]) -> None:
        """From here on, follow the paths that several of these sources start with once only."""
        branches: dict[Source, int] = {}      # parents before what starts from them
        for source in wanted:
            path = []
            while source is not None and source not in branches:
                path.append(source)
                source = source.parent
            if source is not None:
                branches[source] += 1
            for one in reversed(path):
                branches[one] = 1
        for source, count in branches.items():
            if count > 1 and source.is_quiet:
                self.source(source)
                self._shared[source] = self.fresh_local("shared")
                self.store_local(self._shared[source])

    def load_local(self, name: str) -> None:
        self.emit("LOAD_FAST", None, name)

    def store_local(self, name: str) -> None:
        self.emit("STORE_FAST", None, name)

    def delete_local(self, name: str) -> None:
        self.emit("DELETE_FAST", None, name)

    def load_global(self, name: str) -> None:
        self.emit("LOAD_GLOBAL", 0, name)

    def store_global(self, name: str) -> None:
        self.emit("STORE_GLOBAL", None, name)

    def load_cell(self, name: str) -> None:
        """Push the cell of a free variable, not what is in it."""
        self.emit("LOAD_FAST" if VERSION >= (3, 13) else "LOAD_CLOSURE", None, name)

    def load_deref(self, name: str) -> None:
        """Push what is in the cell of a free variable, or in a cell that is a local."""
        self.emit("LOAD_DEREF", None, name)

    def store_deref(self, name: str) -> None:
        self.emit("STORE_DEREF", None, name)

    def load_attr(self, name: str) -> None:
        self.emit("LOAD_ATTR", 0, name)

    def store_attr(self, name: str) -> None:
        """value, object -> ; object.name = value."""
        self.emit("STORE_ATTR", None, name)

    def delete_attr(self, name: str) -> None:
        self.emit("DELETE_ATTR", None, name)

    def subscr(self) -> None:
        """container, key -> container[key]."""
        if VERSION >= (3, 14):
            self.emit("BINARY_OP", _SUBSCRIPT, _SUBSCRIPT)
        else:
            self.emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """value, container, key -> ; container[key] = value."""
        self.emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        self.emit("DELETE_SUBSCR")

    # -- calls ----------------------------------------------------------------------------------------------------

    def call(self, n: int, kwnames: Sequence[str] = ()) -> None:
        """callable, n arguments (the last ones by the names in `kwnames`) -> result."""
        if n == 0:
            self.emit("PUSH_NULL")
            if VERSION < (3, 13):
                self.swap(2)
        # The callable stands where a method does, and the first argument where its self does: no NULL is needed.
        count = max(n - 1, 0)
        if VERSION >= (3, 13):
            if kwnames:
                self.load_const(tuple(kwnames))
            self.emit("CALL_KW" if kwnames else "CALL", count, count)
            return
        if kwnames:
            self.emit("KW_NAMES", None, tuple(kwnames))
        if VERSION == (3, 11):
            self.emit("PRECALL", count, count)
        self.emit("CALL", count, count)

    def call_function(self, function: Any, n: int = 0) -> None:
        """n arguments -> function(*arguments), for a function that is known now."""
        self.build_tuple(n)
        self.load_const(function)
        self.swap(2)
        self.call_spread()

    def call_spread(self, has_kwargs: bool = False) -> None:
        """callable, tuple (, dict) -> callable(*tuple, **dict)."""
        self.emit("PUSH_NULL")
        depth = 4 if has_kwargs else 3
        for i in range(depth if VERSION < (3, 13) else depth - 1, 1, -1):
            self.swap(i)
        if VERSION >= (3, 14) and not has_kwargs:
            self.emit("PUSH_NULL")
        self.emit("CALL_FUNCTION_EX", int(has_kwargs), int(has_kwargs))

    def call_method(self, name: str, *arguments: Any) -> None:
        """object -> object.name(*arguments), with arguments that are known now."""
        self.load_attr(name)
        for value in arguments:
            self.load_const(value)
        self.call(len(arguments))

    def call_graph(self, compiled: Any, inputs: Sequence[Source], load: Callable[[Source], None]) -> None:
        """-> what a compiled graph returns for inputs, which `load` pushes."""
        self.load_const(compiled)
        for source in inputs:
            load(source)
        if getattr(compiled, "_boxed_call", False):
            self.graph_call = compiled, tuple(inputs)
            self.build_list(len(inputs))
            self.call(1)
        else:
            self.call(len(inputs))

    # -- values from values ---------------------------------------------------------------------------------------

    def build_tuple(self, n: int) -> None:
        self.emit("BUILD_TUPLE", n, n)

    def build_list(self, n: int) -> None:
        self.emit("BUILD_LIST", n, n)

    def build_set(self, n: int) -> None:
        self.emit("BUILD_SET", n, n)

    def build_dict(self, n: int) -> None:
        """key, value, key, value, ... -> dict of n entries."""
        self.emit("BUILD_MAP", n, n)

    def build_slice(self, n: int) -> None:
        """start, stop (, step) -> slice."""
        self.emit("BUILD_SLICE", n, n)

    def build_string(self, n: int) -> None:
        self.emit("BUILD_STRING", n, n)

    def list_extend(self) -> None:
        """list, iterable -> list."""
        self.emit("LIST_EXTEND", 1, 1)

    def unpack(self, n: int) -> None:
        """sequence -> its n items, the first on top."""
        self.emit("UNPACK_SEQUENCE", n, n)

    def binary(self, operator: str) -> None:
        """a, b -> a operator b."""
        self.emit("BINARY_OP", _BINARY[operator], _BINARY[operator])

    # -- the stack ------------------------------------------------------------------------------------------------

    def push_null(self) -> None:
        self.emit("PUSH_NULL")

    def copy(self, n: int) -> None:
        """Push the n-th item from the top again; 1 is the top."""
        self.emit("COPY", n, n)

    def dup(self) -> None:
        self.copy(1)

    def swap(self, n: int) -> None:
        """Exchange the top with the n-th item from the top."""
        self.emit("SWAP", n, n)

    def pop(self) -> None:
        self.emit("POP_TOP")

    # -- flow -----------------------------------------------------------------------------------------------------

    def label(self) -> Instruction:
        """Somewhere to jump to; `place` says where it is."""
        return Instruction("NOP")

    def place(self, label: Instruction) -> None:
        label.positions, label.handler = self.positions, self.handler
        self.instructions.append(label)

    def jump(self, label: Instruction) -> None:
        self.emit("JUMP_FORWARD", 0, None, label)

    def jump_if(self, truth: bool, label: Instruction) -> None:
        """value -> ; jump where its truth is `truth`."""
        if VERSION >= (3, 13):
            self.emit("TO_BOOL")
        way = "FORWARD_" if VERSION == (3, 11) else ""
        self.emit(f"POP_JUMP_{way}IF_{'TRUE' if truth else 'FALSE'}", 0, None, label)

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")

    # -- the end --------------------------------------------------------------------------------------------------

    def held_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._held.values())

    def finish(self, name: str | None = None) -> CodeType:
        """The code object; its free variables are those of the original, then the objects held."""
        free = (*self.code.co_freevars, *self.held_names())
        start = []
        if free:
            start.append(Instruction("COPY_FREE_VARS", len(free), len(free), positions=NOWHERE))
        start.append(Instruction("RESUME", 0, 0, positions=Positions(self.code.co_firstlineno)))
        return assemble([*start, *self.instructions], like=self.code, parameters=self.parameters, cellvars=(),
                        freevars=free, name=name or self.code.co_name)

    def function(self, globals: dict[str, Any], closure: Sequence[CellType] | None = None, name: str | None = None
                 ) -> FunctionType:
        """The function, with the cells of the original's free variables."""
        code = self.finish(name)
        cells = (*(closure or ()), *(CellType(value) for _, value in self._held.values()))
        return FunctionType(code, globals, code.co_name, None, cells)
