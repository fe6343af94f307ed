// What Python sees of the core's objects: attributes added to its types, and functions of the module.
#pragma once
#include "tape.h"

namespace rl {

// The Python face of a storage: rushlight.UntypedStorage.
struct StorageObject {
  PyObject_HEAD
  Storage* storage;
  PyObject* weakrefs;
  PyObject* extent;   // what nbytes() answers, where that is a formula (a fake tensor's storage); null elsewhere
  bool is_watching;   // it does not mind if a gradient keeps the memory
};
extern PyTypeObject* StorageType;
PyObject* storage_object(Storage* s);   // new reference; retains s

int init_number_face(PyObject* module);
int init_storage_face(PyObject* module);
int init_tensor_face(PyObject* module);
int init_tensor_functions(PyObject* module);
int init_tape_face(PyObject* module);      // TensorMeta, thread modes, the engine's entry point
int init_node_face(PyObject* module);      // attributes of nodes
int init_tape_tensor(PyObject* module);    // autograd attributes of tensors
int init_index_face(PyObject* module);     // indexing with tensors, assignment
int init_op_face(PyObject* module);        // Overload, Op, dispatch keys of the thread
int init_plan_face(PyObject* module);      // Plan, PointwisePlan
int init_profile_stack(PyObject* module);  // frames in recordings
int init_profile_face(PyObject* module);   // recordings; `module` is rushlight._extras itself
int init_trace_face(PyObject* module);     // lines of traces; the same

// A TensorMeta; of contiguous memory where no strides are given.
PyObject* new_meta(const int64_t* sizes, int ndim, DType dtype, Device device, const int64_t* strides = nullptr);
// Gives a node that Python is about to see its type and next functions: Note [dressing]. False with an exception.
bool dress_node(Node* n);
PyObject* edge_object(Node* node, uint32_t nr);   // (node or None, nr)

// False with a RuntimeError set where PyTorch refuses (float8, wide unsigned integers with others).
bool promote_dtypes(DType a, DType b, DType* out);

}  // namespace rl
