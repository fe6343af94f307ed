"""report.html: one page that says where a program's time went and what to do about it.

Enters: `Findings`. Leaves: a page that needs nothing but itself: style, pictures and script are inside, no address is
in it, and without scripts everything but zooming works.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from os.path import basename

from . import charts
from .findings import SHARES, Findings, LineRow, OpRow
from .flame import flame_graph
from .table import rate
from .units import bytes_text, count_text, share_text, time_text

MOST_OPS = 200
MEANING = {
    "compute": "arithmetic inside kernels whose work, at this machine's best, takes longer than moving their operands",
    "memory": "kernels that wait for memory: moving their operands takes longer than the arithmetic",
    "overhead": "everything around the kernels: the interpreter, dispatching calls, waiting",
    "data": "waiting for the next batch of a DataLoader",
}
HINT = {
    "compute": "Fewer or narrower operations help: bfloat16, smaller layers, compile().",
    "memory": "Touching memory less often helps: compile() joins chains of pointwise ops into one kernel.",
    "overhead": "Larger batches, fewer and larger ops, or compile() help; see below which lines.",
    "data": "More or any workers for the DataLoader help, or doing less for each example.",
}


def resource(name: str) -> str:
    """A file that lies beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def cell(text: str, kind: str = "") -> str:
    """A cell of a table; `text` is HTML."""
    return f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>"


def badge(bound: str) -> str:
    """What bounds something, coloured."""
    return f'<span class="badge {bound}">{bound}</span>'


def bar(share: float) -> str:
    """A share as a bar before its number."""
    return f'<i class="share" style="width:{max(1, round(90 * min(share, 1)))}px"></i>{share_text(share)}'


def op_row(row: OpRow, wall: float) -> str:
    """A row of the table of ops."""
    return "<tr>" + "".join([
        cell(escape(row.name), "code"), cell(badge(row.bound)), cell(str(row.count)), cell(time_text(row.us)),
        cell(bar(row.us / wall)), cell(time_text(row.us / max(row.count, 1))), cell(time_text(row.kernel_us)),
        cell(count_text(row.flops)), cell(bytes_text(row.bytes)), cell(rate(row.flops, row.us, "FLOP/s")),
        cell(rate(row.bytes, row.us, "B/s")),
    ]) + "</tr>"


def op_table(rows: tuple[OpRow, ...], wall: float) -> str:
    """The ops, the slowest first."""
    titles = ("Op", "Bound", "Calls", "Time", "of wall", "per call", "in kernels", "FLOP", "bytes", "FLOP/s", "B/s")
    head = "".join([f"<th>{title}</th>" for title in titles])
    return f"<table><tr>{head}</tr>{''.join([op_row(row, wall) for row in rows[:MOST_OPS]])}</table>"


def line_row(row: LineRow, wall: float) -> str:
    """A row of the table of lines."""
    return "<tr>" + "".join([
        cell(f'<span title="{escape(row.file)}">{escape(basename(row.file))}:{row.line}</span>', "left"),
        cell(escape(row.text), "left code source"), cell(time_text(row.us)), cell(bar(row.us / wall)),
        cell(str(row.count)), cell(badge(row.bound)), cell(escape(", ".join(row.names)), "left wrap"),
        cell(escape(row.advice), "left wrap"),
    ]) + "</tr>"


def line_table(found: Findings) -> str:
    """The slowest lines."""
    if not found.lines:
        return "<p>No line of the program's own took any time worth telling.</p>"
    titles = (("Line", "left"), ("", "left"), ("Time", ""), ("of wall", ""), ("Calls", ""), ("Bound", ""),
              ("mostly", "left"), ("What to do", "left"))
    head = "".join([f'<th class="{kind}">{title}</th>' for title, kind in titles])
    return f"<table><tr>{head}</tr>{''.join([line_row(row, found.wall_us) for row in found.lines])}</table>"


def advice_list(found: Findings) -> str:
    """What to do, the most expensive first."""
    if not found.advice:
        return "<p>Nothing stands out: what takes the time is what the program asks for.</p>"
    items = []
    for one in found.advice:
        places = f'<div class="places">{escape("; ".join(one.places))}</div>' if one.places else ""
        cost = f'<span class="cost">{time_text(one.us)}, {share_text(one.us / found.wall_us)} of the run.</span>'
        items.append(f"<li><b>{escape(one.title)}</b>{cost} {escape(one.detail)}{places}</li>")
    return f'<ol class="advice">{"".join(items)}</ol>'


def facts(found: Findings) -> str:
    """The numbers at the top."""
    shown = (
        ("wall clock", time_text(found.wall_us)),
        ("this machine computes", count_text(found.peaks.flops_per_s, "FLOP/s")),
        ("and moves", count_text(found.peaks.bytes_per_s, "B/s")),
        ("most memory of tensors", bytes_text(found.memory.peak_bytes)),
        ("at the end", bytes_text(found.memory.end_bytes)),
        ("calls of ops", count_text(sum([row.count for row in found.ops]))),
    )
    parts = [f"<div><span>{label}</span><strong>{escape(value)}</strong></div>" for label, value in shown]
    return f'<div class="facts">{"".join(parts)}</div>'


def section(title: str, body: str, intro: str = "") -> str:
    """A headed part of the page."""
    lead = f'<p class="soft">{intro}</p>' if intro else ""
    return f"<h2>{title}</h2>{lead}<section>{body}</section>"


def definitions() -> str:
    """What the words mean, at the end of the page."""
    rows = "".join([f"<tr>{cell(badge(name), 'left')}{cell(MEANING[name], 'left wrap')}</tr>" for name in SHARES])
    return (
        f"<table>{rows}</table><p class='soft'>FLOP and bytes are counted from the plan of each call: every"
        " floating-point operation of its expression (a fused multiply-add is two), every element read once and every"
        " element written; – where an op does not tell. Both peaks were measured just before the program began: a"
        " product of matrices and a sum of long vectors, in single precision, on as many threads as ops use. An op is"
        " bound by overhead where less than half of its time is spent inside kernels.</p>"
    )


LEGEND = "".join([
    f'<i style="background:{colour}"></i>{name}'
    for name, colour in (("Python", "#e8c07a"), ("modules", "#f0d9a8"), ("ops", "#8db6e2"), ("backward", "#c3a5dd"),
                         ("data", "#9ccb8d"))
])


def page(found: Findings) -> str:
    """The whole report."""
    flame = flame_graph(found.stacks)
    bound = found.verdict
    notes = "".join([f"<p class='soft'>{escape(note)}</p>" for note in found.notes])
    body = "".join([
        f"<h1>{escape(found.program)}</h1><p class='soft'>{escape(found.outcome)}</p>", facts(found),
        f'<p class="verdict">Bound by <b>{bound}</b>: {share_text(found.share[bound])} of the time goes to'
        f" {MEANING[bound]}. {HINT[bound]}</p>", charts.shares(found), notes,
        section("What to do", advice_list(found)),
        section("Slowest lines", line_table(found), "With all that they call; the program's own files only."),
        section("Ops", op_table(found.ops, max(found.wall_us, 1.0)),
                "Own time: what an op's inner ops took is in it, what other ops of the program took is not."),
        '<div class="pair"><div>', section("Roofline", charts.roofline(found)), "</div><div>",
        section("Memory over time", charts.memory(found)), "</div></div>",
        section("Flame graph", f'{flame}<p class="legend">{LEGEND}</p>',
                "Width is time; click a frame to zoom, the top one to go back.") if flame else "",
        section("What the words mean", definitions()),
    ])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(found.program)}: profile</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{resource("page.css")}</style>'
        f"</head><body><main>{body}</main><script>{resource('page.js')}</script></body></html>\n"
    )
