#include "extents.h"

#include <structmember.h>

#include "symbolic.h"
#include "tensor.h"

namespace rl {

PyTypeObject* ExtentType;

// Python's division: rounds down, and the remainder has the divisor's sign.
static bool divide(int64_t a, int64_t b, int64_t* quotient, int64_t* rest) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  *quotient = a / b;
  *rest = a % b;
  if (*rest && (*rest < 0) != (b < 0)) {
    *quotient -= 1;
    *rest += b;
  }
  return true;
}

static bool shift_left(int64_t a, int64_t by, int64_t* out) {
  if (by < 0 || by > 62) return false;
  return !__builtin_mul_overflow(a, int64_t{1} << by, out);
}

bool run_program(const Program& program, int64_t* r) {
  int at = program.num_given;
  memcpy(r + at + program.body.size(), program.constants.data(), sizeof(int64_t) * program.constants.size());
  int64_t unused;
  for (const Instruction& step : program.body) {
    int64_t a = r[step.a], b = r[step.b];
    int64_t* out = r + at++;
    bool ok = true;
    switch (step.code) {
      case Code::Add: ok = !__builtin_add_overflow(a, b, out); break;
      case Code::Sub: ok = !__builtin_sub_overflow(a, b, out); break;
      case Code::Mul: ok = !__builtin_mul_overflow(a, b, out); break;
      case Code::FloorDiv: ok = divide(a, b, out, &unused); break;
      case Code::Mod: ok = divide(a, b, &unused, out); break;
      case Code::Min: *out = a < b ? a : b; break;
      case Code::Max: *out = a > b ? a : b; break;
      case Code::And: *out = a & b; break;
      case Code::Or: *out = a | b; break;
      case Code::ShiftLeft: ok = shift_left(a, b, out); break;
      case Code::ShiftRight: ok = b >= 0, *out = a >> (b > 63 ? 63 : b); break;
      case Code::Equal: ok = a == b; break;
      case Code::NotEqual: ok = a != b; break;
      case Code::Less: ok = a < b; break;
      case Code::LessEqual: ok = a <= b; break;
      case Code::Count: ok = false; break;
    }
    if (!ok) return false;
  }
  return true;
}

static PyMemberDef members[] = {{"register", T_INT, offsetof(ExtentObject, reg), 0, "where a program leaves it"}, {}};
static PyType_Slot slots[] = {{Py_tp_members, members}, {0, nullptr}};
static PyType_Spec spec = {"rushlight._C.Extent", sizeof(ExtentObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

int init_extents(PyObject* module) {
  ExtentType = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, as_object(SymbolicIntType)));
  if (!ExtentType) return -1;
  return PyModule_AddObjectRef(module, "Extent", as_object(ExtentType));
}

}  // namespace rl
