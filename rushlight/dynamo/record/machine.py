"""The machine that executes a program while it is captured: its state, and what its parts ask of each other.

Enters: the recorder of the graph, what stands for objects from outside, the globals of the frame. Leaves: the class
that values, frames and rules are written against. `values.attributes` and `values.operators` say what objects do,
`machine.interpreter` what calls do, with the rules. Nothing runs here: a machine that lacks a part cannot be made.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from .recorder import Recorder


class Machine(ABC):
    """One run over a frame and all that it calls."""

    # what the interpreter makes of rooms above this one
    gradients: Any            # rules.gradients.Gradients: of tensors whose .grad the program sees
    classes: Any              # rules.subclasses.TensorClasses
    optimizer_steps: Any      # rules.optimizers.Steps
    locks: Any                # values.locks.Locks
    floats: Any               # values.floats.Floats: those that may be others in the next call

    def __init__(self, recorder: Recorder, outside: Any, scope: dict[str, Any], stop_at: int | None) -> None:
        """`outside` is a `values.outside.Outside`; `stop_at` the instruction of the top frame before which to stop."""
        self.recorder, self.outside, self.scope, self.stop_at = recorder, outside, scope, stop_at
        self.frames: list[Any] = []                 # frames.frame.Frame, the innermost last
        self.codes: set[types.CodeType] = set()     # all that was interpreted
        self.handled: BaseException | None = None
        self.own: set[int] = set()                  # functions that the program itself made
        self.own_classes: dict[int, type] = {}      # and classes, by their ids
        self.kept: list[Any] = []
        self.writes: dict[int, dict[str, Any]] = {}       # globals written to, by the id of their dict
        self.scopes: dict[int, dict[str, Any]] = {}
        self.deferred: list[tuple[Any, tuple, dict]] = []      # what is said: calls to make behind the graph
        self.asserted: list[tuple[Any, tuple, dict]] = []      # what is asserted of elements, to be looked at there
        self.whole = recorder                       # of the frame, and not of a function inside of its graph
        self.checks: list[Any] = []                 # branches that only check, in order
        self.failed: Any = None                     # the number of the first of them that failed, in the graph
        self.unsure: frozenset | None = frozenset()     # branches that are no checks, by code and place; None: all
        self.is_fullgraph = False
        # a rules.trials.Trial: runs what was captured, to see how branches go in this call
        self.trial: Any = None
        self.supposed: dict[tuple[types.CodeType, int], int] = {}      # how often each went some way because of it
        # rules.selects.Selected: tensors that are what one of two sides of a branch left
        self.selected: list[Any] = []
        self.not_selected: set[tuple[types.CodeType, int]] = set()      # branches of which not both are computed
        self.steps = 0                              # instructions of the top frame so far
        self.user_modes: list[Any] = []             # modes of the program that see ops, the innermost last
        self.outer_modes: list[Any] = []            # those that were active when the frame began
        self.has_function_modes = False             # whether code of the frame has to see to them
        self.entered_devices: list[Any] = []        # of `with device:` blocks that change nothing
        self.has_classes = False                    # whether tensors have attributes or rules of their own
        self.identified: dict[int, Any] = {}         # objects whose id() was asked for
        self.steps_inside = False                   # whether steps of optimizers are ops of the graph
        self.errors_on_break: list[bool] = []       # what `error_on_graph_break` blocks say, the innermost last
        self.follower: Any = None                   # telling.Follower: told of each instruction

    # --- attributes (values/attributes.py) ---------------------------------------------------------------------------

    @abstractmethod
    def twin_of(self, owner: Any) -> Any:
        """What stands for this object from outside; None for one that the program made."""

    @abstractmethod
    def load_attr(self, owner: Any, name: str) -> Any:
        """owner.name"""

    @abstractmethod
    def plain_attr(self, owner: Any, kind: type, name: str) -> Any:
        """As object.__getattribute__ finds it."""

    @abstractmethod
    def from_descriptor(self, owner: Any, kind: type, name: str, found: Any, known: Any) -> Any:
        """What something that a class holds gives for an object of it."""

    @abstractmethod
    def guard_class(self, kind: type, name: str, found: Any) -> None:
        """That a class still has this method."""

    @abstractmethod
    def own_dict(self, owner: Any) -> dict[str, Any]:
        """The attributes that an object itself holds, all of them."""

    @abstractmethod
    def class_of(self, value: Any) -> type:
        """type(value), for the program."""

    @abstractmethod
    def store_attr(self, owner: Any, name: str, value: Any) -> None:
        """owner.name = value"""

    @abstractmethod
    def plain_store(self, owner: Any, name: str, value: Any) -> None:
        """As object.__setattr__ writes."""

    @abstractmethod
    def delete_attr(self, owner: Any, name: str) -> None:
        """del owner.name"""

    @abstractmethod
    def plain_delete(self, owner: Any, name: str) -> None:
        """As object.__delattr__ does."""

    # --- operators and containers (values/operators.py) --------------------------------------------------------------

    @abstractmethod
    def truth(self, value: Any) -> bool:
        """bool(value)"""

    @abstractmethod
    def is_same(self, a: Any, b: Any) -> bool:
        """a is b"""

    @abstractmethod
    def binary(self, function: Callable, a: Any, b: Any) -> Any:
        """function(a, b), for a function of `operator`."""

    @abstractmethod
    def unary(self, name: str, value: Any) -> Any:
        """+, - and ~"""

    @abstractmethod
    def get_item(self, owner: Any, key: Any) -> Any:
        """owner[key]"""

    @abstractmethod
    def set_item(self, owner: Any, key: Any, value: Any) -> None:
        """owner[key] = value"""

    @abstractmethod
    def delete_item(self, owner: Any, key: Any) -> None:
        """del owner[key]"""

    @abstractmethod
    def contains(self, owner: Any, key: Any) -> bool:
        """key in owner"""

    @abstractmethod
    def are_equal(self, a: Any, b: Any) -> bool:
        """Whether containers take two members for the same."""

    @abstractmethod
    def check_open(self, owner: Any, what: str) -> None:
        """Break where an object cannot be looked into."""

    @abstractmethod
    def is_outer_set(self, value: Any) -> bool:
        """Whether a value is a set from outside, whose order another run need not have."""

    @abstractmethod
    def iterate(self, value: Any) -> Any:
        """iter(value)"""

    @abstractmethod
    def advance(self, iterator: Any) -> Any:
        """next(iterator), with StopIteration at the end."""

    @abstractmethod
    def next(self, iterator: Any, default: Any) -> Any:
        """next(iterator, default)"""

    @abstractmethod
    def iterable(self, value: Any) -> Any:
        """Something that built-in functions can iterate over."""

    @abstractmethod
    def listed(self, value: Any) -> list[Any]:
        """list(value)"""

    @abstractmethod
    def unpacked(self, value: Any, before: int, after: int | None) -> list[Any]:
        """The members of a value that is taken apart."""

    @abstractmethod
    def mapping(self, value: Any) -> dict[str, Any]:
        """dict(value), for ** and updates."""

    # --- calls, globals and the graph (machine/interpreter.py) -------------------------------------------------------

    @abstractmethod
    def assume(self, frame: Any, value: Tensor, at: int) -> bool | None:
        """How a branch on elements that only checks goes; None where it is no check."""

    @abstractmethod
    def suppose(self, frame: Any, value: Any, at: int) -> bool | None:
        """How a branch goes in this call, where what was captured can be run to see; None where it cannot."""

    @abstractmethod
    def is_error_on_break(self) -> bool:
        """Whether the program wants no breaks where it is now."""

    @abstractmethod
    def choose(self, value: Tensor, yes: Any, no: Any) -> Tensor | None:
        """`yes if value else no` as one op, where both sides allow it."""

    @abstractmethod
    def join(self, frame: Any, value: Any, at: int) -> bool:
        """Whether both sides of a branch were computed, and their results selected."""

    @abstractmethod
    def op_called(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An op that somebody calls on tensors of the graph."""

    @abstractmethod
    def overrides(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """Arguments whose classes take calls of ops."""

    @abstractmethod
    def load_of_class(self, owner: Tensor, name: str) -> Any:
        """An attribute of a tensor whose class has its own."""

    @abstractmethod
    def store_of_class(self, owner: Tensor, name: str, value: Any) -> None:
        """Write one."""

    @abstractmethod
    def location(self) -> str:
        """The innermost line of the user's own code."""

    @abstractmethod
    def stack(self) -> list[tuple[str, int, str]]:
        """The frames of the user's own code: files, lines, names."""

    @abstractmethod
    def tick(self, frame: Any) -> None:
        """Before each instruction of the top frame."""

    @abstractmethod
    def as_called(self, function: Any) -> Any:
        """A callable of the program, for built-in functions to call."""

    @abstractmethod
    def own_callback(self, function: Callable) -> Any:
        """A function of ours, for built-in functions to call."""

    @abstractmethod
    def native(
        self, function: Callable, args: tuple, kwargs: dict[str, Any] | None = None, is_watched: bool = True
    ) -> Any:
        """Run a function as it is; what it raises is the program's."""

    @abstractmethod
    def wrapped(self, value: Any) -> Any:
        """An argument for native code: functions come back to the machine, the program's iterators can be drawn."""

    @abstractmethod
    def callback(self, value: Any) -> Any:
        """The same, for arguments that are called: objects may be, too."""

    @abstractmethod
    def scope_writes(self, scope: dict[str, Any]) -> dict[str, Any]:
        """What the program wrote to these globals."""

    @abstractmethod
    def load_global(self, frame: Any, name: str) -> Any:
        """A global, or a built-in."""

    @abstractmethod
    def scope_source(self, scope: dict[str, Any]) -> Any:
        """Where these globals come from."""

    @abstractmethod
    def store_global(self, frame: Any, name: str, value: Any) -> None:
        """Write a global."""

    @abstractmethod
    def import_name(self, frame: Any, name: str, names: Any, level: int) -> Any:
        """`import name`, for modules that are loaded already."""

    @abstractmethod
    def import_from(self, module: Any, name: str) -> Any:
        """`from module import name`"""

    @abstractmethod
    def call(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """function(*args, **kwargs)"""

    @abstractmethod
    def call_module(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """module(...): straight to forward where no hooks are."""

    @abstractmethod
    def call_function(self, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Interpret a function of Python."""

    @abstractmethod
    def own_function(self, function: types.FunctionType) -> types.FunctionType:
        """Note a function that the program made."""

    @abstractmethod
    def closure_of(self, function: types.FunctionType) -> tuple[types.CellType, ...]:
        """The cells of a function, with what this run put in them."""

    @abstractmethod
    def new_class(self, args: tuple, kwargs: dict[str, Any]) -> type:
        """type(name, bases, members)"""

    @abstractmethod
    def special_method(self, owner: Any, name: str) -> Any:
        """A special method, found on the class and bound."""

    @abstractmethod
    def record(self, function: Callable, args: tuple, kwargs: dict[str, Any], target: Any = None) -> Any:
        """A call that the recorder writes down as one."""
