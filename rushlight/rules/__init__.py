"""Rules: what follows for every op from its kind: batches, tangents, and results written where the caller says.

Enters: a definition of `op` and a call of it under a transform. Leaves: calls of ops one level further down. Refuses
what a kind does not tell; such ops bring a rule of their own.
"""

from ..base import late

__getattr__, __dir__ = late.names(globals(), {}, files=("batching",))      # few programs vectorize
