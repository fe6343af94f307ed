"""The course: a small torch from nothing, in 25 steps; each may use what the steps before it made."""

from ...exercise import chapter
from .arrays import ARRAYS
from .scalars import SCALARS
from .tape import TAPE
from .training import TRAINING

CHAPTER = chapter("course", "A small torch from nothing", "从零写一个小 torch", *SCALARS, *ARRAYS, *TAPE, *TRAINING)
