"""A tensor as a notebook shows it: `_repr_html_`.

Enters: a tensor of any size, kind and device. Leaves: a few lines of HTML: shape, dtype, device and the numbers that
printing shows, escaped and cut to a bounded length. Refuses nothing: where numbers cannot be read (a tensor on `meta`,
a traced or fake one), what printing says of it stands in their place.
"""

from __future__ import annotations

import html
from typing import Any

LONGEST = 4000      # characters of numbers
MOST_DIMS = 3       # of what is shown; of more, the first slices


def tensor_page(tensor: Any) -> str:
    """The HTML."""
    try:
        shape = " × ".join(map(str, tensor.shape)) or "one number"
    except RuntimeError:        # nested tensors of strided layout have no shape as a whole
        shape = f"{tensor.size(0)} tensors"
    facts = [shape, str(tensor.dtype).rpartition(".")[2], str(tensor.device)]
    facts += ["requires grad"] if tensor.requires_grad else []
    shown, where = tensor.detach() if tensor.requires_grad else tensor, ""
    if shown.ndim > MOST_DIMS and not shown.is_nested and shown.numel() and str(shown.layout).endswith("strided"):
        where = "[" + "0, " * (shown.ndim - MOST_DIMS) + "...]"
        for _ in range(shown.ndim - MOST_DIMS):
            shown = shown[0]
    text = repr(shown)
    text = text if len(text) <= LONGEST else text[:LONGEST] + " …"
    note = f"{html.escape(where)}\n" if where else ""
    return (f"<div><strong>{html.escape(type(tensor).__name__)}</strong> {html.escape(', '.join(facts))}"
            f"<pre>{note}{html.escape(text)}</pre></div>")
