"""Steps of map-style datapipes, by PyTorch's names."""

from .steps import (
    BatcherMapDataPipe as Batcher,
    ConcaterMapDataPipe as Concater,
    MapperMapDataPipe as Mapper,
    SequenceWrapperMapDataPipe as SequenceWrapper,
    ShufflerIterDataPipe as Shuffler,
    ZipperMapDataPipe as Zipper,
)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
