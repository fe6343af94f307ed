"""The files of an archive as a tree that prints itself."""

from __future__ import annotations


class Directory:
    """A folder (or, without children, a file) of an archive."""

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name, self.is_dir = name, is_dir
        self.children: dict[str, Directory] = {}

    def _add_file(self, path: str) -> None:
        *folders, file = path.split("/")
        here = self
        for folder in folders:
            here = here.children.setdefault(folder, Directory(folder, True))
        here.children[file] = Directory(file, False)

    def has_file(self, filename: str) -> bool:
        """Whether a file (`folder/name`) is in it."""
        here: Directory | None = self
        for part in filename.split("/"):
            here = here.children.get(part) if here is not None else None
        return here is not None

    def __str__(self) -> str:
        lines = [f"─── {self.name}\n"]
        self._draw("    ", lines)
        return "".join(lines)

    def _draw(self, margin: str, lines: list[str]) -> None:
        ordered = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for index, child in enumerate(ordered):
            is_last = index == len(ordered) - 1
            lines.append(f"{margin}{'└── ' if is_last else '├── '}{child.name}\n")
            child._draw(margin + ("    " if is_last else "│   "), lines)
