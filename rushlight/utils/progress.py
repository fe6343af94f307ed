"""One display of progress for everything that takes long.

Enters: anything to iterate, what it is called, and what to tell at times. Leaves: the same items, and meanwhile on
standard error a bar by rich or tqdm where one is installed and a terminal is there to see it; elsewhere plain lines, at
the beginning, at each tenth and at the end. Refuses nothing: a display that fails to draw is no reason to stop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], title: str = "", total: int | None = None, tell: Callable[[], str] | None = None,
             file: TextIO | None = None) -> Iterator[T]:
    """The items, one after the other, while how far it is gets shown.

    Arguments:
        items: what is gone through
        title: what it is called
        total: how many there are; None asks `len(items)`, if it has one
        tell: gives a few words to show beside, such as the loss
        file: where to write; None for standard error

    Example:
        >>> sum(rl.utils.progress.progress([1, 2, 3], "adding"))
        6
    """
    out = sys.stderr if file is None else file
    count = len(items) if total is None and isinstance(items, Sized) else total
    draw = _drawn(title, count, tell, out) if getattr(out, "isatty", lambda: False)() else None
    return (draw or _plain(title, count, tell, out))(items)


def _drawn(title: str, total: int | None, tell: Callable[[], str] | None, out: TextIO) -> Callable | None:
    """A bar of rich or of tqdm; None where neither is installed."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        return _tqdm(title, total, tell, out)

    def go(items: Iterable[Any]) -> Iterator[Any]:
        with Progress(console=Console(file=out), transient=False) as bar:
            task = bar.add_task(title, total=total)
            for item in items:
                yield item
                bar.update(task, advance=1, description=f"{title} {tell()}" if tell else title)

    return go


def _tqdm(title: str, total: int | None, tell: Callable[[], str] | None, out: TextIO) -> Callable | None:
    try:
        from tqdm import tqdm
    except ImportError:
        return None

    def go(items: Iterable[Any]) -> Iterator[Any]:
        with tqdm(total=total, desc=title, file=out) as bar:
            for item in items:
                yield item
                if tell:
                    bar.set_postfix_str(tell(), refresh=False)
                bar.update()

    return go


def _plain(title: str, total: int | None, tell: Callable[[], str] | None, out: TextIO) -> Callable:
    """A line at each tenth; without a total, one every five seconds."""

    def say(done: int, since: float) -> None:
        far = f"{done} of {total}" if total is not None else str(done)
        words = [f"{title}:" if title else "", far, tell() if tell else "", f"({time.monotonic() - since:.1f} s)"]
        print(" ".join(filter(None, words)), file=out, flush=True)

    def go(items: Iterable[Any]) -> Iterator[Any]:
        since = last = time.monotonic()
        tenth, done = max(1, (total or 0) // 10), 0
        for done, item in enumerate(items, 1):
            yield item
            if done % tenth == 0 if total else time.monotonic() - last > 5:
                last = time.monotonic()
                say(done, since)
        if not total or done % tenth:
            say(done, since)

    return go
