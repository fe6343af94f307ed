"""`torch._utils`: the functions that pickles of tensors name, and what libraries ask; their definitions stand in
`tensors.pickling`, `tensors.flat_lists` and `torch_names.questions`."""

from .base.errors import ExceptionWrapper, KeyErrorMessage
from .tensors.flat_lists import (
    _flatten_dense_tensors,
    _reorder_tensors_as,
    _take_tensors,
    _unflatten_dense_tensors,
)
from .tensors.pickling import (
    _get_obj_state,
    _rebuild_device_tensor_from_cpu_tensor,
    _rebuild_device_tensor_from_numpy,
    _rebuild_meta_tensor_no_storage,
    _rebuild_nested_tensor,
    _rebuild_njt,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_qtensor,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
    _rebuild_xla_tensor,
    _set_obj_state,
    _validate_loaded_sparse_tensors,
)
from .torch_names.questions import (
    _element_size,
    _get_all_device_indices,
    _get_available_device_type,
    _get_device_index,
    _import_dotted_name,
    classproperty,
    is_compiling,
)

__all__ = [
    "ExceptionWrapper", "KeyErrorMessage", "_element_size", "_flatten_dense_tensors", "_get_all_device_indices",
    "_get_available_device_type", "_get_device_index", "_get_obj_state", "_import_dotted_name",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_meta_tensor_no_storage",
    "_rebuild_nested_tensor", "_rebuild_njt", "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_qtensor",
    "_rebuild_sparse_tensor", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3",
    "_rebuild_wrapper_subclass", "_rebuild_xla_tensor", "_reorder_tensors_as", "_set_obj_state", "_take_tensors",
    "_unflatten_dense_tensors", "_validate_loaded_sparse_tensors", "classproperty", "is_compiling",
]
