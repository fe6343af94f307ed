"""Options of PyTorch's inductor that say how code for other machines, or by other compilers, is made.

Programs may set them; they have no effect here, which is said once. The names are in the text beside this module.
"""

from ..base.tables import rows

WITHOUT_EFFECT = frozenset(rows(__file__))
