// Plans: what Python decided about one way of calling an op, in a form the core replays without asking again.
// Everything here holds the interpreter lock, but kernels: those of more than one chunk run without it.
#pragma once
#include <vector>

#include "extents.h"
#include "tensor.h"

namespace rl {

using Kernel = void (*)(char** ptrs, const int64_t* params, int64_t begin, int64_t end);

enum class SlotKind : uint8_t {
  New,       // fresh tensor, returned
  Temp,      // fresh tensor, dropped after the call
  Base,      // fresh tensor that a view of it keeps
  View,      // alias of input `source`, or of an output or base made before it, returned
  Arg,       // input `source` itself, returned (in-place)
};

struct Slot {
  SlotKind kind;
  DType dtype;
  int source = -1;
  int64_t offset = 0;                // View: elements, relative to the source's offset
  uint32_t flips = 0;                // View: which of kKeyBits it has where the source has not, and the other way round
  std::vector<int64_t> sizes, strides;
};

struct Operand {
  int slot;                          // < num_inputs: input; else num_inputs + index in slots; kConstant, kScratch
  int64_t byte_offset;
};
constexpr int kConstant = -1;        // in the step's `constants`
constexpr int kScratch = -2;         // in the memory that a small plan has for all its temporaries
constexpr int64_t kMostScratch = 1 << 14;

struct Step {
  Kernel kernel = nullptr;
  PyObject* callable = nullptr;  // instead of a kernel: called with the operands as tensors (library calls in Python)
  PyObject* handle = nullptr;  // kernel on a device that is not native: device.launch(handle, ptrs, params, begin, end)
  std::vector<Operand> operands;
  std::vector<int64_t> params;
  int64_t extent = 1;
  int64_t grain = 1;
  std::vector<char> constants;       // run-time scalars baked in; operand slot -1 points into it
  int error_slot = -1;               // slot of an i64 cell: non-zero after the run means failure
  PyObject* on_error = nullptr;      // callable(code) raising for this step, where the plan's own does not know it
  std::vector<int> makes, frees;     // temporaries that this step is the first, and the last, to name
};

// A number of a plan that depends on the sizes of the call: where it stands, and the register that holds it.
struct Patch {
  enum Field : uint8_t { SlotSize, SlotStride, SlotOffset, StepParam, StepExtent, StepGrain, OperandOffset } field;
  uint16_t item, index, reg;         // which slot or step, which of its numbers
};

// What makes a plan hold for many shapes: it is filled in for each call.
struct Generic {
  Program program;
  std::vector<Patch> patches;
  bool busy = false;                 // a call is running it: another call must not fill it in meanwhile
  std::vector<int64_t> registers;    // of the call it was filled in for last, where `sized` did
};

struct PlanObject {
  PyObject_HEAD
  int num_inputs;
  Device device;
  std::vector<Slot>* slots;
  std::vector<Step>* steps;
  Generic* generic;                  // null: a plan for one shape
  PyObject* outputs;  // the slots as Python gave them: sizes may be symbolic integers, which the fast path never asks
  PyObject* parts;    // null, or (steps, on_error) as Python gave them: kept for those who put plans together
  PyObject* wrap;                    // null, or callable making the result from a tuple (named tuples)
  PyObject* on_error;                // callable(code) raising, for error_slot
  int64_t scratch_bytes;             // of small temporaries, which are no tensors then; on the stack of a run
  bool single;                       // return the one output bare
  bool traced;                       // its numbers come from a program: `on_error` knows those of another call
  bool requires_grad;                // fresh outputs are leaves that want a gradient (factories)
};
extern PyTypeObject* PlanType;

// Runs the plan; returns a new reference (Tensor or tuple). `inputs` are the op's tensor arguments in order, lists
// flattened. Null without an exception: a kernel of a plan for many shapes found an error, `failed_check` is its code,
// and a plan for this shape can name it. `given` are outputs to write instead of fresh ones, one for each that the plan
// would make; `plan_takes_outputs` says whether it can.
PyObject* plan_run(PlanObject* plan, Tensor** inputs, int num_inputs, Tensor** given = nullptr);
bool plan_takes_outputs(PlanObject* plan, Tensor** inputs, int num_inputs, Tensor** outs, int num_outs);
extern thread_local int64_t failed_check;

// A plan for many shapes filled in for one: the plan itself, or a copy while another call runs it. New reference, null
// where it does not hold for these numbers (`registers` begins with them) or, with an exception, for want of memory.
PlanObject* plan_for_shape(PlanObject* plan, int64_t* registers);
// A copy of a filled-in plan that stays as it is.
PlanObject* plan_copy(PlanObject* plan);

// How a pointwise op lays a result out: in the order of its operands, as operand 0 is (dims of one element included),
// in dense rows, or in these with channels last where operand 0 has them so. See op/layout.py.
enum class ResultLayout : uint8_t { Operands, First, Rows, Format };
// Whether a number given for an operand must fit the type that the kernel loads.
enum class Fits : uint8_t {
  Unchecked,       // it wraps round, as the element of a tensor would
  Checked,
  ManyElements,    // checked, but where one element is written a narrow float may become infinite
  TensorsToo,      // checked, and so is the element of a tensor given instead: it must fit the result
};

// Shape-generic plan of a pointwise op for one combination of operand types.
struct PointwisePlanObject {
  PyObject_HEAD
  Kernel kernel;
  PyObject* handle;                  // instead, on a plugged-in device: what it loaded
  PyObject* zero_check;              // there: the kernel that looks at the divisor
  int num_in, num_out;
  uint8_t in_param[16];              // which bound parameter feeds operand i
  DType in_dtype[16];                // what the kernel loads for operand i (scalars are converted to it)
  DType via[16];                     // what a number is rounded to first: a half type that is computed with as float
  Fits fits[16];
  DType out_dtype[8];
  PyObject* wrap;
  int divisor;                       // the operand that must hold no integer 0, or -1
  int by_value;                      // the operand of one element that is read before anything is written, or -1
  ResultLayout layout;               // of a result of its own
};
extern PyTypeObject* PointwisePlanType;

struct PointwiseCall {
  Tensor* tensors[16];               // null where the operand is a scalar
  PyObject* scalars[16];
  Tensor* outs[8];                   // given outputs (in-place, out=); null: allocate
};
// Broadcasts, allocates, coalesces, launches. Fills call.outs with new references where they were null.
bool pointwise_launch(PointwisePlanObject* plan, PointwiseCall& call, Device device, const char* op_name);
// Whether the result of these inputs has exactly this shape; false too where they do not fit each other.
bool broadcasts_to(Tensor** tensors, int count, Tensor* out);

// Where the nanoseconds of each step of this thread's plans go from now on; null: nowhere. Returns what was set before.
std::vector<int64_t>* time_steps(std::vector<int64_t>* times);

// Plans made for this number of threads apply again, others wait (lookup.cpp).
void choose_plan_threads(int n);

}  // namespace rl
