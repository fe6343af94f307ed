"""utils.viz._cycles: what cycles of objects look like, as PyTorch draws them, and that garbage is seen."""

from __future__ import annotations

import gc
import importlib
import re
import subprocess
import sys
import types
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.viz import _cycles


class Held:
    """Something that holds itself, in every way there is a name for."""

    def __init__(self, tensor: Any) -> None:
        self.me, self.items, self.tensor, self.members = self, [self, 1, "x"], tensor, {self}
        self.call = lambda: self
        self.method = self.__init__


def graph(module: types.ModuleType, lib: types.ModuleType) -> Any:
    held = Held(lib.ones(3))
    objects = [held, held.__dict__, held.items, held.tensor, held.call, held.call.__closure__,
               held.call.__closure__[0], held.members, held.method, (), 5]
    return module.create_graph(
        objects, context=lambda o: "made here" if isinstance(o, lib.Tensor) else None,
        filter=lambda o: isinstance(o, lib.Tensor),
    )


def plain(nodes: Any) -> list[Any]:
    return [(re.sub("torch|rushlight", "lib", n.label), n.context, n.root, sorted(n.referrents)) for n in nodes]


def test_graphs_have_labels_contexts_and_named_edges() -> None:
    nodes = graph(_cycles, rl)
    labels = [n.label for n in nodes]
    assert labels[1] == "dict[6]"
    assert labels[2] == "[Held,1,'x']"
    assert labels[4] == "function\n<lambda>"
    assert 5 not in labels      # no tensor hangs on it
    assert [n.context for n in nodes if n.root] == ["made here"]
    assert ("['tensor']", 3) in nodes[1].referrents
    assert ("[0]", 0) in nodes[2].referrents
    assert ("element", 0) in nodes[7].referrents
    theirs = pytest.importorskip("torch.utils.viz._cycles")
    expected = graph(theirs, importlib.import_module("torch"))
    assert plain(nodes) == plain(expected)
    assert re.sub("torch|rushlight", "lib", _cycles.to_dot(nodes)) == re.sub("torch", "lib", theirs.to_dot(expected))


def test_pages_need_no_network() -> None:
    nodes = graph(_cycles, rl)
    nodes.append(_cycles.Node("</script><b>", "</script>", True, [("[<]", 0)]))
    page = _cycles.to_html(nodes)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count('<g class="node"') == len(nodes)
    assert "made here" in page
    assert "<b>" not in page
    assert page.count("</script>") == 1
    assert "<svg" in _cycles.to_html([])


def test_garbage_is_seen_before_it_goes() -> None:
    program = (
        "import gc\nfrom rushlight.utils.viz._cycles import observe_garbage\n"
        "class A: pass\nseen = []\ngc.collect()\n"
        "remove = observe_garbage(lambda found: seen.append(sum(type(x) is A for x in found)))\n"
        "a = A(); a.me = a; del a\ngc.collect(0)\nlen('')\n"
        "a = A(); a.me = a; del a\ngc.collect()\nlen('')\nremove()\n"
        "a = A(); a.me = a; del a\ngc.collect()\nlen('')\nprint(seen, gc.garbage)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[1,", "1]", "[]"]


def test_watching_without_a_gpu_finds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    if rl.cuda.is_available():
        pytest.skip("there is a GPU")
    remove = _cycles.warn_tensor_cycles()
    try:
        held = Held(rl.ones(2))
        del held
        gc.collect()
        len("")
    finally:
        remove()
    assert not [r for r in caplog.records if "Reference cycle" in r.message]


def test_texts_of_objects() -> None:
    shown = {
        "(1,2,3,4,5,6,7,8, ...2)": tuple(range(1, 11)),
        "type\nHeld": Held,
        "module\ngc": gc,
        "instancemethod\nHeld.__init__": Held(None).method,
        "None": None,
    }
    for text, obj in shown.items():
        assert _cycles.object_annotation(obj) == text
    assert _cycles.object_annotation(sys._getframe()).startswith("frame\n...")
