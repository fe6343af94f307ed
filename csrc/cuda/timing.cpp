// Times of launches and copies by the driver's own events, for profiles where CUPTI is not installed: a mark before each
// and one behind it. What a launch starts is timed as one, with the gap before it; marks make the driver slower. The
// functions of the device's table are exchanged while it is on, so nothing is asked while it is off.
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "boundary.h"
#include "cuda/device.h"
#include "cuda/queue.h"
#include "unlocked.h"

namespace rl {

namespace {

struct Timed {
  void *before, *behind, *stream;
  int unit, way;                        // -1: a launch; otherwise as RushlightWay numbers copies
  int64_t begin, end, thread, bytes;    // of the call
  std::string name;
};

RushlightDevice* table = nullptr;       // while it is on
RushlightDevice original;
std::mutex kept_lock;
std::vector<Timed> kept;
int64_t started = 0;                    // when nothing was queued anywhere
void* first = nullptr;                  // the mark of then
int first_unit = 0;

bool is_captured(void* stream) {
  static auto ask = reinterpret_cast<int (*)(void*, int*)>(cuda::find_function("cuStreamIsCapturing"));
  int answer = 0;
  return ask && (ask(stream, &answer) || answer);
}

std::string name_of(const RushlightLaunch* what) {
  auto* kernel = static_cast<const cuda::Kernel*>(what->kernel);
  if (kernel->form == cuda::kProduct) return "matrix product";
  if (kernel->form == cuda::kTransform) return "Fourier transform";
  if (kernel->variants.empty()) return "kernel";
  const std::string& called = kernel->variants.back().called;
  return called.substr(0, called.find(','));
}

template <class Call, class Name>
int timed(int unit, void* stream, int way, int64_t bytes, Call call, Name name) {
  Timed t{nullptr, nullptr, stream, unit, way, cuda::now(), 0, syscall(SYS_gettid), bytes, {}};
  bool is_marked = !is_captured(stream) && !original.record(original.context, unit, stream, &t.before);
  int status = call();
  t.end = cuda::now();
  if (!is_marked || original.record(original.context, unit, stream, &t.behind)) return status;
  t.name = name();
  std::lock_guard<std::mutex> lock(kept_lock);
  kept.push_back(std::move(t));
  return status;
}

int launch(void* context, int unit, void* stream, const RushlightLaunch* what) {
  return timed(unit, stream, -1, 0, [&] { return original.launch(context, unit, stream, what); },
               [&] { return name_of(what); });
}

int copy(void* context, int unit, void* stream, int way, void* target, const void* source, size_t nbytes) {
  return timed(unit, stream, way, static_cast<int64_t>(nbytes),
               [&] { return original.copy(context, unit, stream, way, target, source, nbytes); },
               [] { return std::string("copy"); });
}

// cuda_timing_start(table, unit): launches and copies of the device with this table are timed from here on; the unit is
// idle.
PyObject* py_start(PyObject*, PyObject* args) {
  unsigned long long address;
  if (!PyArg_ParseTuple(args, "Ki", &address, &first_unit)) return nullptr;
  if (table) return PyErr_SetString(PyExc_RuntimeError, "launches are being timed"), nullptr;
  auto* given = reinterpret_cast<RushlightDevice*>(address);
  original = *given;
  if (original.record(original.context, first_unit, nullptr, &first) ||
      original.finish(original.context, first_unit, first))
    return PyErr_SetString(PyExc_RuntimeError, original.error(original.context)), nullptr;
  started = cuda::now();
  table = given;
  table->launch = launch, table->copy = copy;
  Py_RETURN_NONE;
}

double microseconds(int unit, void* from, void* to) {
  double ms = 0;
  return original.elapsed(original.context, unit, from, to, &ms) ? -1 : ms * 1e3;
}

// [(name, way, unit, stream, begin and end on the unit, begin and end of the call, thread, bytes)], nanoseconds of the
// profile's clock. Times are added up from mark to mark: over long stretches the driver's have too few digits.
PyObject* py_stop(PyObject*, PyObject*) {
  if (!table) return PyErr_SetString(PyExc_RuntimeError, "launches are not being timed"), nullptr;
  table->launch = original.launch, table->copy = original.copy, table = nullptr;
  std::vector<Timed> all;
  all.swap(kept);
  Ref rows(PyList_New(0));
  void* last = first;
  double at = 0;
  for (const Timed& t : all) {
    double waited = t.unit == first_unit ? microseconds(t.unit, last, t.before) : -1;
    double ran = microseconds(t.unit, t.before, t.behind);
    if (waited >= 0 && ran >= 0 && rows) {
      at += waited, last = t.before;
      auto begin = started + static_cast<int64_t>(at * 1e3);
      Ref row(Py_BuildValue("siiKLLLLLL", t.name.c_str(), t.way, t.unit, reinterpret_cast<unsigned long long>(t.stream),
                            static_cast<long long>(begin), static_cast<long long>(begin + static_cast<int64_t>(ran * 1e3)),
                            static_cast<long long>(t.begin), static_cast<long long>(t.end),
                            static_cast<long long>(t.thread), static_cast<long long>(t.bytes)));
      if (!row || PyList_Append(rows.p, row.p)) return nullptr;
    }
  }
  for (const Timed& t : all)
    original.forget(original.context, t.unit, t.before), original.forget(original.context, t.unit, t.behind);
  original.forget(original.context, first_unit, first);
  return rows.release();
}

PyMethodDef functions[] = {
    {"cuda_timing_start", guarded<py_start>, METH_VARARGS,
     "cuda_timing_start(table, unit): time launches and copies by events of the driver"},
    {"cuda_timing_stop", guarded<py_stop>, METH_NOARGS, "cuda_timing_stop(): what was timed, as rows"},
    {}};

}  // namespace

int init_cuda_timing(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
