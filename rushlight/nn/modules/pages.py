"""A module as a notebook shows it: `_repr_html_`.

Enters: a module. Leaves: its text and a table of the modules in it with how many parameters each has, escaped and of a
bounded number of rows. Parameters that are shared count once in the sum; those a lazy module has yet to make count as
none. Refuses nothing.
"""

from __future__ import annotations

import html
from typing import Any

ROWS, LONGEST = 60, 200


def count(module: Any) -> tuple[int, int]:
    """How many numbers the parameters of a module hold, and how many of them are trained."""
    known = [p for p in module.parameters() if not hasattr(p, "materialize")]
    return sum(p.numel() for p in known), sum(p.numel() for p in known if p.requires_grad)


def module_page(module: Any) -> str:
    """The HTML."""
    total, trained = count(module)
    parts = [f"<div><strong>{html.escape(type(module).__name__)}</strong> {total:,} parameters"
             + (f", {trained:,} of them trained" if trained != total else ""),
             "<table><thead><tr><th>name</th><th>module</th><th>parameters</th></tr></thead><tbody>"]
    left = 0
    for number, (name, child) in enumerate(module.named_modules()):
        if number >= ROWS:
            left += 1
            continue
        text = f"{child._get_name()}({child.extra_repr()})"
        text = text if len(text) <= LONGEST else text[:LONGEST] + " …"
        cells = (name or "(whole)", text, f"{count(child)[0]:,}")
        parts.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    parts.append("</tbody></table>" + (f"<p>and {left:,} more modules</p>" if left else "") + "</div>")
    return "".join(parts)
