"""`torch.ao.nn`: layers on the way from floats to integers, imported when first asked for.

`intrinsic` holds pairs of layers that run as one, `qat` layers that train with rounded weights, `quantizable` layers
rewritten so that they can be observed, `quantized` layers of integers, `sparse` those whose weights are mostly zero.
"""

from ...base import late

_FILES = ("intrinsic", "qat", "quantizable", "quantized", "sparse")

__all__ = list(_FILES)
__getattr__, __dir__ = late.names(globals(), {}, _FILES)
