"""Every public layer says what its arguments are, which shapes it takes and gives, and shows an example that runs."""

from __future__ import annotations

import doctest
import inspect

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
    text = inspect.cleandoc(vars(layer)["__doc__"])
    described = {line.split(":")[0].strip().lstrip("*") for line in part(text, "Arguments").splitlines()}
    accepted = {param for param in inspect.signature(layer).parameters if not param.startswith("_")}
    assert described == (accepted or {"none"})
    assert part(text, "Shape").strip() and text.split("\n")[0].endswith((".", "!", ")", "]"))
    found = doctest.DocTestParser().get_doctest(text, {"rl": rl}, name, None, None)
    assert len(found.examples) >= 2 and found.examples[-1].want
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert not result.failed, "".join(said)
