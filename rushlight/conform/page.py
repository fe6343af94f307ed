"""The report as one page of tables: a file that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from rushlight import version

from .report import Area, Report, figure

STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #66707a; --line: #dfe3e8; --ground: #fff; --card: #f6f8fa;
        --good: #1a7f4b; --bad: #c0362c; --idle: #b7bec6; --host: #b26a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #98a2ad; --line: #333b44; --ground: #14181c;
        --card: #1c2127; --good: #4cc38a; --bad: #f2776b; --idle: #4a535d; --host: #e3a448; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 60rem; background: var(--ground); color: var(--ink);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.verdict { margin: 1.2rem 0 0; padding: .8rem 1.1rem; border-left: 5px solid var(--good); background: var(--card);
           border-radius: 0 6px 6px 0; font-size: 1.05rem; }
.verdict.bad { border-color: var(--bad); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .38rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tfoot td { border-bottom: 0; font-weight: 600; }
.zero { color: var(--idle); } .bad-number { color: var(--bad); font-weight: 700; }
.bar { display: flex; width: 9rem; height: .7rem; margin-top: .4rem; border-radius: 3px; overflow: hidden;
       background: var(--line); }
.bar i { display: block; height: 100%; } .bar .good { background: var(--good); } .bar .bad { background: var(--bad); }
.bar .idle { background: var(--idle); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; background: var(--card); }
summary { padding: .55rem .9rem; cursor: pointer; overflow-wrap: anywhere; }
summary b { font-weight: 600; } .where { color: var(--bad); font-weight: 600; margin-right: .3rem; }
.message { display: block; color: var(--soft); font-size: .92rem; }
pre { margin: 0; padding: .8rem 1rem; border-top: 1px solid var(--line); overflow-x: auto; background: var(--ground);
      font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; border-radius: 0 0 6px 6px; }
code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; }
"""


def html(report: Report) -> str:
    """The whole page."""
    bad = "" if report.passed else " bad"
    how = "the quick suite" if report.quick else "the whole suite"
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.device)}: {'passed' if report.passed else 'failed'}</title>",
        f"<style>{STYLE}</style>", "</head>", "<body>",
        f"<h1>Device <code style=\"font-size: inherit\">{escape(report.device)}</code></h1>",
        f'<p class="soft">{how}, rushlight {escape(version.rushlight)}, every result compared with the host\'s</p>',
        f'<p class="verdict{bad}">{escape(report.verdict())}</p>',
        *areas(report), *failures(report), *figures(report), *on_host(report), *skipped(report),
        "</body>", "</html>", "",
    ]
    return "\n".join(parts)


def table(heads: Iterable[str], rows: Iterable[str], foot: str = "") -> Iterator[str]:
    """A table; heads that begin with # are of numbers."""
    cells = "".join(
        f'<th class="number">{head[1:]}</th>' if head.startswith("#") else f"<th>{head}</th>" for head in heads
    )
    yield f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>'
    yield from rows
    yield f"</tbody>{foot}</table></div>"


def number(value: int, bad: bool = False) -> str:
    kind = "zero" if not value else "bad-number" if bad else ""
    return f'<td class="number"><span class="{kind}">{value or "–"}</span></td>'


def areas(report: Report) -> Iterator[str]:
    """How each area went."""
    yield "<h2>Areas</h2>"
    rows = (
        f"<tr><td>{escape(name)}</td><td>{bar(area)}</td>{number(area.passed)}{number(area.failed, True)}"
        f'{number(area.skipped)}<td class="number">{area.seconds:.1f}</td></tr>'
        for name, area in report.areas.items()
    )
    passed, failed, left = (report.count(what) for what in ("passed", "failed", "skipped"))
    seconds = sum(area.seconds for area in report.areas.values())
    foot = (
        f"<tfoot><tr><td>all</td><td></td>{number(passed)}{number(failed, True)}{number(left)}"
        f'<td class="number">{seconds:.1f}</td></tr></tfoot>'
    )
    yield from table(("area", "", "#passed", "#failed", "#skipped", "#seconds"), rows, foot)


def bar(area: Area) -> str:
    """An area's cases as a strip of colours."""
    whole = area.passed + area.failed + area.skipped
    if not whole:
        return ""
    shares = (("good", area.passed), ("bad", area.failed), ("idle", area.skipped))
    strips = "".join(
        f'<i class="{kind}" style="width: {max(100 * count / whole, 3):.1f}%"></i>' for kind, count in shares if count
    )
    return f'<div class="bar" role="img" aria-label="{area.passed} of {whole} passed">{strips}</div>'


def failures(report: Report) -> Iterator[str]:
    """What failed, each with its script; the first is open."""
    if not report.failures:
        return
    yield "<h2>Failures</h2>"
    yield '<p class="soft">Each script shows one failure alone: save it and run it with Python.</p>'
    for place, failure in enumerate(report.failures):
        opened = " open" if not place else ""
        yield (
            f'<details{opened}><summary><span class="where">{escape(failure.area)}</span><b>{escape(failure.case)}</b>'
            f'<span class="message">{escape(failure.message)}</span></summary>'
            f"<pre>{escape(failure.repro)}</pre></details>"
        )


def figures(report: Report) -> Iterator[str]:
    """How fast it is."""
    if not report.performance:
        return
    yield "<h2>Performance</h2>"
    rows = []
    for row in report.performance:
        host = "" if row["host"] is None else figure(row["host"])
        rows.append(
            f'<tr><td>{escape(row["name"])}</td><td class="number">{figure(row["value"])}</td>'
            f'<td class="number">{host}</td><td>{escape(row["unit"])}</td></tr>'
        )
    yield from table(("what", "#device", "#host", "unit"), rows)


def on_host(report: Report) -> Iterator[str]:
    """Ops that the host computed."""
    if not report.on_host:
        return
    yield "<h2>Computed on the host</h2>"
    yield (
        '<p class="soft">The device has no function for these, so they were copied to the host, computed, and copied'
        " back: right, and slow. <code>Device.implementation</code> may name one.</p>"
    )
    rows = (
        f'<tr><td><code>{escape(op)}</code></td><td class="number">{calls}</td></tr>'
        for op, calls in report.on_host.most_common()
    )
    yield from table(("op", "#calls"), rows)


def skipped(report: Report) -> Iterator[str]:
    """What was not asked, and why."""
    if not report.count("skipped"):
        return
    yield "<h2>Skipped</h2>"
    rows = (
        f"<tr><td>{escape(name)}</td><td>{escape(reason)}</td><td>{escape(', '.join(cases))}</td></tr>"
        for name, area in report.areas.items() for reason, cases in area.reasons.items()
    )
    yield from table(("area", "because", "cases"), rows)
