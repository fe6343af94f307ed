"""The book and its site: draw the pictures, check the form, build the pages.

Enters: docs/, this package. Leaves: pictures beside the pages; what is wrong with pages; a site that opens from disk.

    python tools/book.py pictures [NN_slug ...]     draw again (--check: compare only)
    python tools/book.py form                       what is wrong with the pages, exit 1 if anything is
    python tools/book.py build FOLDER               FOLDER/VERSION, and FOLDER/index.html that leads there
    python tools/blocks.py docs/book/en/*.md -v     run the pages
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))     # this tree's package, installed or not

from page_form import BOOK, faults  # noqa: E402
from page_pictures import redraw, with_pictures  # noqa: E402


def pictures(chapters: list[str], check: bool) -> int:
    """Draw, or say which pictures are no longer what the tree draws."""
    stale = []
    for chapter in chapters or with_pictures():
        for path, svg in redraw(chapter).items():
            target = BOOK / path
            if target.is_file() and target.read_text(encoding="utf-8") == svg:
                continue
            stale.append(path)
            if not check:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(svg, encoding="utf-8")
    for path in stale:
        print(f"{'differs' if check else 'drawn'}: {path}")
    return 1 if stale and check else 0


def main(arguments: list[str] | None = None) -> int:
    reader = argparse.ArgumentParser(description="The book and its site.")
    commands = reader.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("pictures", help="draw the pictures of chapters again")
    drawing.add_argument("chapters", nargs="*")
    drawing.add_argument("--check", action="store_true", help="change nothing, exit 1 if a picture would change")
    commands.add_parser("form", help="say what is wrong with the pages")
    building = commands.add_parser("build", help="build the site")
    building.add_argument("folder", type=Path)
    building.add_argument("--no-output", action="store_true", help="do not run the pages to show what they print")
    asked = reader.parse_args(arguments)
    if asked.command == "pictures":
        return pictures(asked.chapters, asked.check)
    if asked.command == "form":
        found = faults()
        print("\n".join(found) or "nothing is wrong")
        return 1 if found else 0
    from book_site import build

    return build(asked.folder, outputs=not asked.no_output)


if __name__ == "__main__":
    sys.exit(main())
