// The C functions of the stable ABI, which Rushlight and PyTorch both have. They give 0, or 1 and say why in
// torch_exception_get_what. TORCH_TARGET_VERSION names the earliest PyTorch that a library is to load into.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <torch/headeronly/version.h>

#ifdef TORCH_TARGET_VERSION
#define TORCH_FEATURE_VERSION TORCH_TARGET_VERSION
#else
#define TORCH_FEATURE_VERSION TORCH_ABI_VERSION
#endif
#define RUSHLIGHT_VERSION_OF(major, minor) (((0ULL + (major)) << 56) | ((0ULL + (minor)) << 48))
#define TORCH_VERSION_2_10_0 RUSHLIGHT_VERSION_OF(2, 10)
#define TORCH_VERSION_2_11_0 RUSHLIGHT_VERSION_OF(2, 11)
#define TORCH_VERSION_2_12_0 RUSHLIGHT_VERSION_OF(2, 12)
#define TORCH_VERSION_2_13_0 RUSHLIGHT_VERSION_OF(2, 13)
#define TORCH_SUCCESS 0
#define TORCH_FAILURE 1
#define AOTI_TORCH_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t StableIValue;                       // a number, or the address of a handle
typedef int32_t AOTITorchError;
typedef void (*ParallelFunc)(int64_t begin, int64_t end, void* context);
typedef void (*StableKernel)(StableIValue* stack, uint64_t arguments, uint64_t results);
#define RUSHLIGHT_HANDLE(opaque, handle) \
  struct opaque;                         \
  typedef struct opaque* handle;
RUSHLIGHT_HANDLE(AtenTensorOpaque, AtenTensorHandle)
RUSHLIGHT_HANDLE(AtenGeneratorOpaque, AtenGeneratorHandle)
RUSHLIGHT_HANDLE(TorchLibraryOpaque, TorchLibraryHandle)
RUSHLIGHT_HANDLE(StableListOpaque, StableListHandle)
RUSHLIGHT_HANDLE(StringOpaque, StringHandle)
RUSHLIGHT_HANDLE(DeviceGuardOpaque, DeviceGuardHandle)
RUSHLIGHT_HANDLE(StreamOpaque, StreamHandle)
RUSHLIGHT_HANDLE(CUDAGuardOpaque, CUDAGuardHandle)
RUSHLIGHT_HANDLE(CUDAStreamGuardOpaque, CUDAStreamGuardHandle)
#undef RUSHLIGHT_HANDLE

uint64_t aoti_torch_abi_version(void);
const char* torch_exception_get_what(void);                            // of this thread's last failure
const char* torch_exception_get_what_without_backtrace(void);

// --- numbers of types, asked for so that they may differ --------------------------------------------------------------

#define RUSHLIGHT_DEVICE_TYPES(X) \
  X(CPU, aoti_torch_device_type_cpu) X(CUDA, aoti_torch_device_type_cuda) X(Meta, aoti_torch_device_type_meta) \
  X(XPU, aoti_torch_device_type_xpu) X(MPS, aoti_torch_device_type_mps) X(PrivateUse1, aoti_torch_device_type_privateuse1)
#define RUSHLIGHT_DTYPES(X) \
  X(Float, aoti_torch_dtype_float32) X(Double, aoti_torch_dtype_float64) X(Half, aoti_torch_dtype_float16) \
  X(BFloat16, aoti_torch_dtype_bfloat16) X(Long, aoti_torch_dtype_int64) X(Int, aoti_torch_dtype_int32) \
  X(Bool, aoti_torch_dtype_bool) X(Byte, aoti_torch_dtype_uint8) X(Char, aoti_torch_dtype_int8) \
  X(Short, aoti_torch_dtype_int16) X(ComplexHalf, aoti_torch_dtype_complex32) X(ComplexFloat, aoti_torch_dtype_complex64) \
  X(ComplexDouble, aoti_torch_dtype_complex128) X(UInt16, aoti_torch_dtype_uint16) X(UInt32, aoti_torch_dtype_uint32) \
  X(UInt64, aoti_torch_dtype_uint64) X(Float8_e5m2, aoti_torch_dtype_float8_e5m2) \
  X(Float8_e4m3fn, aoti_torch_dtype_float8_e4m3fn) X(Float8_e5m2fnuz, aoti_torch_dtype_float8_e5m2fnuz) \
  X(Float8_e4m3fnuz, aoti_torch_dtype_float8_e4m3fnuz)
#define RUSHLIGHT_LATER_DTYPES(X) \
  X(Float8_e8m0fnu, torch_dtype_float8_e8m0fnu) X(Float4_e2m1fn_x2, torch_dtype_float4_e2m1fn_x2)
#define RUSHLIGHT_LAYOUTS(X) \
  X(Strided, aoti_torch_layout_strided) X(Sparse, aoti_torch_layout_sparse_coo) X(SparseCsr, aoti_torch_layout_sparse_csr) \
  X(SparseCsc, aoti_torch_layout_sparse_csc) X(SparseBsr, aoti_torch_layout_sparse_bsr) \
  X(SparseBsc, aoti_torch_layout_sparse_bsc) X(Mkldnn, aoti_torch_layout__mkldnn) X(Jagged, aoti_torch_layout_jagged)
#define RUSHLIGHT_FORMATS(X) \
  X(Contiguous, aoti_torch_memory_format_contiguous_format) X(Preserve, aoti_torch_memory_format_preserve_format) \
  X(ChannelsLast, aoti_torch_memory_format_channels_last) X(ChannelsLast3d, aoti_torch_memory_format_channels_last_3d)
#define RUSHLIGHT_TAGS(X) \
  X(core, torch_tag_core) X(cudagraph_unsafe, torch_tag_cudagraph_unsafe) X(data_dependent_output, torch_tag_data_dependent_output) \
  X(dynamic_output_shape, torch_tag_dynamic_output_shape) X(flexible_layout, torch_tag_flexible_layout) \
  X(generated, torch_tag_generated) X(inplace_view, torch_tag_inplace_view) \
  X(maybe_aliasing_or_mutating, torch_tag_maybe_aliasing_or_mutating) \
  X(needs_contiguous_strides, torch_tag_needs_contiguous_strides) X(needs_exact_strides, torch_tag_needs_exact_strides) \
  X(needs_fixed_stride_order, torch_tag_needs_fixed_stride_order) X(nondeterministic_bitwise, torch_tag_nondeterministic_bitwise) \
  X(nondeterministic_seeded, torch_tag_nondeterministic_seeded) X(out_variant, torch_tag_out_variant) \
  X(pointwise, torch_tag_pointwise) X(pt2_compliant_tag, torch_tag_pt2_compliant_tag) X(reduction, torch_tag_reduction) \
  X(view_copy, torch_tag_view_copy)
#define X(value, function) int32_t function(void);
RUSHLIGHT_DEVICE_TYPES(X)
RUSHLIGHT_DTYPES(X)
RUSHLIGHT_LATER_DTYPES(X)
RUSHLIGHT_LAYOUTS(X)
RUSHLIGHT_FORMATS(X)
RUSHLIGHT_TAGS(X)
#undef X
size_t aoti_torch_dtype_element_size(int32_t dtype);

// --- handles: what gives one gives an owner ---------------------------------------------------------------------------

AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle of, AtenTensorHandle* made);
AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle* made);
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError torch_new_generator_handle(AtenGeneratorHandle of, AtenGeneratorHandle* made);
AOTITorchError torch_delete_generator(AtenGeneratorHandle generator);
AOTITorchError torch_generator_get_device(AtenGeneratorHandle generator, int32_t* type, int32_t* index);
AOTITorchError torch_new_stable_ivalue(StableIValue** made);
AOTITorchError torch_delete_stable_ivalue(StableIValue* value);
AOTITorchError torch_new_list_reserve_size(size_t size, StableListHandle* made);
AOTITorchError torch_list_size(StableListHandle list, size_t* size);
AOTITorchError torch_list_get_item(StableListHandle list, size_t index, StableIValue* item);
AOTITorchError torch_list_set_item(StableListHandle list, size_t index, StableIValue item);
AOTITorchError torch_list_push_back(StableListHandle list, StableIValue item);
AOTITorchError torch_delete_list(StableListHandle list);
AOTITorchError torch_new_string_handle(const char* text, size_t size, StringHandle* made);
AOTITorchError torch_string_length(StringHandle string, size_t* size);
AOTITorchError torch_string_c_str(StringHandle string, const char** text);
AOTITorchError torch_delete_string(StringHandle string);

// --- tensors ----------------------------------------------------------------------------------------------------------

AOTITorchError aoti_torch_is_defined(AtenTensorHandle tensor, bool* defined);
AOTITorchError aoti_torch_is_contiguous(AtenTensorHandle tensor, bool* contiguous);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* dim);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* numel);
AOTITorchError aoti_torch_get_size(AtenTensorHandle tensor, int64_t dim, int64_t* size);
AOTITorchError aoti_torch_get_stride(AtenTensorHandle tensor, int64_t dim, int64_t* stride);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** sizes);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** strides);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle tensor, int64_t* offset);
AOTITorchError aoti_torch_get_storage_size(AtenTensorHandle tensor, int64_t* bytes);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* dtype);
AOTITorchError aoti_torch_get_layout(AtenTensorHandle tensor, int32_t* layout);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* type);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle tensor, int32_t* index);
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** data);
AOTITorchError torch_get_mutable_data_ptr(AtenTensorHandle tensor, void** data);
AOTITorchError torch_get_const_data_ptr(AtenTensorHandle tensor, const void** data);
AOTITorchError torch_set_requires_grad(AtenTensorHandle tensor, bool requires_grad);
AOTITorchError aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* made);
AOTITorchError aoti_torch_create_tensor_from_blob(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* made);
AOTITorchError torch_from_blob(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* made, int32_t layout, const uint8_t* metadata, int64_t metadata_size, void (*deleter)(void* data, void* context), void* context);
AOTITorchError aoti_torch_clone(AtenTensorHandle self, AtenTensorHandle* made);
AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle from, int32_t non_blocking);
AOTITorchError aoti_torch_zero_(AtenTensorHandle self);
AOTITorchError aoti_torch_aten_fill__Scalar(AtenTensorHandle self, double value);
AOTITorchError aoti_torch_aten_amax(AtenTensorHandle self, const int64_t* dims, int64_t count, int32_t keepdim, AtenTensorHandle* made);
AOTITorchError aoti_torch_aten_narrow(AtenTensorHandle self, int64_t dim, int64_t start, int64_t length, AtenTensorHandle* made);
AOTITorchError aoti_torch_aten_subtract_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* made);
AOTITorchError aoti_torch_aten_full(const int64_t* sizes, int64_t count, double value, int32_t* dtype, int32_t* layout, int32_t* device_type, int32_t device_index, int32_t* pin_memory, AtenTensorHandle* made);
AOTITorchError aoti_torch_aten_pad(AtenTensorHandle self, const int64_t* pad, int64_t count, const char* mode, double* value, AtenTensorHandle* made);

// --- ops --------------------------------------------------------------------------------------------------------------

AOTITorchError aoti_torch_library_init_def(const char* space, const char* file, uint32_t line, TorchLibraryHandle* made);
AOTITorchError aoti_torch_library_init_impl(const char* space, const char* key, const char* file, uint32_t line, TorchLibraryHandle* made);
AOTITorchError aoti_torch_library_init_fragment(const char* space, const char* file, uint32_t line, TorchLibraryHandle* made);
AOTITorchError aoti_torch_library_def(TorchLibraryHandle library, const char* schema);
AOTITorchError aoti_torch_library_impl(TorchLibraryHandle library, const char* name, StableKernel kernel);
AOTITorchError torch_library_impl(TorchLibraryHandle library, const char* name, StableKernel kernel, uint64_t version);
AOTITorchError torch_library_def_with_tags(TorchLibraryHandle library, const char* schema, const int32_t* tags, int32_t count);
AOTITorchError torch_library_set_python_module(TorchLibraryHandle library, const char* module, const char* context);
AOTITorchError aoti_torch_delete_library_object(TorchLibraryHandle library);
AOTITorchError aoti_torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack);
AOTITorchError torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack, uint64_t version);

// --- what is around them ----------------------------------------------------------------------------------------------

AOTITorchError torch_parse_device_string(const char* text, uint32_t* type, int32_t* index);
AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t grain, ParallelFunc function, void* context);
AOTITorchError torch_get_thread_idx(uint32_t* index);
AOTITorchError torch_get_num_threads(uint32_t* count);
bool aoti_torch_grad_mode_is_enabled(void);
void aoti_torch_grad_mode_set_enabled(bool enabled);
void aoti_torch_warn(const char* function, const char* file, uint32_t line, const char* text);
AOTITorchError aoti_torch_get_current_device_index(int32_t* index);
AOTITorchError aoti_torch_create_device_guard(int32_t index, DeviceGuardHandle* made);
AOTITorchError aoti_torch_delete_device_guard(DeviceGuardHandle guard);
AOTITorchError aoti_torch_device_guard_set_index(DeviceGuardHandle guard, int32_t index);
AOTITorchError aoti_torch_get_current_stream(int32_t index, StreamHandle* made);
AOTITorchError aoti_torch_stream_id(StreamHandle stream, int64_t* id);
AOTITorchError torch_stream_native_handle(StreamHandle stream, void** native);
AOTITorchError aoti_torch_delete_stream(StreamHandle stream);
AOTITorchError aoti_torch_create_cuda_guard(int32_t index, CUDAGuardHandle* made);
AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardHandle guard);
AOTITorchError aoti_torch_cuda_guard_set_index(CUDAGuardHandle guard, int32_t index);
AOTITorchError aoti_torch_create_cuda_stream_guard(void* stream, int32_t index, CUDAStreamGuardHandle* made);
AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle guard);
AOTITorchError aoti_torch_get_current_cuda_stream(int32_t index, void** stream);
AOTITorchError torch_set_current_cuda_stream(void* stream, int32_t index);
AOTITorchError torch_get_cuda_stream_from_pool(bool high_priority, int32_t index, void** stream);
AOTITorchError torch_cuda_stream_synchronize(void* stream, int32_t index);
AOTITorchError torch_get_current_cuda_blas_handle(void** handle);
AOTITorchError torch_c10_cuda_check_msg(int32_t error, const char* file, const char* function, uint32_t line, bool with_assertions, char** message);
void torch_c10_cuda_free_error_msg(char* message);

#ifdef __cplusplus
}
#endif
