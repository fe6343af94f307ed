"""Libraries with native code of their own, made to run without it.

Enters: modules of these libraries as they are imported in a program that Rushlight serves `torch` to. Leaves: where
their native code cannot be loaded (`ops.load_library`; releases before the stable ABI were compiled for PyTorch's
core), torchaudio as it is where it was built without its extension, and torchvision whose `nms` is an op in Python; its
`roi_align` has a form in Python of its own, which it takes where there is no extension. Where it can, nothing is
changed.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .. import _C
from ..op import ops


def without_extension(module: ModuleType) -> None:
    """torchaudio._extension.utils finds no library of its own where that cannot be loaded, as where it was built
    without."""
    own = vars(module)["_load_lib"]

    def load(lib: str) -> bool:
        try:
            return own(lib)
        except OSError:
            return False

    vars(module)["_load_lib"] = load


def with_boxes(module: ModuleType) -> None:
    """torchvision.ops.boxes has its one op that has no form in Python."""
    if "torchvision::nms" in ops and not _defined:
        return      # its own, from its library
    define_nms()
    vars(module)["_assert_has_ops"] = lambda: None


ADJUSTED: dict[str, Callable[[ModuleType], None]] = {
    "torchaudio._extension.utils": without_extension,
    "torchvision.ops.boxes": with_boxes,
}


class AdjustedLoader:
    """A module's own loader, and what is changed afterwards."""

    def __init__(self, own: Any, adjust: Callable[[ModuleType], None]) -> None:
        self.own, self.adjust = own, adjust

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.own.exec_module(module)
        self.adjust(module)


def find(fullname: str, path: Sequence[str] | None, asking: object) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module to be adjusted, by the finders other than the one that asks."""
    for finder in sys.meta_path:
        if finder is asking or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = AdjustedLoader(spec.loader, ADJUSTED[fullname])
            return spec
    return None


# --- torchvision::nms -------------------------------------------------------------------------------------------------

_defined: list[Any] = []      # what keeps the op


def define_nms() -> None:
    """Make `ops.torchvision.nms`, once."""
    if _defined:
        return
    from ..library import Library, register_fake

    _defined.append(Library("torchvision", "FRAGMENT"))
    _defined[0].define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _defined[0].impl("nms", kept_boxes, "CompositeExplicitAutograd")
    register_fake("torchvision::nms", unknown_boxes)


def check_boxes(boxes: Any, scores: Any) -> None:
    """Refuse what are no boxes with a score each."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise RuntimeError(f"nms: boxes must be [N, 4], got {list(boxes.shape)}")
    if scores.ndim != 1 or scores.shape[0] != boxes.shape[0]:
        raise RuntimeError(f"nms: scores must be [N] beside boxes [N, 4], got {list(scores.shape)} and"
                           f" {list(boxes.shape)}")
    if boxes.dtype is not scores.dtype:
        raise RuntimeError(f"nms: boxes and scores must have the same type, got {boxes.dtype} and {scores.dtype}")


def unknown_boxes(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """As many positions as no one can say before."""
    from ..library import get_ctx

    check_boxes(boxes, scores)
    return boxes.new_empty((get_ctx().new_dynamic_size(),), dtype=_C.int64)


def kept_boxes(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Positions of the boxes that no better one overlaps by more than the threshold, the best first."""
    import numpy

    check_boxes(boxes, scores)
    order = scores.detach().sort(descending=True, stable=True).indices
    chosen = boxes.detach()[order].cpu()
    corners = (chosen if chosen.itemsize > 2 else chosen.float()).numpy()
    low, high = corners[:, :2], corners[:, 2:]
    areas = (high - low).prod(1)
    gone, kept = numpy.zeros(len(corners), dtype=bool), []
    for i in range(len(corners)):
        if gone[i]:
            continue
        kept.append(i)
        rest = slice(i + 1, None)
        sides = numpy.minimum(high[i], high[rest]) - numpy.maximum(low[i], low[rest])
        shared = numpy.maximum(sides, 0).prod(1)
        with numpy.errstate(invalid="ignore", divide="ignore"):      # boxes without area overlap nothing
            gone[rest] |= shared / (areas[i] + areas[rest] - shared) > iou_threshold
    return order[order.new_tensor(kept)]
