"""What `help` says of a layer: see base/descriptions.py; descriptions.txt has the arguments that layers share.

Enters: the globals of a file of layers. Leaves: its layers with a `__doc__` that is whole when it is asked for.
Refuses: an argument that nobody describes.
"""

from __future__ import annotations

from typing import Any

from ...base.descriptions import describe
from .module import Module


def describe_layers(names: dict[str, Any]) -> None:
    """Give the public layers of a file, by its globals, their descriptions."""
    describe(names, Module, __file__)
