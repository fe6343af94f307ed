"""The folder of a report: whether it can be written to, asked before the program runs.

Enters: a path. Leaves: a folder that takes files. Refuses: with OSError, what is no folder or takes none.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def usable(folder: Path) -> None:
    """Makes the folder; OSError where files cannot be made in it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".rushlight", dir=folder)
    os.close(handle)
    os.unlink(name)
