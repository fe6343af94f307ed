"""Why a graph ends: one exception, with the reason, the user's line and a hint.

Enters: what capture met. Leaves: `GraphBreak`, which the frame that is captured turns into a break at its own
instruction, and `fullgraph=True` into an error. `Raised` carries an exception of the user's program through the
interpreter, so that errors of capture itself are never taken for it.
"""

from __future__ import annotations

from typing import Any

from ...loops.record import Record

# reason -> what the user can do about it
HINTS: dict[str, str] = {
    "elements": "A graph cannot hold Python that depends on elements: keep it in tensors (torch.where, torch.cond).",
    "number from elements": "Say what is known of the number before, with torch._check(...), or keep the decision in"
                            " tensors (torch.where, torch.cond).",
    "native": "Call it outside of the compiled function, or mark it with torch._dynamo.disable.",
    "python called back": "Call the function directly instead of handing it to the built-in.",
    "tensor subclass": "Tensors with rules of their own run as they are.",
    "unknown tensor": "Pass the tensor as an argument, or keep it in a module or a global variable.",
    "opaque object": "Only objects of Python classes and of the built-in types can be looked into.",
    "not modelled": "This construct runs as it is.",
    "instruction": "This construct runs as it is.",
    "generator": "Generators that outlive the frame run as they are.",
    "asked for": "torch._dynamo.graph_break() was called, or the function is marked to run as it is.",
    "exception": "The exception leaves the frame: the code that raises it runs as it is.",
    "mutation": "Write to objects that the function can reach by name.",
    "internal": "This is a gap in Rushlight's capture, not in your program.",
    "escape": "The value cannot be made again from what the graph returns.",
    "too long": "Loops over Python values are unrolled: shorten them, or keep them in tensors.",
}


class GraphBreak(BaseException):  # noqa: N818 - no error of the program: the graph ends here
    """Capture cannot go on past this point."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.hint = kind, reason, HINTS[kind]
        self.location = ""      # the user's line, innermost frame
        self.depth = 0          # how many frames were being interpreted there
        self.stack: list[tuple[str, int, str]] = []      # files, lines and names of the frames there
        self.is_error = False       # whatever compile() was told
        self.skips_frame = False    # the frame runs as it is, instead of going on behind
        self.names: frozenset[str] = frozenset()     # numbers from elements that would have to be known

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"{self.reason}{where}. {self.hint}"


class BreakAt(Record):
    """Where a graph ended: the instruction of the original code that was not captured any more."""

    index: int
    stack: tuple[bool, ...]    # of each item of the stack, whether it is a value (False: NULL)
    live: tuple[str, ...]      # variables that have a value; for own cells that is the cell
    reason: GraphBreak


class Unfit(Exception):  # noqa: N818 - no error: capture begins again
    """A backend cannot compile a graph in which elements decide numbers."""


class StepsInside(BaseException):  # noqa: N818 - no error: capture begins again
    """The program uses what an optimizer's step changes behind it: the step has to be in the graph."""


class WithoutChecks(BaseException):  # noqa: N818 - no error: capture begins again
    """What the graph does cannot be undone: branches that only check have to break it."""


class WithoutSelect(BaseException):  # noqa: N818 - no error: capture begins again
    """Not both sides of a branch can be computed: it has to break the graph."""

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.place = place      # the code and the instruction


class WithoutSupposing(WithoutSelect):
    """A branch that is met often goes its own way each time: it has to break the graph."""


class Raised(BaseException):  # noqa: N818 - carries one
    """An exception of the captured program."""

    def __init__(self, exception: BaseException) -> None:
        super().__init__(exception)
        self.exception = exception


def not_modelled(what: str) -> GraphBreak:
    """For constructs without rules."""
    return GraphBreak("not modelled", what)


def shown(value: Any) -> str:
    """A short name of an object, for reasons."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if isinstance(name, str):
        return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name
    return f"a {type(value).__qualname__}"


class Refused(Exception):  # noqa: N818 - no error: the frame runs as it is
    """Nothing of a frame can be captured."""

    def __init__(self, reason: GraphBreak) -> None:
        super().__init__(str(reason))
        self.reason = reason
