"""torch_xla.core: the functions that training loops call (`xla_model`)."""

from ...base import late

__getattr__, __dir__ = late.names(globals(), {}, files=("xla_model",))
