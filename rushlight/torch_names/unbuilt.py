"""Top-level names of systems that are not built yet: they can be imported and annotated with, and refuse when used.

Enters: a name. Leaves: a stand-in from the table (`refusals`). Exceptions are real, since programs catch them.
"""

from __future__ import annotations

from ..base.refusals import names_of

_refused = names_of("torch")
globals().update(_refused)


class FatalError(RuntimeError):
    """What an extension raises when it cannot go on."""


class JITException(RuntimeError):
    """What a compiled TorchScript program raises."""


NAMES = (*_refused, "FatalError", "JITException")
