// Tensor.__getitem__: the index is parsed once and basic parts become one view; index tensors, and assignment, go on in
// the second module (extras/index_face.cpp). Everything here holds the interpreter lock.
#pragma once
#include "tensor.h"

namespace rl {

// Whether an index, or a value to assign, is or holds an object with __torch_function__ that is no tensor.
bool takes_functions(PyObject* o);

// The ops that record a view made here, by the last step PyTorch would have taken; asked of Python when first needed.
enum ViewStep { kAlias, kSelect, kSlice, kUnsqueeze, kNumSteps };

struct Parsed {
  int64_t sizes[kMaxDims], strides[kMaxDims], offset;
  int ndim = 0;
  int source = 0;               // next dim of the input
  int slot = 0;                 // next position in `indices`
  bool basic = false;           // the geometry differs from the input's, or may
  bool plain = true;            // the index is made of immutable parts, so the tape may keep it
  ViewStep last = kAlias;
  Ref indices;                  // list of index tensors and None, or null while there is none
};

inline bool is_mask(DType d) { return d == DType::Bool || d == DType::U8; }
inline bool leaves_index_path(const Tensor* t) {   // indexing is never cast
  const ThreadState& now = thread_state();
  return (t->keys | now.keys) & ~now.excluded & ~kKeyAutocast;
}

bool parse_index(Parsed& p, const Tensor* t, PyObject* index);
Ref index_view(const Parsed& p, Tensor* t, PyObject* index);   // the basic part, on the tape
Ref frozen_index(PyObject* index);
Ref index_tensor(PyObject* sequence, Device device);
bool is_tuple_like(PyObject* index);

PyObject* tensor_subscript(PyObject* self, PyObject* index);
int tensor_ass_subscript(PyObject* self, PyObject* index, PyObject* value);

int init_index(PyObject* module);

}  // namespace rl
