"""Cycles of Python objects that keep GPU memory until the collector runs: found, drawn, and warned of.

Enters: objects, as the collector finds them to be garbage. Leaves: nodes with labelled edges, as Graphviz text or as a
page that draws itself without a network; or calls of an observer whenever garbage is found. Only what tensors on a GPU
hang on is drawn, unless another filter is given.
"""

from __future__ import annotations

import atexit
import gc
import html
import json
import logging
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from ... import _C
from ...base import late

logger = logging.getLogger(__name__)

BASE_TYPES = (int, float, complex, type(None), str, bytes)
FRAME_FILENAME_LIMIT = 32
SHOWN_ITEMS = 8
OLDEST = 2      # the collector's last generation
_SLOTS = {
    types.FunctionType: ("__defaults__", "__closure__", "__globals__", "__code__", "__name__", "__module__", "__doc__",
                         "__qualname__", "__annotations__", "__kwdefaults__"),
    types.MethodType: ("__self__", "__func__"),
    types.FrameType: ("f_back", "f_code", "f_builtins", "f_globals", "f_trace", "f_locals"),
    types.GetSetDescriptorType: ("__objclass__", "__name__", "__doc__"),
    types.CellType: ("cell_contents",),
}


def observe_garbage(observer: Callable[[list[Any]], Any]) -> Callable[[], None]:
    """Call `observer` with the objects that each collection frees, just before they go. What it returns ends that."""
    is_enabled = True

    def disable() -> None:
        nonlocal is_enabled
        is_enabled = False

    atexit.register(disable)      # modules may be gone while Python ends

    def report(generation: int) -> None:
        nonlocal is_enabled
        is_enabled = False
        try:
            # Kept garbage is older now than what was collected: only a whole collection frees it, and must be seen too.
            if generation != OLDEST:
                gc.collect()
            observer(gc.garbage)
            gc.garbage.clear()
            gc.set_debug(0)
            before = _gpu_bytes()
            gc.collect()
            freed = before - _gpu_bytes()
            if freed:
                logger.warning("CUDA Memory changed during GC, %d bytes freed.", freed)
        finally:
            is_enabled = True

    def callback(phase: str, info: dict[str, int]) -> None:
        if not is_enabled:
            return
        if phase == "start":
            gc.set_debug(gc.DEBUG_SAVEALL)
            return
        before, events = sys.getprofile(), iter((False,))

        def later(frame: Any, event: str, arg: Any) -> Any:
            # The first event is this callback's own return; at the next the collector has finished.
            if next(events, True):
                sys.setprofile(before)
                report(info["generation"])
            return before(frame, event, arg) if before is not None else None

        sys.setprofile(later)

    gc.callbacks.append(callback)

    def remove() -> None:
        gc.callbacks.remove(callback)
        atexit.unregister(disable)

    return remove


def _gpu_bytes() -> int:
    cuda = late.provided("package").cuda
    return cuda.memory_allocated() if cuda.is_available() else 0


def annotated_references(obj: Any) -> dict[int, list[str]]:
    """What is known of the references an object holds: identity of the other -> names, several where it has several."""
    found: dict[int, list[str]] = {}

    def add(name: str, other: Any) -> None:
        found.setdefault(id(other), []).append(name)

    def add_attributes(names: Iterable[str]) -> None:
        for name in names:
            try:
                add(name, getattr(obj, name))
            except (AttributeError, ValueError):      # ValueError: an empty cell
                continue

    for kind in type(obj).__mro__:
        if kind in (tuple, list):
            for k, item in enumerate(obj):
                add(f"[{k}]", item)
        elif kind is dict:
            for key, value in obj.items():
                add("key", key)
                add(f"[{key!r}]", value)
        elif kind in (set, frozenset):
            for item in obj:
                add("element", item)
        elif kind is weakref.ref:
            # of subclasses, the callback cannot be told from other attributes
            others = gc.get_referents(obj) if type(obj) is weakref.ref else []
            if len(others) == 1:
                add("__callback__", others[0])
        elif kind in _SLOTS:
            add_attributes(_SLOTS[kind])
            if kind is types.FrameType:
                for name, value in dict(obj.f_locals).items():
                    add(f"local {name}", value)
    add_attributes(("__dict__", "__class__", *(("__mro__",) if isinstance(obj, type) else ())))
    return found


def _items(obj: Any) -> str:
    shown = ",".join(repr(x) if isinstance(x, BASE_TYPES) else type(x).__name__ for x in obj[:SHOWN_ITEMS])
    return f"{shown}, ...{len(obj) - SHOWN_ITEMS}" if len(obj) > SHOWN_ITEMS else shown


def _frame_text(obj: Any) -> str:
    name = obj.f_code.co_filename
    name = "..." + name[3 - FRAME_FILENAME_LIMIT :] if len(name) > FRAME_FILENAME_LIMIT else name
    return f"frame\n{name}:{obj.f_lineno}"


def object_annotation(obj: Any) -> str:
    """A short text for an object."""
    if isinstance(obj, weakref.ref):
        referent = obj()
        return "weakref (dead referent)" if referent is None else f"weakref to id 0x{id(referent):x}"
    texts: tuple[tuple[Any, Callable[[Any], str]], ...] = (
        (BASE_TYPES, repr),
        (types.FunctionType, lambda o: f"function\n{o.__name__}"),
        (types.MethodType, lambda o: f"instancemethod\n{getattr(o.__func__, '__qualname__', '<anonymous>')}"),
        (list, lambda o: f"[{_items(o)}]"),
        (tuple, lambda o: f"({_items(o)})"),
        (dict, lambda o: f"dict[{len(o)}]"),
        (types.ModuleType, lambda o: f"module\n{o.__name__}"),
        (type, lambda o: f"type\n{o.__name__}"),
        (types.FrameType, _frame_text),
    )
    for kinds, text in texts:
        if isinstance(obj, kinds):
            return text(obj)
    name = f"object\n{type(obj).__module__}.{type(obj).__name__}"
    return f"{name} ({obj.shape})" if is_cuda_tensor(obj) else name


class Node(NamedTuple):
    """An object: its text, where its memory was allocated, whether it was looked for, and (name, number) of others."""

    label: str
    context: str | None
    root: bool
    referrents: list[tuple[str, int]]


def create_graph(
    objects: Iterable[Any], *, context: Callable | None = None, filter: Callable | None = None
) -> list[Node]:
    """The objects from which those can be reached for which `filter` holds (tensors on a GPU), with their edges;
    `context` says where an object's memory was allocated."""
    context = cuda_allocation_context() if context is None else context
    filter = is_cuda_tensor if filter is None else filter
    known = [obj for obj in objects if not isinstance(obj, weakref.ProxyTypes)]
    numbers = {id(obj): i for i, obj in enumerate(known)}
    nodes = [Node(object_annotation(obj), context(obj), filter(obj), []) for obj in known]
    holders: list[list[int]] = [[] for _ in known]
    for i, obj in enumerate(known):
        names = annotated_references(obj)
        for other in gc.get_referents(obj):
            j = numbers.get(id(other))
            if j is not None:
                holders[j].append(i)
                nodes[i].referrents.extend((name, j) for name in names.get(id(other), ["?"]))
    kept, waiting = set(), [i for i, node in enumerate(nodes) if node.root]
    while waiting:
        i = waiting.pop()
        if i not in kept:
            kept.add(i)
            waiting += holders[i]
    order = {i: k for k, i in enumerate(sorted(kept))}
    for i in order:
        nodes[i].referrents[:] = [(name, order[j]) for name, j in nodes[i].referrents if j in order]
    return [nodes[i] for i in order]


def escape(n: str) -> str:
    """A text in quotes."""
    return json.dumps(n)


def is_cuda_tensor(obj: Any) -> bool:
    """Whether an object is a tensor with memory on a GPU."""
    is_tensor = isinstance(obj, _C.Tensor) and obj.device.type == "cuda"
    return is_tensor and not isinstance(obj, late.provided("FakeTensor"))


def cuda_allocation_context() -> Callable[[Any], str | None]:
    """A function that says where a tensor's memory was allocated, as far as `_record_memory_history` noted it."""
    package = late.provided("package")
    frames: dict[int, list[dict[str, Any]]] = {}
    segments = package.cuda.memory._snapshot()["segments"] if package.cuda.is_available() else ()
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                frames[address] = block.get("frames") or (block.get("history") or [{}])[0].get("frames") or []
            address += block["size"]

    def where(obj: Any) -> str | None:
        known = frames.get(obj.untyped_storage().data_ptr()) if is_cuda_tensor(obj) else None
        return None if known is None else "\n".join(f"{f['filename']}:{f['line']}:{f['name']}" for f in known)

    return where


def to_dot(nodes: list[Node]) -> str:
    """The graph as Graphviz reads it."""
    lines = ["digraph GraphName {", "node [shape=rect];", "rankdir=LR;"]
    lines += [f"{i} [label={escape(n.label)}, color={'red' if n.root else 'black'}];" for i, n in enumerate(nodes)]
    lines += [f"{i} -> {j} [label = {escape(name)}]" for i, n in enumerate(nodes) for name, j in n.referrents]
    return "\n".join([*lines, "}\n"])


WIDE, HIGH, GAP_X, GAP_Y = 190, 44, 150, 26      # of a box, and between boxes
_PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Reference cycles</title><style>
body { margin: 0; font: 12px monospace } #picture { height: 70vh; overflow: auto } pre { margin: 0; padding: 10px }
rect { fill: #fff; stroke: #000 } rect.root { stroke: #d00; stroke-width: 2 } path { fill: none; stroke: #888 }
text.edge { fill: #555; font-size: 10px } g.node { cursor: pointer }
</style></head><body><div id="picture">%(picture)s</div>
<pre id="stacktrace">Click or hover over a tensor to see where it was allocated.</pre>
<pre id="dot" hidden>%(dot)s</pre>
<script>
const contexts = %(contexts)s;
for (const node of document.querySelectorAll('g.node')) node.addEventListener('mouseover', () => {
  const known = contexts[node.dataset.node];
  if (known) document.getElementById('stacktrace').textContent = known;
});
</script></body></html>
"""


def _columns(nodes: list[Node]) -> list[int]:
    """How many steps each node is from the first of its kind: those that were looked for stand rightmost."""
    depth = [-1] * len(nodes)
    holders: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for _, j in node.referrents:
            holders[j].append(i)
    level, waiting = 0, [i for i, node in enumerate(nodes) if node.root] or list(range(len(nodes)))
    while waiting:
        for i in waiting:
            depth[i] = level
        waiting = list(dict.fromkeys(k for i in waiting for k in holders[i] if depth[k] < 0))
        level += 1
    last = max(depth, default=0)
    return [last - max(d, 0) for d in depth]


def _picture(nodes: list[Node]) -> str:
    """Boxes in columns, with curves between them."""
    columns, filled, places = _columns(nodes), {}, []
    for column in columns:
        row = filled[column] = filled.get(column, -1) + 1
        places.append((20 + column * (WIDE + GAP_X), 20 + row * (HIGH + GAP_Y)))
    parts = []
    for i, node in enumerate(nodes):
        for name, j in node.referrents:
            (x0, y0), (x1, y1) = (places[i][0] + WIDE, places[i][1] + HIGH / 2), (places[j][0], places[j][1] + HIGH / 2)
            bend = 60 if x1 > x0 else -60 - abs(y1 - y0) / 4
            parts.append(f'<path d="M{x0},{y0} C{x0 + abs(bend)},{y0} {x1 - abs(bend)},{y1} {x1},{y1}"/>'
                         f'<text class="edge" x="{(x0 + x1) / 2}" y="{(y0 + y1) / 2 - 3}">{html.escape(name)}</text>')
    for i, (node, (x, y)) in enumerate(zip(nodes, places, strict=True)):
        texts = [html.escape(line[:28]) for line in node.label.split("\n")]
        lines = "".join(f'<tspan x="{x + 6}" dy="15">{text}</tspan>' for text in texts)
        kind = ' class="root"' if node.root else ""
        parts.append(f'<g class="node" data-node="{i}"><rect{kind} x="{x}" y="{y}" width="{WIDE}" height="{HIGH}"/>'
                     f'<text x="{x + 6}" y="{y + 3}">{lines}</text><title>{html.escape(node.label)}</title></g>')
    wide = max((x for x, _ in places), default=0) + WIDE + 40
    high = max((y for _, y in places), default=0) + HIGH + 40
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}">{"".join(parts)}</svg>'


def to_html(nodes: list[Node]) -> str:
    """A page that shows the graph: a picture made here, with nothing to fetch."""
    contexts = {str(i): f"{n.label}:\n{n.context}" for i, n in enumerate(nodes) if n.context is not None}
    return _PAGE % {"picture": _picture(nodes), "dot": html.escape(to_dot(nodes)),
                    "contexts": json.dumps(contexts).replace("<", "\\u003c")}


def observe_tensor_cycles(callback: Callable[[str], Any]) -> Callable[[], None]:
    """Call `callback` with a page whenever garbage holds tensors of a GPU. What it returns ends that."""
    package = late.provided("package")
    if package.cuda.is_available():
        package.cuda.memory._record_memory_history(max_entries=100000)

    def observer(garbage: list[Any]) -> None:
        if any(is_cuda_tensor(obj) for obj in garbage):
            callback(to_html(create_graph(garbage)))
        elif garbage:
            logger.info("No CUDA Tensors found in garbage")

    return observe_garbage(observer)


def warn_tensor_cycles() -> Callable[[], None]:
    """Warn of every cycle that held memory of a GPU, with a page that shows it. What it returns ends that."""
    logger.info("Watching Python reference cycles for CUDA Tensors.")

    def write(page: str) -> None:
        with NamedTemporaryFile("w", suffix=".html", delete=False) as f:
            f.write(page)
        logger.warning("Reference cycle includes a CUDA Tensor see visualization of cycle %s", f.name)

    return observe_tensor_cycles(write)
