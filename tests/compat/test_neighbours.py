"""Libraries with native code of their own are imported, and their ops in Python give what theirs do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import rushlight as rl
from rushlight.compat import neighbours

UTILS = """
import torch
def _load_lib(lib):
    torch.ops.load_library(f"/nowhere/{lib}.so")
    return True
"""
BOXES = """
import torch
def _assert_has_ops():
    raise RuntimeError("no ops")
def nms(boxes, scores, iou_threshold):
    _assert_has_ops()
    return torch.ops.torchvision.nms(boxes, scores, iou_threshold)
"""
PROGRAM = """
import torch
import torchaudio._extension as audio
from torchvision.ops import boxes
assert audio.available is False
b = torch.tensor([[0., 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 10]])
print(boxes.nms(b, torch.tensor([0.5, 0.9, 0.1, 0.6]), 0.5).tolist())
"""


def test_libraries_with_native_code_are_imported(tmp_path):
    for name, text in {
        "torchaudio/__init__.py": "", "torchaudio/_extension/utils.py": UTILS,
        "torchaudio/_extension/__init__.py": "from .utils import _load_lib\navailable = _load_lib('_torchaudio')\n",
        "torchvision/__init__.py": "", "torchvision/ops/__init__.py": "", "torchvision/ops/boxes.py": BOXES,
        "program.py": PROGRAM,
    }.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, "-m", "rushlight", "run", str(tmp_path / "program.py")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1, 2]"


def plain_nms(boxes, scores, threshold):
    """Box by box, as the words say it."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    kept = []
    for i in order:
        for j in kept:
            a, b = boxes[i], boxes[j]
            sides = [max(0.0, min(a[2 + d], b[2 + d]) - max(a[d], b[d])) for d in range(2)]
            shared = sides[0] * sides[1]
            whole = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - shared
            if whole and shared / whole > threshold:
                break
        else:
            kept.append(i)
    return kept


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_nms(threshold):
    rl.manual_seed(0)
    boxes = rl.rand(120, 4, dtype=rl.float64) * 50
    boxes[:, 2:] += boxes[:, :2]
    scores = rl.randperm(120).double()
    assert neighbours.kept_boxes(boxes, scores, threshold).tolist() == plain_nms(
        boxes.tolist(), scores.tolist(), threshold)


def test_nms_of_nothing_and_of_half_types():
    none = neighbours.kept_boxes(rl.zeros(0, 4), rl.zeros(0), 0.5)
    assert none.tolist() == [] and none.dtype is rl.int64
    boxes = rl.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4]], dtype=rl.float16)
    assert neighbours.kept_boxes(boxes, rl.tensor([1.0, 2.0], dtype=rl.float16), 0.5).tolist() == [1]


@pytest.mark.parametrize("boxes, scores", [((3, 5), (3,)), ((3, 4), (2,)), ((3, 4), (3, 1))])
def test_what_are_no_boxes_is_refused(boxes, scores):
    with pytest.raises(RuntimeError, match="nms: "):
        neighbours.kept_boxes(rl.zeros(boxes), rl.zeros(scores), 0.5)
    with pytest.raises(RuntimeError, match="same type"):
        neighbours.kept_boxes(rl.zeros(3, 4), rl.zeros(3, dtype=rl.float64), 0.5)
