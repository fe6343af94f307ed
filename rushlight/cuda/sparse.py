"""`torch.cuda.sparse`: the types of sparse tensors on a CUDA device, of which there is none."""

from ..absent import absent_names

globals().update(absent_names("torch.cuda.sparse", "there is no CUDA device support yet", (
    "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor"
)))
