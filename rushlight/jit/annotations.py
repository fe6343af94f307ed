"""Annotations that scripted code imports from here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035 - PyTorch has these names here

from .._jit_internal import (  # noqa: F401
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    Future,
    is_dict,
    is_list,
    is_optional,
    is_tuple,
    is_union,
)
