// Op objects: bind arguments by the op's own signature, test one mask, look up a plan, replay it, record a node.
// Everything here holds the interpreter lock; launches let go of it where a kernel is long (launch.cpp, plan.cpp).
#pragma once
#include <string>
#include <vector>

#include "plan.h"

namespace rl {

enum class ParamType : uint8_t {
  Tensor, OptTensor, TensorList, TensorOrScalar, Scalar, OptScalar, Int, OptInt, IntList, OptIntList,
  Float, OptFloat, Bool, OptBool, Str, OptStr, DType, Device, Any, OptTensorOrScalar, OptTensorList
};

// What backward keeps of a parameter.
enum class Save : uint8_t { No, Data, Meta, Value, FreedMeta };

struct Param {
  PyObject* name;
  ParamType type;
  bool keyword_only;
  bool varargs;                      // int[] that may be given as separate positionals
  PyObject* fallback;                // default value, or null when required
  Save save;
  bool varies;                       // an integer, or list of them, that plans do not depend on: a size, a position
};

// Mixed precision: an op is not known yet, runs as it is, is only its body (whose ops are asked), or has its arguments
// cast.
enum class Autocast : uint8_t { Unknown, Ignored, Body, Cast };

// Whether PyTorch's graph has other nodes for an op than those its body records: asked of Python when first recorded.
// Steps: they have the same nodes, but one is called differently when the body recorded several.
enum class Shows : uint8_t { Unknown, Body, Own, Steps };

enum class Kind : uint8_t { Pointwise, Planned, Python };

// Results that the body of a Python op returns as views: those of tensors it made itself become plain tensors, they
// stay views, or they become plain tensors even where they share an argument's memory.
enum class ResultViews : uint8_t { Own, Kept, Hidden };

// What an op wants of out=: what pointwise ops do, memory that no argument shares, or only Python can say.
enum class OutRule : uint8_t { Pointwise, Apart, Asked };

struct Overload {
  PyObject_HEAD
  PyObject* name;                    // "add"
  PyObject* definition;              // the Python definition; asked on a miss
  PyObject* run;                     // Kind::Python: callable(*bound); also where uncacheable calls go
  PyObject* vjp;                     // callable for the tape, or null
  PyObject* mask_vjp;  // Pointwise: callable(needs_mask) -> (derived Overload, params to pass, outputs); or null
  std::vector<Param>* params;
  int num_positional;
  Kind kind;
  bool inplace;                      // writes args[0] and returns it
  bool records;                      // has a derivative of its own (else its body records)
  bool is_view;
  bool sees_bits;                    // takes tensors with bits (kKeyBits) as they are; others get the elements they show
  ResultViews results;               // what becomes of results that are views
  uint64_t saves_result;             // bit i: result i is kept for the derivative; results past 63 go with bit 63
  bool replays;                      // a Python op whose body may be a plan, for calls whose ops nobody has to see
  bool keys_numbers;                 // plans differ for numbers like 2 and 0.5 (see number_class)
  bool has_out;                      // accepts out=
  OutRule out_rule;
  std::atomic<uint64_t>*
      overridden;  // bit i: library.impl registered something that concerns calls on devices of type i
  Autocast autocast;                 // what mixed precision does with it; asked of Python when first met
  Shows shows;                       // whether nodes that its body records are shown as others
  void* table;                       // plans by the whole of a call's shapes
  void* families;                    // plans for many shapes, by ranks and types
  void* tape;                        // TapeInfo, made by the tape at the first recording; null until then
  struct Conditions* unchanged;      // when the op gives its first argument as it is (unchanged.h); null: never
  struct Registered* registered;     // kernels of `library` that the core calls itself (registered.h), or null
};
extern PyTypeObject* OverloadType;
extern PyTypeObject* OpType;

// Calls an overload with bound arguments (one per parameter, defaults filled). New reference or null.
PyObject* overload_call(Overload* op, PyObject** args);
// As above, skipping keys and autograd: straight to plan and kernel.
PyObject* overload_run(Overload* op, PyObject** args);
// The same by a plan that was found for these arguments.
PyObject* run_planned(Overload* op, PyObject* plan, PyObject** args);

// The plan for this call (lookup.cpp): replayed, or asked of Python and kept. New reference; null with or without (not
// plannable) an exception.
PyObject* find_plan(Overload* op, PyObject** args);
// A kernel of the plan found an error: raises what a plan of this shape alone calls it.
void raise_failed_check(Overload* op, PyObject** args, int64_t code);
void forget_tables(Overload* op);
uint64_t plan_epoch();               // of the calling thread: plans found under another do not apply
uint64_t plan_defaults();            // the defaults (dtype, device, determinism) that plans are made under, as a number
size_t plan_count(Overload* op);     // of plans for one shape
PyObject* args_tuple(Overload* op, PyObject** args);

// Below the keys: autograd and the backend, or `runner`, which stands in for it. `keys` are those of the arguments.
PyObject* call_recorded(Overload* op, PyObject** args, bool requires_grad, uint32_t keys, PyObject* runner = nullptr);
// The backend for arguments of which some have bits (bits.cpp): read and written as the elements that they show.
PyObject* run_through_bits(Overload* op, PyObject** args);
// The elements that a tensor with bits shows, in memory of their own (new reference); without bits, the tensor itself.
PyObject* resolved(PyObject* tensor);

// The same with the very strides that the tensor has: plans are made for them.
PyObject* resolved_alike(PyObject* tensor);

// Inputs of a plan that was made for tensors without bits: what was given, or the elements that it shows.
struct ShownInputs {
  std::vector<Tensor*> tensors;
  std::vector<Ref> held;
  bool add(PyObject* tensor) {
    if (as_tensor(tensor)->keys & kKeyBits) {
      held.emplace_back(resolved_alike(tensor));
      if (!(tensor = held.back().p)) return false;
    }
    return tensors.push_back(as_tensor(tensor)), true;
  }
};
bool mark_views(PyObject** args, PyObject* result);
// Writes the results into `outs`; None, and nothing written, where the op must make its own.
PyObject* write_into(Overload* op, PyObject** args, Tensor** outs, int num_outs);

// The objects that Python calls; their types are made by the second module (extras/op_face.cpp).
struct OverloadObject : Overload {
  vectorcallfunc vectorcall;
  PyObject* weakrefs;
};

struct OpObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* name;
  PyObject* resolver;               // callable() -> list of overloads, asked at the first call
  PyObject* overloads;  // tuple of Overload, once resolved; a call holds it, so that a reset frees nothing in use
  PyObject* dict;
  PyObject* twin;                   // the op this is another public spelling of (compares equal to it), or null
  int mode;                         // 0 function or method, 1 operator, 2 reflected operator
};

bool resolve_op(OpObject* op);       // asks the resolver, where it was not asked yet
PyObject* overload_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames);
PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames);

int init_call(PyObject* module);
int init_lookup(PyObject* module);

}  // namespace rl
