"""What handlers written for TorchServe import as `ts`: contexts, base classes, readers of labels.

Enters: imports of handlers, in workers alone. Leaves: classes of our own under the names that handlers know. Refuses:
nothing of its own; parts of TorchServe that no handler needs are not here.
"""

__version__ = "0.12.0"
