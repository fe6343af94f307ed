// What the core asks of the second module (csrc/extras), which fills it in when it is loaded: before any op is called.
#pragma once
#include "index.h"
#include "tape.h"

namespace rl {

struct SecondModule {
  bool (*region_apply)(Node* n, PyObject** grads, PyObject** out);   // gradients of a compiled region; as node_apply
  int (*meta_words)(PyObject* o, uint64_t* words);                   // all that a TensorMeta says; 0: it is none
  PyObject* (*tensor_meta)(Tensor* t);                               // a TensorMeta: shape and type, without data
  Tensor* (*tensor_from_data)(PyObject* data, const DType* dtype, Device device);
  Tensor* (*tensor_from_buffer)(PyObject* object);
  PyObject* (*index_tensors)(const Parsed& p, Tensor* t, PyObject* index);   // an index with tensors in it
  objobjargproc assign_index;                                        // Tensor.__setitem__
  PyObject* (*node_name)(Node* n);                                   // as PyTorch has it
  reprfunc node_repr;                                                // what Python sees of a node
  getattrofunc node_getattro;
  ternaryfunc node_call;
  void (*watch_thread)();                                            // a thread takes part in a recording from now on
};
extern SecondModule second;

}  // namespace rl
