"""`utils.draw`: what a model does, as a picture.

Enters: a model and examples of its arguments. Leaves: an SVG with shapes (fx/passes/drawing.py makes it). Refuses what
cannot be traced.
"""

from __future__ import annotations

from typing import Any

from ..base import late


def draw(model: Any, *args: Any, **kwargs: Any) -> Any:
    """The graph of `model(*args, **kwargs)` as an SVG with the shape of each result: text that notebooks show.

    Arguments:
        model: a module, a function, a graph module or an exported program
        args: examples of its arguments; without them there are no shapes
        kwargs: examples of its keyword arguments

    Example:
        >>> picture = rl.utils.draw(rl.nn.Linear(3, 2), rl.ones(1, 3))
        >>> picture.startswith("<svg"), "1 × 2" in picture
        (True, True)
    """
    return late.provided("draw")(model, *args, **kwargs)
