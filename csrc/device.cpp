// Units, streams and what is asked of them; errors that kernels wrote down; the Python functions for all that.
#include "device.h"

#include "boundary.h"
#include "geometry.h"

#include "tensor.h"
#include "unlocked.h"

namespace rl {

PyObject *OutOfMemoryError, *AcceleratorError;
thread_local uint8_t current_units[kMostDevices];

namespace {

constexpr int kCells = 1024;       // checks a stream may have pending; one more waits for it
constexpr size_t kMostStreams = 33;   // per unit, the first queue included; further ones share them, as in PyTorch

std::vector<Unit*> units[kMostDevices];      // by device type, then index
thread_local std::vector<Stream*> chosen_streams;   // where not a unit's first

// A device in Python needs the lock, and without streams its copies are done when they return.
bool is_native(const Unit* unit) { return kDevices[unit->device.type].is_native; }
bool copies_at_once(const Unit* unit) { return !is_native(unit) && !unit->table->record; }

long count_units(Device device) {
  Ref count(PyObject_CallMethod(kDevices[device.type].handler, "device_count", nullptr));
  long found = count ? PyLong_AsLong(count.p) : -1;
  if (found >= 0) return found;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyErr_Format(AcceleratorError, "device_count: device '%s' must say how many units it has: %s%S",
               device_type_name(device.type), value ? "" : "got ", value ? value : count.p);
  if (value) PyException_SetTraceback(value, trace ? trace : Py_None);
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  return -1;
}

}  // namespace

Unit* find_unit(Device device) {
  auto& known = units[device.type];
  if (__builtin_expect(device.index < known.size() && known[device.index], 1)) return known[device.index];
  const char* name = device_type_name(device.type);
  if (kDevices[device.type].is_absent && !device_appears(device.type)) return nullptr;
  if (!is_plugged(device))
    return PyErr_Format(PyExc_RuntimeError, "expected a plugged-in device, got '%s'", name), nullptr;
  long count = count_units(device);
  if (count < 0) return nullptr;
  if (device.index >= count)
    return PyErr_Format(AcceleratorError, "device '%s:%d' does not exist: '%s' has %ld unit%s", name, device.index,
                        name, count, count == 1 ? "" : "s"),
           nullptr;
  if (known.size() <= device.index) known.resize(device.index + 1);
  auto* unit = new Unit{device, table_of(device), {}, {}};
  unit->streams.push_back(new Stream{unit});
  return known[device.index] = unit;
}

Stream* current_stream(Device device) {
  for (Stream* s : chosen_streams)
    if (s->unit->device == device) return s;
  Unit* unit = find_unit(device);
  return unit ? unit->streams[0] : nullptr;
}

bool device_ok(Unit* unit, int status, const char* what) {
  if (!status) return true;
  if (PyErr_Occurred()) return false;
  const char* why = unit->table->error ? unit->table->error(unit->table->context) : nullptr;
  PyErr_Format(status == RUSHLIGHT_OUT_OF_MEMORY ? OutOfMemoryError : AcceleratorError,
               "%s: device '%s:%d' failed%s%s", what, device_type_name(unit->device.type), unit->device.index,
               why ? ": " : "", why ? why : "");
  return false;
}

bool stream_copy(Stream* stream, RushlightWay way, void* target, const void* source, size_t nbytes) {
  Unit* unit = stream->unit;
  stream->jobs++;
  return device_ok(
      unit, unit->table->copy(unit->table->context, unit->device.index, stream->handle, way, target, source, nbytes),
      "copy");
}

// Waits, without a look at checks.
static bool stream_drain(Stream* stream) {
  Unit* unit = stream->unit;
  const RushlightDevice* table = unit->table;
  if (!table->synchronize) return true;
  int status;
  if (is_native(unit)) {
    Unlocked others_run;
    status = table->synchronize(table->context, unit->device.index, stream->handle);
  } else {
    status = table->synchronize(table->context, unit->device.index, stream->handle);
  }
  return device_ok(unit, status, "synchronize");
}

// --- launches
// -----------------------------------------------------------------------------------------------------------

static bool launch_once(Stream* stream, const RushlightLaunch& launch) {
  Unit* unit = stream->unit;
  stream->jobs++;
  return device_ok(unit, unit->table->launch(unit->table->context, unit->device.index, stream->handle, &launch),
                   "launch");
}

// Dims beyond the second, one launch each.
static bool walk_dims(Stream* stream, const RushlightLaunch& whole) {
  constexpr int kMost = 32;
  int n = whole.num_operands;
  if (n > kMost) return PyErr_SetString(PyExc_RuntimeError, "launch: too many operands in one kernel"), false;
  int64_t params[1 + 2 * kMost], outer = 1;
  void* operands[kMost];
  params[0] = whole.ndim ? whole.sizes[0] : 1;
  for (int k = 0; k < n; k++) {
    params[1 + k] = whole.ndim ? whole.strides[k * whole.pitch] : 0;
    params[1 + n + k] = whole.ndim > 1 ? whole.strides[k * whole.pitch + 1] : 0;
  }
  for (int d = 2; d < whole.ndim; d++) outer *= whole.sizes[d];
  RushlightLaunch one = whole;
  one.operands = operands;
  one.params = params, one.num_params = 1 + 2 * n;
  one.begin = 0, one.end = whole.ndim > 1 ? whole.sizes[1] : 1;
  one.ndim = -1;
  for (int64_t flat = 0; flat < outer; flat++) {
    int64_t rest = flat;
    for (int k = 0; k < n; k++) operands[k] = whole.operands[k];
    for (int d = 2; d < whole.ndim; d++) {
      int64_t at = rest % whole.sizes[d];
      rest /= whole.sizes[d];
      for (int k = 0; k < n; k++)
        if (!whole.constant_bytes[k])
          operands[k] = static_cast<char*>(operands[k]) + at * whole.strides[k * whole.pitch + d];
    }
    if (!launch_once(stream, one)) return false;
  }
  return true;
}

bool stream_launch(Stream* stream, PyObject* handle, RushlightLaunch& launch) {
  launch.kernel = handle;
  if (is_native(stream->unit)) {
    launch.kernel = PyCapsule_CheckExact(handle) ? PyCapsule_GetPointer(handle, PyCapsule_GetName(handle)) : nullptr;
    if (!launch.kernel && !PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "Device.load: a native device's kernels are ints or capsules");
    if (!launch.kernel) return false;
  }
  return launch.ndim < 0 || stream->unit->table->nd ? launch_once(stream, launch) : walk_dims(stream, launch);
}

// --- checks
// ---------------------------------------------------------------------------------------------------------------

static bool make_cells(Stream* stream) {
  // Straight from the device, not from the cache: the cells stay as long as the stream does.
  Unit* unit = stream->unit;
  void* cells = nullptr;
  if (!device_ok(unit,
                 unit->table->allocate(unit->table->context, unit->device.index, kCells * sizeof(int64_t), &cells),
                 "allocate"))
    return false;
  if (!is_fresh_memory(unit, cells, kCells * sizeof(int64_t))) return false;
  static const int64_t zeros[kCells] = {};
  if (!stream_copy(stream, RUSHLIGHT_FROM_HOST, cells, zeros, sizeof(zeros))) return false;
  stream->checks.cells = static_cast<char*>(cells);
  return true;
}

static void raise_check(const ErrorCells::Pending& failed, int64_t code) {
  if (failed.on_error) {
    Ref raised(PyObject_CallFunction(failed.on_error, "L", static_cast<long long>(code)));
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "index out of range");
  } else {
    PyErr_Format(PyExc_RuntimeError, "ZeroDivisionError: %U: an integer was divided by 0", failed.op);
  }
}

// What the pending checks found; waits for the stream where there are any.
static bool read_checks(Stream* stream) {
  ErrorCells& checks = stream->checks;
  if (checks.pending.empty() || checks.is_read) return true;
  size_t n = checks.pending.size(), first = checks.first;
  std::vector<int64_t> codes(kCells);
  checks.is_read = true;   // by this thread: a device in Python lets others run, who may launch more meanwhile
  bool ok = stream_copy(stream, RUSHLIGHT_TO_HOST, codes.data(), checks.cells, kCells * sizeof(int64_t)) &&
            (copies_at_once(stream->unit) || stream_drain(stream));
  checks.is_read = false;
  if (!ok) return false;
  ErrorCells::Pending failed{};
  int64_t code = 0;
  static const int64_t zero = 0;
  for (size_t i = 0; i < n; i++) {
    ErrorCells::Pending one = checks.pending.front();
    checks.pending.pop_front();
    size_t at = (first + i) % kCells;
    if (codes[at])
      ok &= stream_copy(stream, RUSHLIGHT_FROM_HOST, checks.cells + at * sizeof(int64_t), &zero, sizeof(zero));
    if (codes[at] && !code) {
      code = codes[at];
      failed = one;
      continue;
    }
    Py_XDECREF(one.on_error);
    Py_XDECREF(one.op);
  }
  checks.first = (first + n) % kCells;
  if (code && ok) raise_check(failed, code);
  Py_XDECREF(failed.on_error);
  Py_XDECREF(failed.op);
  return ok && !code;
}

char* stream_check(Stream* stream, PyObject* on_error, PyObject* op) {
  ErrorCells& checks = stream->checks;
  if (!checks.cells && !make_cells(stream)) return nullptr;
  if (checks.pending.size() == kCells && !read_checks(stream)) return nullptr;
  if (checks.pending.size() == kCells)
    return PyErr_SetString(PyExc_RuntimeError, "launch: too many unread checks on one stream"), nullptr;
  size_t at = (checks.first + checks.pending.size()) % kCells;
  checks.pending.push_back({Py_XNewRef(on_error), Py_XNewRef(op)});
  return checks.cells + at * sizeof(int64_t);
}

bool stream_synchronize(Stream* stream) { return stream_drain(stream) && read_checks(stream); }

bool unit_synchronize(Unit* unit) {
  for (size_t i = 0; i < unit->streams.size(); i++)
    if (!stream_synchronize(unit->streams[i])) return false;
  return true;
}

// --- copies between tensors
// -------------------------------------------------------------------------------------------------

static bool copy_units(Tensor* target, Tensor* source, size_t nbytes) {
  Stream *to = current_stream(target->device), *from = to ? current_stream(source->device) : nullptr;
  if (!from) return false;
  const RushlightDevice* table = to->unit->table;
  void *ready = nullptr, *done = nullptr;
  to->jobs++, from->jobs++;
  int here = target->device.index, there = source->device.index;
  // The source's stream first, then the copy, and what is written over the source later after that.
  bool ok =
      !table->record || (device_ok(from->unit, table->record(table->context, there, from->handle, &ready), "record") &&
                         device_ok(to->unit, table->wait(table->context, here, to->handle, ready), "wait"));
  ok = ok &&
       device_ok(to->unit,
                 table->copy_between(table->context, here, to->handle, target->data(), there, source->data(), nbytes),
                 "copy");
  ok =
      ok && (!table->record || (device_ok(to->unit, table->record(table->context, here, to->handle, &done), "record") &&
                                device_ok(from->unit, table->wait(table->context, there, from->handle, done), "wait")));
  if (ready) table->forget(table->context, there, ready);
  if (done) table->forget(table->context, here, done);
  return ok;
}

bool (*note_pinned)(Storage*, Stream*) = nullptr;
void (*flush_launches)() = nullptr;
void flush_device(Device device) {
  if (flush_launches && is_plugged(device)) flush_launches();
}
static int sync_mode = 0;   // 1: waits that nobody asked for by name are warned of; 2: refused

static bool may_wait(const char* what) {
  if (!sync_mode) return true;
  if (sync_mode == 1)
    return !PyErr_WarnFormat(PyExc_UserWarning, 1, "%s: called a synchronizing operation: the host waits for the "
                             "device (set_sync_debug_mode)", what);
  return PyErr_Format(PyExc_RuntimeError, "%s: called a synchronizing operation: the host would wait for the device, "
                      "which set_sync_debug_mode('error') refuses", what),
         false;
}

// move_bytes(target, source, non_blocking=False): between contiguous tensors of one type on two devices, or units of
// one. False: not directly.
static PyObject* move_bytes(PyObject*, PyObject* args) {
  PyObject *t, *s;
  int non_blocking = 0;
  if (!PyArg_ParseTuple(args, "O!O!|p", TensorType, &t, TensorType, &s, &non_blocking)) return nullptr;
  tls.noting = 0;
  Tensor *target = as_tensor(t), *source = as_tensor(s);
  size_t nbytes = static_cast<size_t>(source->numel) * itemsize(source->dtype);
  bool from_host = source->device.type == kCPU, to_host = target->device.type == kCPU;
  if (!nbytes) Py_RETURN_TRUE;
  if (!tensor_readable(target, "copy_") || !tensor_readable(source, "copy_")) return nullptr;
  if (from_host == to_host) {
    bool direct = !from_host && source->device.type == target->device.type &&
                  (source->device == target->device || table_of(target->device)->copy_between);
    if (!direct) Py_RETURN_FALSE;
    if (source->device != target->device) return copy_units(target, source, nbytes) ? Py_NewRef(Py_True) : nullptr;
  }
  Stream* stream = current_stream(from_host ? target->device : source->device);
  if (!stream) return nullptr;
  RushlightWay way = from_host ? RUSHLIGHT_FROM_HOST : to_host ? RUSHLIGHT_TO_HOST : RUSHLIGHT_WITHIN;
  bool later = non_blocking && way != RUSHLIGHT_WITHIN && note_pinned;
  bool waits = way != RUSHLIGHT_WITHIN && !copies_at_once(stream->unit);
  if (waits && !later && way == RUSHLIGHT_TO_HOST && !may_wait("copy")) return nullptr;
  if (!stream_copy(stream, way, target->data(), source->data(), nbytes)) return nullptr;
  if (later && note_pinned((from_host ? source : target)->storage, stream)) Py_RETURN_TRUE;
  // Host memory may be freed or written to as soon as this returns.
  if (way != RUSHLIGHT_WITHIN && !copies_at_once(stream->unit) && !stream_drain(stream)) return nullptr;
  if (way == RUSHLIGHT_TO_HOST && !read_checks(stream)) return nullptr;
  Py_RETURN_TRUE;
}

// --- the Python functions: streams are numbers of a unit, events are capsules
// -----------------------------------------------

namespace {

struct Event {
  Unit* unit;
  void* handle;
};

void free_event(PyObject* capsule) {
  auto* event = static_cast<Event*>(PyCapsule_GetPointer(capsule, "rushlight.event"));
  event->unit->table->forget(event->unit->table->context, event->unit->device.index, event->handle);
  delete event;
}

Event* event_of(PyObject* o) { return static_cast<Event*>(PyCapsule_GetPointer(o, "rushlight.event")); }

Stream* stream_of(PyObject* device, int number) {
  Device d;
  if (!parse_device(device, &d)) return nullptr;
  Unit* unit = find_unit(d);
  if (!unit) return nullptr;
  if (number < 0 || number >= static_cast<int>(unit->streams.size()))
    return PyErr_Format(PyExc_RuntimeError, "no stream %d on this device", number), nullptr;
  return unit->streams[number];
}

PyObject* none_if(bool ok) { return ok ? Py_NewRef(Py_None) : nullptr; }

PyObject* py_new_stream(PyObject*, PyObject* args) {
  PyObject* device;
  int priority;
  if (!PyArg_ParseTuple(args, "Oi", &device, &priority)) return nullptr;
  Stream* first = stream_of(device, 0);
  if (!first) return nullptr;
  Unit* unit = first->unit;
  if (!unit->table->new_stream) return PyLong_FromLong(0);   // one queue, whatever it is called
  static int turn = 0;
  if (unit->streams.size() >= kMostStreams) return PyLong_FromLong(1 + turn++ % static_cast<int>(kMostStreams - 1));
  void* handle = nullptr;
  if (!device_ok(unit, unit->table->new_stream(unit->table->context, unit->device.index, priority, &handle),
                 "new_stream"))
    return nullptr;
  auto* made = new Stream{unit, handle, static_cast<int>(unit->streams.size())};
  unit->streams.push_back(made);
  return PyLong_FromLong(made->number);
}

// external_stream(device, handle): the number of a stream that somebody else made.
PyObject* py_external_stream(PyObject*, PyObject* args) {
  PyObject* device;
  unsigned long long given;
  if (!PyArg_ParseTuple(args, "OK", &device, &given)) return nullptr;
  Stream* first = stream_of(device, 0);
  if (!first) return nullptr;
  Unit* unit = first->unit;
  void* handle = reinterpret_cast<void*>(given);
  for (Stream* known : unit->streams)
    if (known->handle == handle) return PyLong_FromLong(known->number);
  unit->streams.push_back(new Stream{unit, handle, static_cast<int>(unit->streams.size())});
  return PyLong_FromLong(unit->streams.back()->number);
}

PyObject* py_current_stream(PyObject*, PyObject* device) {
  Device d;
  Stream* s = parse_device(device, &d) ? current_stream(d) : nullptr;
  return s ? PyLong_FromLong(s->number) : nullptr;
}

// stream_handle(device, number=-1): the device's own name of a stream, the current one unless told; for libraries that
// queue work themselves.
PyObject* py_stream_handle(PyObject*, PyObject* args) {
  PyObject* device;
  int number = -1;
  if (!PyArg_ParseTuple(args, "O|i", &device, &number)) return nullptr;
  Device d;
  Stream* s = number >= 0 ? stream_of(device, number) : parse_device(device, &d) ? current_stream(d) : nullptr;
  if (!s) return nullptr;
  s->jobs++;   // something is about to be queued
  if (flush_launches) flush_launches();
  return PyLong_FromVoidPtr(s->handle);
}

// keep_stream(device, number): memory that was used on a stream is never given back to the device.
PyObject* py_keep_stream(PyObject*, PyObject* args) {
  PyObject* device;
  int number;
  if (!PyArg_ParseTuple(args, "Oi", &device, &number)) return nullptr;
  Stream* s = stream_of(device, number);
  if (!s) return nullptr;
  s->is_kept = true;
  Py_RETURN_NONE;
}

PyObject* py_set_stream(PyObject*, PyObject* args) {
  PyObject* device;
  int number;
  Stream* s = PyArg_ParseTuple(args, "Oi", &device, &number) ? stream_of(device, number) : nullptr;
  if (!s) return nullptr;
  std::erase_if(chosen_streams, [&](Stream* other) { return other->unit == s->unit; });
  if (s->number) chosen_streams.push_back(s);
  Py_RETURN_NONE;
}

PyObject* py_synchronize(PyObject*, PyObject* args) {
  PyObject* device;
  int number = -1;
  if (!PyArg_ParseTuple(args, "O|i", &device, &number)) return nullptr;
  Stream* s = stream_of(device, number < 0 ? 0 : number);
  return s ? none_if(number < 0 ? unit_synchronize(s->unit) : stream_synchronize(s)) : nullptr;
}

PyObject* py_record(PyObject*, PyObject* args) {
  PyObject* device;
  int number;
  Stream* s = PyArg_ParseTuple(args, "Oi", &device, &number) ? stream_of(device, number) : nullptr;
  if (!s) return nullptr;
  const RushlightDevice* table = s->unit->table;
  if (!table->record) Py_RETURN_NONE;   // one queue: whatever was asked before is before
  void* handle = nullptr;
  if (!device_ok(s->unit, table->record(table->context, s->unit->device.index, s->handle, &handle), "record"))
    return nullptr;
  return PyCapsule_New(new Event{s->unit, handle}, "rushlight.event", free_event);
}

PyObject* py_wait(PyObject*, PyObject* args) {
  PyObject *device, *capsule;
  int number;
  Stream* s = PyArg_ParseTuple(args, "OiO", &device, &number, &capsule) ? stream_of(device, number) : nullptr;
  Event* event = s ? event_of(capsule) : nullptr;
  if (!event) return nullptr;
  if (event->unit->device.type != s->unit->device.type)
    return PyErr_SetString(PyExc_RuntimeError, "Event.wait: the event belongs to another kind of device"), nullptr;
  const RushlightDevice* table = s->unit->table;
  s->jobs++;
  return none_if(
      device_ok(s->unit, table->wait(table->context, s->unit->device.index, s->handle, event->handle), "wait"));
}

// Whether all that was queued is done: by a mark behind the last job, so that asking again asks for the same one.
PyObject* py_query_stream(PyObject*, PyObject* args) {
  PyObject* device;
  int number, reached = 1;
  Stream* s = PyArg_ParseTuple(args, "Oi", &device, &number) ? stream_of(device, number) : nullptr;
  if (!s) return nullptr;
  const RushlightDevice* table = s->unit->table;
  int unit = s->unit->device.index;
  if (!table->record) Py_RETURN_TRUE;
  if (!s->asked || s->asked_at != s->jobs) {
    void* mark = nullptr;
    if (!device_ok(s->unit, table->record(table->context, unit, s->handle, &mark), "record")) return nullptr;
    if (s->asked) table->forget(table->context, unit, s->asked);
    s->asked = mark, s->asked_at = s->jobs;
  }
  if (!device_ok(s->unit, table->query(table->context, unit, s->asked, &reached), "query")) return nullptr;
  return PyBool_FromLong(reached);
}

PyObject* py_finish(PyObject*, PyObject* capsule) {
  Event* event = event_of(capsule);
  if (!event) return nullptr;
  const RushlightDevice* table = event->unit->table;
  int status;
  if (is_native(event->unit)) {
    Unlocked others_run;
    status = table->finish(table->context, event->unit->device.index, event->handle);
  } else {
    status = table->finish(table->context, event->unit->device.index, event->handle);
  }
  return none_if(device_ok(event->unit, status, "synchronize"));
}

PyObject* py_query(PyObject*, PyObject* capsule) {
  Event* event = event_of(capsule);
  int reached = 0;
  if (!event || !device_ok(event->unit,
                           event->unit->table->query(event->unit->table->context, event->unit->device.index,
                                                     event->handle, &reached),
                           "query"))
    return nullptr;
  return PyBool_FromLong(reached);
}

PyObject* py_elapsed(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
  Event *start = event_of(a), *end = start ? event_of(b) : nullptr;
  if (!end) return nullptr;
  const RushlightDevice* table = start->unit->table;
  if (!table->elapsed)
    return PyErr_SetString(PyExc_RuntimeError, "elapsed_time: this device does not measure time"), nullptr;
  double milliseconds = 0;
  if (!device_ok(start->unit,
                 table->elapsed(table->context, start->unit->device.index, start->handle, end->handle, &milliseconds),
                 "elapsed_time"))
    return nullptr;
  return PyFloat_FromDouble(milliseconds);
}

PyObject* py_used_on(PyObject*, PyObject* args) {
  PyObject *tensor, *device;
  int number;
  Stream* s =
      PyArg_ParseTuple(args, "O!Oi", TensorType, &tensor, &device, &number) ? stream_of(device, number) : nullptr;
  if (!s) return nullptr;
  device_used_on(as_tensor(tensor)->storage, s);
  Py_RETURN_NONE;
}

PyObject* py_current_unit(PyObject*, PyObject* device) {
  Device d;
  return parse_device(device, &d) ? PyLong_FromLong(current_units[d.type]) : nullptr;
}

PyObject* py_set_unit(PyObject*, PyObject* device) {
  Device d;
  if (!parse_device(device, &d) || !find_unit(d)) return nullptr;
  current_units[d.type] = d.index;
  Py_RETURN_NONE;
}

// unit_stats(device, reset=0): ({"kind.size": (current, peak, taken, given)}, (retries, failures, waits, takes and
// gives of the device)). 1: peaks start anew; 2: what was counted since the beginning does.
PyObject* py_unit_stats(PyObject*, PyObject* args) {
  constexpr int kPeaks = 1, kTotals = 2;
  PyObject* device;
  int reset = 0;
  Stream* s = PyArg_ParseTuple(args, "O|i", &device, &reset) ? stream_of(device, 0) : nullptr;
  if (!s) return nullptr;
  UnitStats& stats = s->unit->stats;
  static const char* kinds[] = {"allocation",      "allocated_bytes", "active",        "active_bytes",
                                "requested_bytes", "segment",         "reserved_bytes"};
  static const char* sizes[] = {"all", "small_pool", "large_pool"};
  Ref found(PyDict_New());
  for (int k = 0; found && k < kNumCounted; k++)
    for (int p = 0; p < 3; p++) {
      Counter& c = stats.of[k][p];
      if (reset == kPeaks) c.peak = c.current;
      if (reset == kTotals) c.taken = c.given = 0;
      Ref name(PyUnicode_FromFormat("%s.%s", kinds[k], sizes[p]));
      Ref numbers(Py_BuildValue("nnnn", c.current, c.peak, c.taken, c.given));
      if (!name || !numbers || PyDict_SetItem(found.p, name.p, numbers.p)) return nullptr;
    }
  if (reset == kTotals) stats.retries = stats.failures = stats.waits = stats.device_takes = stats.device_gives = 0;
  return found ? Py_BuildValue("O(nnnnn)", found.p, stats.retries, stats.failures, stats.waits, stats.device_takes,
                               stats.device_gives)
               : nullptr;
}

PyObject* py_set_sync_mode(PyObject*, PyObject* mode) {
  long number = PyLong_AsLong(mode);
  if (PyErr_Occurred()) return nullptr;
  sync_mode = static_cast<int>(number);
  Py_RETURN_NONE;
}

PyObject* py_unit_snapshot(PyObject*, PyObject* device) {
  Device d;
  if (!parse_device(device, &d)) return nullptr;
  Unit* unit = find_unit(d);
  return unit ? device_snapshot(unit) : nullptr;
}

PyObject* py_limit_unit(PyObject*, PyObject* args) {
  PyObject* device;
  unsigned long long nbytes, total = 0;
  Device d;
  if (!PyArg_ParseTuple(args, "OK|K", &device, &nbytes, &total) || !parse_device(device, &d)) return nullptr;
  Unit* unit = find_unit(d);
  if (!unit) return nullptr;
  unit->limit = nbytes;
  if (total) unit->total = total;
  Py_RETURN_NONE;
}

PyObject* py_empty_unit_cache(PyObject*, PyObject* device) {
  Stream* s = stream_of(device, 0);
  return s ? none_if(device_empty_cache(s->unit)) : nullptr;
}

// kernel_handle(loaded): what Device.load returned, as plans keep it. A native device's kernels are ints, which in a
// plan would be functions of the host.
PyObject* py_kernel_handle(PyObject*, PyObject* loaded) {
  if (!PyLong_Check(loaded)) return Py_NewRef(loaded);
  void* kernel = PyLong_AsVoidPtr(loaded);
  if (!kernel && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "Device.load: expected a kernel, got 0, which stands for none: count kernels from 1");
  return kernel ? PyCapsule_New(kernel, "rushlight.kernel", nullptr) : nullptr;
}

PyMethodDef functions[] = {
    {"set_device_failure", guarded<py_set_device_failure>, METH_O,
     "set_device_failure(callable): what makes errors of a device's methods say who raised them"},
    {"kernel_handle", guarded<py_kernel_handle>, METH_O, "what Device.load returned, as plans keep it"},
    {"move_bytes", guarded<move_bytes>, METH_VARARGS,
     "move_bytes(target, source, non_blocking=False): the bytes of a contiguous tensor to another device; False where "
     "that takes a detour"},
    {"set_sync_mode", guarded<py_set_sync_mode>, METH_O, "set_sync_mode(mode): 1 warns of waits for a device, 2 refuses"},
    {"new_memory_pool", guarded<py_new_memory_pool>, METH_VARARGS,
     "new_memory_pool(take=0, give=0, serves_full=False, is_whole=False): the number of a pool of memory, which two "
     "functions may give and take back; a full device may have of it, and it may not cut its segments"},
    {"set_memory_settings", guarded<py_set_memory_settings>, METH_VARARGS,
     "set_memory_settings(most_cut, most_spare, middle_segment, divisions, collect_at, expands): how memory is cached"},
    {"set_memory_source", guarded<py_set_memory_source>, METH_VARARGS,
     "set_memory_source(take=0, give=0, segments=False): functions that each tensor's memory comes from"},
    {"choose_memory_pool", guarded<py_choose_memory_pool>, METH_VARARGS,
     "choose_memory_pool(number, device): where this thread's memory comes from; 0 ends the last choice"},
    {"release_memory_pool", guarded<py_release_memory_pool>, METH_O, "nobody will ask for a pool's memory again"},
    {"external_stream", guarded<py_external_stream>, METH_VARARGS,
     "external_stream(device, handle): the number of a stream that somebody else made"},
    {"set_full_report", guarded<py_set_full_report>, METH_O,
     "set_full_report(callable): what the message of a full device says of its holders"},
    {"set_memory_history", guarded<py_set_memory_history>, METH_O,
     "set_memory_history(callable): called as (action, unit, address, size, stream) for blocks and segments taken and "
     "given back"},
    {"unit_snapshot", guarded<py_unit_snapshot>, METH_O, "the segments and blocks that the allocator holds"},
    {"limit_unit", guarded<py_limit_unit>, METH_VARARGS,
     "limit_unit(device, nbytes, total=0): hold no more than so many bytes, of so many that there are"},
    {"new_stream", guarded<py_new_stream>, METH_VARARGS, "new_stream(device, priority): the number of a stream"},
    {"keep_stream", guarded<py_keep_stream>, METH_VARARGS,
     "keep_stream(device, number): memory used on a stream is not given back to the device any more"},
    {"current_stream", guarded<py_current_stream>, METH_O, "the number of this thread's current stream on a device"},
    {"stream_handle", guarded<py_stream_handle>, METH_VARARGS,
     "stream_handle(device, number=-1): the device's own name of a stream"},
    {"set_stream", guarded<py_set_stream>, METH_VARARGS,
     "set_stream(device, number): make it this thread's current one"},
    {"synchronize", guarded<py_synchronize>, METH_VARARGS,
     "synchronize(device, number=-1): wait for a stream, or for all; then raise what checks found"},
    {"record_event", guarded<py_record>, METH_VARARGS,
     "record_event(device, number): a mark in a stream; None where a device has one queue"},
    {"wait_event", guarded<py_wait>, METH_VARARGS, "wait_event(device, number, event): the stream waits for the mark"},
    {"query_stream", guarded<py_query_stream>, METH_VARARGS,
     "query_stream(device, number): whether all that was queued is done"},
    {"finish_event", guarded<py_finish>, METH_O, "wait for a mark"},
    {"query_event", guarded<py_query>, METH_O, "whether a mark is reached"},
    {"elapsed_time", guarded<py_elapsed>, METH_VARARGS, "elapsed_time(start, end): milliseconds between two marks"},
    {"used_on_stream", guarded<py_used_on>, METH_VARARGS,
     "used_on_stream(tensor, device, number): its memory waits for that stream before it is reused"},
    {"current_unit", guarded<py_current_unit>, METH_O, "this thread's current unit of a kind of device"},
    {"set_unit", guarded<py_set_unit>, METH_O, "make a unit this thread's current one"},
    {"unit_stats", guarded<py_unit_stats>, METH_VARARGS,
     "unit_stats(device, reset=0): what the allocator counted; 1 starts its peaks anew, 2 its totals"},
    {"empty_unit_cache", guarded<py_empty_unit_cache>, METH_O, "give a device's cached memory back to it"},
    {}};

}  // namespace

// The address of a table, as Device.native() gives it: an int, or a capsule.
const RushlightDevice* native_device_table(PyObject* given) {
  void* address =
      PyCapsule_CheckExact(given) ? PyCapsule_GetPointer(given, PyCapsule_GetName(given)) : PyLong_AsVoidPtr(given);
  if (!address) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError,
                      "register_device: native() must return the address of a RushlightDevice, got 0");
    return nullptr;
  }
  auto* table = static_cast<const RushlightDevice*>(address);
  if (table->version != RUSHLIGHT_DEVICE_VERSION)
    return PyErr_Format(PyExc_RuntimeError, "register_device: the native table has version %u, this core needs %d",
                        table->version, RUSHLIGHT_DEVICE_VERSION),
           nullptr;
  if (!table->allocate || !table->free || !table->copy || !table->launch)
    return PyErr_SetString(PyExc_TypeError, "register_device: a native table needs allocate, free, copy and launch"),
           nullptr;
  bool some = table->new_stream || table->record || table->wait, all = table->new_stream && table->record &&
                                                                       table->wait && table->finish && table->query &&
                                                                       table->forget && table->synchronize;
  if (some && !all)
    return PyErr_SetString(PyExc_TypeError,
                           "register_device: a native table with streams needs synchronize, new_stream, record, wait, "
                           "finish, query and forget"),
           nullptr;
  return table;
}

int init_device(PyObject* module) {
  OutOfMemoryError = PyErr_NewExceptionWithDoc("rushlight.OutOfMemoryError", "A device has no memory left.",
                                               PyExc_RuntimeError, nullptr);
  AcceleratorError = PyErr_NewExceptionWithDoc("rushlight.AcceleratorError", "A device reported an error.",
                                               PyExc_RuntimeError, nullptr);
  if (!OutOfMemoryError || PyModule_AddObjectRef(module, "OutOfMemoryError", OutOfMemoryError)) return -1;
  if (!AcceleratorError || PyModule_AddObjectRef(module, "AcceleratorError", AcceleratorError)) return -1;
  return PyModule_AddFunctions(module, functions) || init_updates(module) ? -1 : 0;
}

}  // namespace rl
