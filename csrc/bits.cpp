// Tensors whose elements are not what their memory holds: conjugates and negatives of it (kKeyBits), which `conj()` and
// the like make without copying. Ops that read through the bits (views, loops over elements, bodies written with ops)
// take such tensors as they are; the others get the elements that are shown, in memory of their own, and what they
// write in place goes back through the bits. Everything here holds the interpreter lock.
#include <memory>

#include "call.h"
#include "geometry.h"
#include "roles.h"
#include "scan.h"

namespace rl {

// Copying is a loop over elements, so it reads and writes through bits.
PyObject* resolved(PyObject* tensor) {
  if (!(as_tensor(tensor)->keys & kKeyBits)) return Py_NewRef(tensor);
  Ref plain(as_object(tensor_shallow_copy(as_tensor(tensor), true)));
  if (!plain) return nullptr;
  GradModeGuard no_grad(false);
  return call_role(Role::Copy, plain.p);
}

// The memory from the first element to the last is copied whole: elements may lie in it more than once.
PyObject* resolved_alike(PyObject* tensor) {
  Tensor* t = as_tensor(tensor);
  int64_t span = span_elements(t->sizes(), t->strides(), t->ndim), step = 1;
  Ref flat(as_object(tensor_alias(t, &span, &step, 1, t->offset, t->dtype)));
  Ref copy(flat ? resolved(flat.p) : nullptr);
  return copy ? as_object(tensor_alias(as_tensor(copy.p), t->sizes(), t->strides(), t->ndim, 0, t->dtype)) : nullptr;
}

static bool has_bits(PyObject* o) { return is_tensor(o) && (as_tensor(o)->keys & kKeyBits); }

// The argument with the elements that are shown (new reference): a tensor, or a list in which some are.
static PyObject* resolved_argument(PyObject* o) {
  if (is_tensor(o)) return resolved(o);
  if (!PyTuple_Check(o) && !PyList_Check(o)) return Py_NewRef(o);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  bool any = false;
  for (Py_ssize_t i = 0; i < n; i++) any |= has_bits(PySequence_Fast_ITEMS(o)[i]);
  if (!any) return Py_NewRef(o);
  Ref tuple(PyTuple_New(n));
  for (Py_ssize_t i = 0; tuple && i < n; i++) {
    PyObject* item = PySequence_Fast_ITEMS(o)[i];
    item = is_tensor(item) ? resolved(item) : Py_NewRef(item);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(tuple.p, i, item);
  }
  return tuple.release();
}

// `target` with the elements of `value`. Its version is the caller's to count.
static bool write_back(PyObject* target, PyObject* value) {
  Ref same(as_object(tensor_shallow_copy(as_tensor(target), false)));
  if (!same) return false;
  GradModeGuard no_grad(false);
  return static_cast<bool>(Ref(call_role(Role::CopyInto, same.p, value)));
}

PyObject* run_through_bits(Overload* op, PyObject** args) {
  if (op->sees_bits) return overload_run(op, args);
  size_t n = op->params->size();
  auto held = std::make_unique<Ref[]>(n);
  auto given = std::make_unique<PyObject*[]>(n);
  for (size_t i = 0; i < n; i++) {
    held[i] = Ref(resolved_argument(args[i]));
    if (!(given[i] = held[i].p)) return nullptr;
  }
  Ref result(overload_run(op, given.get()));
  for (size_t i = 0; result && i < n; i++) {
    if (given[i] == args[i] || !is_tensor(args[i])) continue;
    bool is_own = op->inplace && i == 0;   // whose writes the caller counts
    bool is_written = is_own || as_tensor(given[i])->current_version();
    if (is_written && !write_back(args[i], given[i])) return nullptr;
    if (is_written && !is_own && !(as_tensor(args[i])->flags & kInference)) tensor_bump(as_tensor(args[i]));
    if (result.p == given[i]) result = Ref::borrow(args[i]);
  }
  return result.release();
}

}  // namespace rl
