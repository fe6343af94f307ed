"""The files TensorBoard's projector reads: vectors, their labels, small pictures of them, and a list of all that.

Enters: a matrix, and per row a label or a picture. Leaves: `tensors.tsv`, `metadata.tsv`, `sprite.png` in a folder, and
lines for `projector_config.pbtxt`. Refuses: labels or pictures of another number than the rows.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from .images import encode_png, make_grid, make_np


def make_tsv(metadata: list, save_path: str, metadata_header: list[str] | None = None) -> None:
    """Labels, one per line, or columns of them under a header."""
    if metadata_header:
        assert len(metadata_header) == len(metadata[0]), "metadata_header: expected one name per column of metadata"
        lines = ["\t".join(str(e) for e in row) for row in [metadata_header, *metadata]]
    else:
        lines = [str(x) for x in metadata]
    with open(os.path.join(save_path, "metadata.tsv"), "wb") as f:
        f.write(("\n".join(lines) + "\n").encode())


def make_sprite(label_img: Any, save_path: str) -> None:
    """All pictures in one square."""
    images = make_np(label_img)
    grid = make_grid(images, ncols=math.ceil(images.shape[0] ** 0.5)).transpose(1, 2, 0)
    square = np.zeros((grid.shape[1], grid.shape[1], 3))
    square[: grid.shape[0]] = grid
    with open(os.path.join(save_path, "sprite.png"), "wb") as f:
        f.write(encode_png((square * 255).clip(0, 255).astype(np.uint8)))


def make_mat(matrix: np.ndarray, save_path: str) -> None:
    """The vectors, one per line."""
    with open(os.path.join(save_path, "tensors.tsv"), "wb") as f:
        for row in matrix:
            f.write(("\t".join(str(i.item()) for i in row) + "\n").encode())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def embedding_lines(has_metadata: bool, label_img: Any, subdir: str, global_step: int, tag: str) -> str:
    """One entry of projector_config.pbtxt."""
    lines = ["embeddings {", f"  tensor_name: {_quoted(f'{tag}:{str(global_step).zfill(5)}')}"]
    if has_metadata:
        lines.append(f"  metadata_path: {_quoted(os.path.join(subdir, 'metadata.tsv'))}")
    if label_img is not None:
        sizes = f"    single_image_dim: {label_img.shape[3]}\n    single_image_dim: {label_img.shape[2]}"
        lines.append(f"  sprite {{\n    image_path: {_quoted(os.path.join(subdir, 'sprite.png'))}\n{sizes}\n  }}")
    lines += [f"  tensor_path: {_quoted(os.path.join(subdir, 'tensors.tsv'))}", "}"]
    return "\n".join(lines) + "\n"
