"""Running one source text on Rushlight and on PyTorch, and what each printed."""

from __future__ import annotations

import contextlib
import importlib
import io
import linecache
import re
import warnings

import pytest

_PRELUDE = """
import copy, math, operator
nn = torch.nn
F = torch.nn.functional
"""


def printed(source: str, framework: str) -> str:
    """What the text prints with `torch` being the framework, and `fx` its fx."""
    names = {
        "torch": importlib.import_module(framework),
        "fx": importlib.import_module(f"{framework}.fx"),
        "__name__": "program",
    }
    for module in ("fx.passes.shape_prop", "fx.passes.split_module", "func", "fx.subgraph_rewriter"):
        importlib.import_module(f"{framework}.{module}")
    text = _PRELUDE + source
    file = f"<program {framework} {hash(source)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, file, "exec"), names)
    return out.getvalue()


def same(source: str) -> str:
    """Assert that both frameworks print the same, addresses aside; the text."""
    pytest.importorskip("torch")
    ours, theirs = (
        re.sub(r"0x[0-9a-f]+|# .*print_readable.*", "0x", printed(source, framework))
        for framework in ("rushlight", "torch")
    )
    assert ours == theirs
    return ours
