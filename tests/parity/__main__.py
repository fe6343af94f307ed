"""`python -m tests.parity`: see tests/parity/report.py."""

from tests.parity.report import main

if __name__ == "__main__":
    raise SystemExit(main())
