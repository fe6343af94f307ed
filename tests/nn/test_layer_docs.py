"""Every public layer says what its arguments are, which shapes it takes and gives, and shows an example that runs."""

from __future__ import annotations

import doctest
import inspect
import pydoc
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import nn

NO_LAYERS = {"Module", "Container", "DataParallel", "RNNCellBase"}   # bases, and what runs another module
LAYERS = [
    name
    for name in dir(nn)
    if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module) and name not in NO_LAYERS
]


def part(text: str, heading: str) -> str:
    """The lines below a heading, up to the next one."""
    _, _, rest = text.partition(f"\n{heading}:\n")
    return rest.split("\n\n")[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_the_docstring_is_whole_and_its_example_runs(name: str) -> None:
    layer = getattr(nn, name)
    text = inspect.cleandoc(layer.__doc__)
    described = {line.split(":")[0].strip().lstrip("*") for line in part(text, "Arguments").splitlines()}
    accepted = {param for param in inspect.signature(layer).parameters if not param.startswith("_")}
    assert described == (accepted or {"none"})
    assert part(text, "Shape").strip() and text.split("\n")[0].endswith((".", "!", ")", "]"))
    found = doctest.DocTestParser().get_doctest(text, {"rl": rl}, name, None, None)
    assert len(found.examples) >= 2 and found.examples[-1].want
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert not result.failed, "".join(said)


def test_a_layer_says_what_is_its_own_and_the_rest_is_found() -> None:
    text = pydoc.plain(pydoc.render_doc(nn.LazyConv2d))
    assert "A Conv2d that takes in_channels from its first input." in text
    assert "kernel_size: size of the window, one number or one for each dimension" in text    # of all layers
    assert "input (N, in_channels, H, W) or without N" in text                                # of all convolutions
    assert "rl.nn.LazyConv2d(6, 3, padding=1)" in text                                        # of the lazy ones
    assert "    in_channels: " not in nn.LazyConv2d.__doc__ and "    in_channels: " in nn.Conv2d.__doc__
    assert "padding: padding of the pooling that is undone" in nn.MaxUnpool3d.__doc__         # of a family
    assert "pos_weight: weight of the positive examples of each class" in nn.BCEWithLogitsLoss.__doc__
    assert nn.ReLU().__doc__ == nn.ReLU.__doc__


def test_classes_of_programs_keep_their_docstrings() -> None:
    class Plain(nn.Conv2d):
        pass

    class Told(nn.Conv2d):
        """Mine."""

    assert Plain.__doc__ is None and Told.__doc__ == "Mine."


def test_layers_work_without_docstrings() -> None:
    code = "from rushlight import nn, ones; layer = nn.Conv2d(1, 2, 3); print(layer.__doc__, layer(ones(1, 1, 3, 3)))"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "None"
