"""Pictures and sounds for event files: grids of images, PNG, GIF and WAV as bytes.

Enters: NumPy arrays in any order of dimensions, numbers in [0, 1] or bytes. Leaves: encoded bytes. Resizing, labels on
boxes and moving pictures need Pillow and say so without it; figures need matplotlib.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np


def make_np(x: Any) -> np.ndarray:
    """A tensor, array, list or number as an array."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        return (x.float() if x.dtype.itemsize == 2 and x.dtype.is_floating_point else x).numpy()
    if isinstance(x, (list, tuple)):
        return np.array(x)
    raise NotImplementedError(f"expected an array or a Tensor, got {type(x)}.")


def needs_pillow(what: str) -> Any:
    """Pillow's Image module."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional
    except ImportError:
        raise ModuleNotFoundError(f"{what} needs the package Pillow: pip install pillow") from None
    return Image


# --- still pictures ---------------------------------------------------------------------------------------------------


def make_grid(images: np.ndarray, ncols: int = 8) -> np.ndarray:
    """N images [N, 1 or 3, H, W] side by side as one [3, H, W]."""
    if images.shape[1] == 1:
        images = np.concatenate([images] * 3, 1)
    assert (
        images.ndim == 4 and images.shape[1] == 3
    ), f"make_grid: expected images with 1 or 3 channels, got shape {images.shape}"
    count, _, height, width = images.shape
    ncols = min(count, ncols)
    nrows = -(-count // ncols)
    canvas = np.zeros((3, height * nrows, width * ncols), dtype=images.dtype)
    for i, image in enumerate(images):
        y, x = divmod(i, ncols)
        canvas[:, y * height : (y + 1) * height, x * width : (x + 1) * width] = image
    return canvas


def convert_to_HWC(tensor: np.ndarray, input_format: str) -> np.ndarray:  # noqa: N802 - PyTorch's name
    """An image, or a grid of several, with height, width and channels in this order."""
    input_format = input_format.upper()
    assert len(set(input_format)) == len(
        input_format
    ), f"input_format: the same dimension stands twice in {input_format}"
    assert tensor.ndim == len(
        input_format
    ), f"input_format: expected a letter per dimension of shape {tensor.shape}, got {input_format}"
    if len(input_format) == 4:
        return make_grid(tensor.transpose([input_format.find(c) for c in "NCHW"])).transpose(1, 2, 0)
    if len(input_format) == 3:
        tensor = tensor.transpose([input_format.find(c) for c in "HWC"])
        return np.concatenate([tensor] * 3, 2) if tensor.shape[2] == 1 else tensor
    return np.stack([tensor.transpose([input_format.find(c) for c in "HW"])] * 3, 2)


def to_bytes(image: np.ndarray) -> np.ndarray:
    """Pixels as bytes: those that are not bytes already are taken as shares of 255."""
    scale = 1 if image.dtype == np.uint8 else 255
    return (image.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def encode_png(image: np.ndarray) -> bytes:
    """[H, W, C] bytes as PNG: C is 1 (grey), 2 (with opacity), 3 or 4."""
    height, width, channels = image.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = np.zeros((height, width * channels + 1), np.uint8)   # a leading zero per row: no filter
    rows[:, 1:] = image.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )


def resized(image: np.ndarray, rescale: float) -> np.ndarray:
    """The picture at another size."""
    if rescale == 1:
        return image
    pillow = needs_pillow("add_image with a rescale other than 1")
    size = (int(image.shape[1] * rescale), int(image.shape[0] * rescale))
    return np.asarray(pillow.fromarray(image).resize(size, pillow.Resampling.LANCZOS))


def draw_boxes(image: np.ndarray, boxes: np.ndarray, labels: list[str] | None = None) -> np.ndarray:
    """Red outlines of [left, top, right, bottom] boxes, with a name at each."""
    if labels is not None:
        return _draw_named_boxes(image, boxes, labels)
    image = image.copy()
    height, width = image.shape[:2]
    red = np.array([255, 0, 0, 255], np.uint8)[: image.shape[2]]
    for left, top, right, bottom in np.rint(boxes).astype(int):
        x0, x1 = max(left, 0), min(right, width - 1)
        y0, y1 = max(top, 0), min(bottom, height - 1)
        for y in (top - 1, top, bottom, bottom + 1):
            if 0 <= y < height:
                image[y, x0 : x1 + 1] = red
        for x in (left - 1, left, right, right + 1):
            if 0 <= x < width:
                image[y0 : y1 + 1, x] = red
    return image


def _draw_named_boxes(image: np.ndarray, boxes: np.ndarray, labels: list[str]) -> np.ndarray:
    pillow = needs_pillow("add_image_with_boxes with labels")
    from PIL import ImageDraw, ImageFont  # noqa: PLC0415

    picture, font = pillow.fromarray(image), ImageFont.load_default()
    draw = ImageDraw.Draw(picture)
    for (left, top, right, bottom), label in zip(boxes.tolist(), labels, strict=True):
        draw.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
        x0, y0, x1, y1 = draw.textbbox((left, bottom), label, font=font, anchor="lb")
        draw.rectangle([(x0 - 1, y0 - 1), (x1 + 1, y1 + 1)], fill="Red")
        draw.text((left, bottom), label, fill="black", font=font, anchor="lb")
    return np.asarray(picture)


def figure_to_image(figures: Any, close: bool = True) -> np.ndarray:
    """A matplotlib figure as [3, H, W] bytes, or several as [N, 3, H, W]."""
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - optional
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    except ImportError:
        raise ModuleNotFoundError("add_figure needs the package matplotlib: pip install matplotlib") from None
    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    width, height = canvas.get_width_height()
    image = np.frombuffer(canvas.buffer_rgba(), np.uint8).reshape(height, width, 4)[:, :, :3]
    if close:
        plt.close(figures)
    return image.transpose(2, 0, 1)


# --- moving pictures and sound ----------------------------------------------------------------------------------------


def arrange_video(videos: np.ndarray) -> np.ndarray:
    """[N, T, C, H, W] as frames [T, H', W', C]: the videos in a grid with a power of two of places."""
    count, time, channels, height, width = videos.shape
    if videos.dtype == np.uint8:
        videos = videos.astype(np.float32) / 255
    places = 1 << (count - 1).bit_length()
    if places != count:
        videos = np.concatenate([videos, np.zeros((places - count, time, channels, height, width), videos.dtype)])
    rows = 2 ** ((count.bit_length() - 1) // 2)
    grid = videos.reshape(rows, places // rows, time, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    return grid.reshape(time, rows * height, places // rows * width, channels)


def encode_gif(frames: np.ndarray, fps: float) -> bytes:
    """[T, H, W, C] bytes as GIF."""
    pillow = needs_pillow("add_video")
    pictures = [pillow.fromarray(frame[:, :, 0] if frame.shape[2] == 1 else frame) for frame in frames]
    out = io.BytesIO()
    pictures[0].save(out, format="GIF", save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0)
    return out.getvalue()


def encode_wav(samples: np.ndarray, sample_rate: int) -> bytes:
    """Samples in [-1, 1] as 16-bit WAV with one channel."""
    import wave  # noqa: PLC0415 - rarely needed

    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    return out.getvalue()
