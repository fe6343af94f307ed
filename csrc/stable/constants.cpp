// Numbers by which PyTorch names types, devices, layouts, memory formats and tags.
#include "stable.h"

namespace rl::stable {

struct TypeCode {
  DType dtype;
  int8_t code;
};
static constexpr TypeCode kTypeCodes[] = {
    {DType::U8, 0},        {DType::I8, 1},        {DType::I16, 2},         {DType::I32, 3},       {DType::I64, 4},
    {DType::F16, 5},       {DType::F32, 6},       {DType::F64, 7},         {DType::C32, 8},       {DType::C64, 9},
    {DType::C128, 10},     {DType::Bool, 11},     {DType::QI8, 12},        {DType::QU8, 13},      {DType::QI32, 14},
    {DType::BF16, 15},     {DType::QU4X2, 16},    {DType::QU2X4, 17},      {DType::BITS1X8, 18},  {DType::BITS2X4, 19},
    {DType::BITS4X2, 20},  {DType::BITS8, 21},    {DType::BITS16, 22},     {DType::F8E5M2, 23},   {DType::F8E4M3FN, 24},
    {DType::F8E5M2FNUZ, 25}, {DType::F8E4M3FNUZ, 26}, {DType::U16, 27},    {DType::U32, 28},      {DType::U64, 29},
    {DType::U1, 30},       {DType::U2, 31},       {DType::U3, 32},         {DType::U4, 33},       {DType::U5, 34},
    {DType::U6, 35},       {DType::U7, 36},       {DType::I1, 37},         {DType::I2, 38},       {DType::I3, 39},
    {DType::I4, 40},       {DType::I5, 41},       {DType::I6, 42},         {DType::I7, 43},       {DType::F8E8M0FNU, 44},
    {DType::F4E2M1FNX2, 45}};

bool dtype_of_code(int32_t code, DType* dtype) {
  if (code < 0 || code >= static_cast<int32_t>(sizeof(kTypeCodes) / sizeof(kTypeCodes[0]))) return false;
  *dtype = kTypeCodes[code].dtype;
  return true;
}

int32_t code_of_dtype(DType dtype) {
  for (const TypeCode& row : kTypeCodes)
    if (row.dtype == dtype) return row.code;
  return -1;
}

struct DeviceCode {
  const char* name;
  int32_t code;
};
constexpr int32_t kDeviceOfOthers = 20;
static constexpr DeviceCode kDeviceCodes[] = {{"cpu", 0},  {"cuda", 1}, {"xla", 9},   {"xpu", 12}, {"mps", 13},
                                              {"meta", 14}, {"lazy", 17}, {"hpu", 18}, {"mtia", 21}};

const char* device_name_of_code(int32_t code) {
  for (const DeviceCode& row : kDeviceCodes)
    if (row.code == code) return row.name;
  return code == kDeviceOfOthers ? "" : nullptr;
}

int32_t code_of_device_name(const char* name) {
  for (const DeviceCode& row : kDeviceCodes)
    if (!strcmp(row.name, name)) return row.code;
  return kDeviceOfOthers;
}

int32_t device_code(Device device) {
  return device.type == kCPU ? 0 : device.type == kMeta ? 14 : code_of_device_name(core.device_type_name(device.type));
}

PyObject* device_of_codes(int32_t type, int32_t index) {
  if (const char* name = device_name_of_code(type); name && *name)
    return index < 0 ? PyObject_CallFunction(as_object(DeviceType), "s", name)
                     : PyObject_CallFunction(as_object(DeviceType), "si", name, index);
  return ask("device_of_others", "(ii)", type, index).release();
}

}  // namespace rl::stable

#define NUMBER(name, number) \
  STABLE_API int32_t name() { return number; }

NUMBER(aoti_torch_device_type_cpu, 0)
NUMBER(aoti_torch_device_type_cuda, 1)
NUMBER(aoti_torch_device_type_xpu, 12)
NUMBER(aoti_torch_device_type_mps, 13)
NUMBER(aoti_torch_device_type_meta, 14)
NUMBER(aoti_torch_device_type_privateuse1, 20)

NUMBER(aoti_torch_dtype_uint8, 0)
NUMBER(aoti_torch_dtype_int8, 1)
NUMBER(aoti_torch_dtype_int16, 2)
NUMBER(aoti_torch_dtype_int32, 3)
NUMBER(aoti_torch_dtype_int64, 4)
NUMBER(aoti_torch_dtype_float16, 5)
NUMBER(aoti_torch_dtype_float32, 6)
NUMBER(aoti_torch_dtype_float64, 7)
NUMBER(aoti_torch_dtype_complex32, 8)
NUMBER(aoti_torch_dtype_complex64, 9)
NUMBER(aoti_torch_dtype_complex128, 10)
NUMBER(aoti_torch_dtype_bool, 11)
NUMBER(aoti_torch_dtype_bfloat16, 15)
NUMBER(aoti_torch_dtype_float8_e5m2, 23)
NUMBER(aoti_torch_dtype_float8_e4m3fn, 24)
NUMBER(aoti_torch_dtype_float8_e5m2fnuz, 25)
NUMBER(aoti_torch_dtype_float8_e4m3fnuz, 26)
NUMBER(aoti_torch_dtype_uint16, 27)
NUMBER(aoti_torch_dtype_uint32, 28)
NUMBER(aoti_torch_dtype_uint64, 29)
NUMBER(aoti_torch_dtype_float8_e8m0fnu, 44)
NUMBER(aoti_torch_dtype_float4_e2m1fn_x2, 45)
NUMBER(torch_dtype_float8_e8m0fnu, 44)
NUMBER(torch_dtype_float4_e2m1fn_x2, 45)

STABLE_API size_t aoti_torch_dtype_element_size(int32_t code) {
  rl::DType dtype;
  return rl::stable::dtype_of_code(code, &dtype) ? static_cast<size_t>(rl::itemsize(dtype)) : 0;
}

NUMBER(aoti_torch_layout_strided, 0)
NUMBER(aoti_torch_layout_sparse_coo, 1)
NUMBER(aoti_torch_layout_sparse_csr, 2)
NUMBER(aoti_torch_layout__mkldnn, 3)
NUMBER(aoti_torch_layout_sparse_csc, 4)
NUMBER(aoti_torch_layout_sparse_bsr, 5)
NUMBER(aoti_torch_layout_sparse_bsc, 6)
NUMBER(aoti_torch_layout_jagged, 7)

NUMBER(aoti_torch_memory_format_contiguous_format, 0)
NUMBER(aoti_torch_memory_format_preserve_format, 1)
NUMBER(aoti_torch_memory_format_channels_last, 2)
NUMBER(aoti_torch_memory_format_channels_last_3d, 3)

// Those of rushlight.Tag (aten/tags.py).
NUMBER(torch_tag_core, 0)
NUMBER(torch_tag_cudagraph_unsafe, 1)
NUMBER(torch_tag_data_dependent_output, 2)
NUMBER(torch_tag_dynamic_output_shape, 3)
NUMBER(torch_tag_flexible_layout, 4)
NUMBER(torch_tag_generated, 5)
NUMBER(torch_tag_inplace_view, 7)
NUMBER(torch_tag_maybe_aliasing_or_mutating, 8)
NUMBER(torch_tag_needs_contiguous_strides, 9)
NUMBER(torch_tag_needs_exact_strides, 10)
NUMBER(torch_tag_needs_fixed_stride_order, 11)
NUMBER(torch_tag_nondeterministic_bitwise, 12)
NUMBER(torch_tag_nondeterministic_seeded, 13)
NUMBER(torch_tag_out_variant, 15)
NUMBER(torch_tag_pointwise, 16)
NUMBER(torch_tag_pt2_compliant_tag, 17)
NUMBER(torch_tag_reduction, 18)
NUMBER(torch_tag_view_copy, 19)

// Major, minor and patch level of the PyTorch whose functions these are, in the three highest bytes.
STABLE_API uint64_t aoti_torch_abi_version() { return (2ull << 56) | (13ull << 48); }
