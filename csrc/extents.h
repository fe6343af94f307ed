// Sizes of plans as small expressions: what Python's tracing of a shape rule leaves behind, and what the core evaluates
// for other sizes.
#pragma once
#include <vector>

#include "types.h"

namespace rl {

// A number that depends on the sizes of a call, as Python's rules see it while they are traced. The rules' arithmetic
// gives others.
struct ExtentObject {
  PyObject_HEAD
  int reg;                           // the register that holds it when a program has run
};
extern PyTypeObject* ExtentType;     // rushlight._C.Extent; Python derives the one that computes
inline bool is_extent(PyObject* o) { return PyObject_TypeCheck(o, ExtentType); }

enum class Code : uint8_t {
  Add,
  Sub,
  Mul,
  FloorDiv,
  Mod,
  Min,
  Max,
  And,
  Or,
  ShiftLeft,
  ShiftRight,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Count
};

struct Instruction {
  Code code;
  uint16_t a, b;                     // registers
};

constexpr int kMaxRegisters = 1024;         // of an op's plan, which is looked for on the stack
constexpr int kMaxGraphRegisters = 1 << 16;  // of any plan: instructions name them in 16 bits

// Registers are the numbers given (sizes and strides of a call's tensors and its integers, by parameter), results, and
// constants, in this order.
struct Program {
  int num_given = 0;
  std::vector<int64_t> constants;
  std::vector<Instruction> body;     // a comparison that fails ends it: what was traced does not hold for these numbers
  int registers() const { return num_given + static_cast<int>(constants.size() + body.size()); }
};

// False if the numbers do not meet what was assumed, or a result leaves 64 bits. `registers` has room for all; the
// first are given.
bool run_program(const Program& program, int64_t* registers);

int init_extents(PyObject* module);

}  // namespace rl
