"""`torch.cuda.sparse`: the types of sparse tensors on a CUDA device, of which there is none."""

from ..base.refusals import names_of

globals().update(names_of("torch.cuda.sparse"))
