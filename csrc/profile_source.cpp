// Where in the program's source an event was begun: the code object and the instruction of the frame that runs. Both are
// kept once per place; the line is worked out afterwards, by whoever reads the recording.
#include "profile.h"

namespace rl {

namespace {

constexpr size_t kRecent = 512;
struct Recent {                  // of the recording that runs; code objects are held by it
  uint64_t recording = 0;
  PyCodeObject* code = nullptr;
  int at = 0;
  uint32_t number = 0;
};
Recent recent[kRecent];

uint32_t new_source(Recording* r, PyObject* code, int at) {
  Ref key(Py_BuildValue("(Oi)", code, at));
  if (!key) return PyErr_Clear(), 0;
  if (PyObject* known = PyDict_GetItemWithError(r->sources, key.p)) return PyLong_AsUnsignedLong(known);
  Ref number(PyLong_FromSsize_t(PyDict_GET_SIZE(r->sources) + 1));
  if (!number || PyDict_SetItem(r->sources, key.p, number.p)) return PyErr_Clear(), 0;
  return PyLong_AsUnsignedLong(number.p);
}

}  // namespace

uint32_t profile_source(Recording* r, EventKind kind) {
  if (kind == EventKind::Node || kind == EventKind::Evaluate) return 0;
  Ref frame(Py_XNewRef(reinterpret_cast<PyObject*>(PyEval_GetFrame())));
  if (frame && kind == EventKind::Python)       // it has begun: who called it
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.p))));
  if (!frame) return 0;
  auto* f = reinterpret_cast<PyFrameObject*>(frame.p);
  Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
  int at = PyFrame_GetLasti(f);
  auto* object = reinterpret_cast<PyCodeObject*>(code.p);
  Recent& slot = recent[(reinterpret_cast<uintptr_t>(object) >> 4 ^ static_cast<uintptr_t>(at) * 31) % kRecent];
  if (slot.recording != r->id || slot.code != object || slot.at != at)
    slot = {r->id, object, at, new_source(r, code.p, at)};
  return slot.number;
}

}  // namespace rl
