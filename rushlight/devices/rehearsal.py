"""Whether this thread only rehearses work for a device: what it needs is made, and nothing runs.

`Device.rehearse` sets it. Steps of plans that are calls of Python look at it: those that say so (`rehearses`) are
called then too, and must neither compute nor draw numbers.
"""

from __future__ import annotations

import threading


class Rehearsal(threading.local):
    """One per thread: others run their work meanwhile."""

    running = False


rehearsal = Rehearsal()
