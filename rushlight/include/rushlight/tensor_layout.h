// The leading fields of the core's Tensor and Storage, for code outside the core that reads sizes and addresses.
// csrc/extras/tensor_face.cpp holds the core to it.
#pragma once
#include <Python.h>

#include <atomic>
#include <cstdint>

namespace rushlight {

struct StorageFields {
  std::atomic<int64_t> refs;
  char* data;
  size_t nbytes;
  uint8_t device_type, device_index;
  bool resizable, is_hollow;
};

struct TensorFields {
  PyObject head;
  StorageFields* storage;
  int64_t* geometry;        // sizes[ndim], strides[ndim]
  int64_t offset;           // in elements
  int64_t numel;
  uint32_t* version;        // null: 0; else a count of owners (8 bytes) and the version
  void* grad_fn;
  PyObject* grad;
  void* view;
  void* extra;
  PyObject* dict;
  PyObject* weakrefs;
  uint32_t output_nr;
  uint32_t keys;
  uint8_t ndim;
  uint8_t dtype;
  uint8_t device_type, device_index;
  uint8_t flags;            // 1: a leaf that requires grad, 2: contiguous

  const int64_t* sizes() const { return geometry; }
  const int64_t* strides() const { return geometry + ndim; }
};

struct DTypeFields {
  PyObject head;
  uint8_t id;
};

}  // namespace rushlight
