"""The least use of `Timer`: one statement, by `timeit` and by `blocked_autorange`."""

from __future__ import annotations

from ....base import late
from ..timing import Timer


def main() -> None:
    """Time a broadcast addition three times."""
    package = late.provided("package")
    timer = Timer(
        "x + y", globals={"x": package.ones((4, 8)), "y": package.ones((1, 8))}, label="Broadcasting add (4x8)"
    )
    for run in range(3):
        print(f"Run: {run}\n{'-' * 40}\ntimeit:\n{timer.timeit(10000)}\n")
        print(f"autorange:\n{timer.blocked_autorange()}\n\n")


if __name__ == "__main__":
    main()
