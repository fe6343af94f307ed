// What units did and when, by NVIDIA's CUPTI, for the profiler (rushlight/profiler/cupti.py). Native for two reasons:
// CUPTI asks for buffers and gives them back in threads of its own, in the middle of launches, where Python's lock would
// stop them; and a step of a network leaves tens of thousands of records. The library is opened at run time. Of its
// records, only fields are read whose places are the same since CUDA 11.1 (later versions appended theirs).
#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "boundary.h"
#include "cuda/device.h"
#include "cuda/queue.h"
#include "unlocked.h"

namespace rl {

namespace {

// Kinds of records, as CUPTI numbers them.
enum Kind {
  kMemcpy = 1, kMemset = 2, kDriver = 4, kRuntime = 5, kKernel = 10, kOverhead = 17, kMemcpyBetween = 22, kSync = 38
};
constexpr int kAllKinds[] = {kMemcpy, kMemset, kDriver, kRuntime, kKernel, kOverhead, kMemcpyBetween, kSync};
constexpr size_t kBufferBytes = 4 << 20, kAlign = 64;
constexpr uint32_t kMostCalls = 4096;
constexpr int kSystemThreads = 1, kForced = 1, kDriverCalls = 1, kRuntimeCalls = 2;

struct Cupti {
  int (*version)(uint32_t*);
  int (*register_buffers)(void (*)(uint8_t**, size_t*, size_t*), void (*)(void*, uint32_t, uint8_t*, size_t, size_t));
  int (*register_clock)(uint64_t (*)());          // null, as those below, in old versions
  int (*thread_ids)(int);
  int (*select_driver)(uint32_t, uint8_t);
  int (*select_runtime)(uint32_t, uint8_t);
  int (*enable)(int);
  int (*disable)(int);
  int (*flush)(uint32_t);
  int (*next)(uint8_t*, size_t, uint8_t**);
  int (*dropped)(void*, uint32_t, size_t*);
  int (*call_name)(int, uint32_t, const char**);
  int (*error_text)(int, const char**);
} cupti;

void* library = nullptr;
bool is_recording = false;
struct Filled { uint8_t* at; size_t bytes; };
std::mutex buffers_lock;
std::vector<uint8_t*> spare;
std::vector<Filled> filled;
size_t lost = 0;
void give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  std::lock_guard<std::mutex> lock(buffers_lock);
  *most_records = 0;      // as many as fit
  *size = kBufferBytes;
  if (spare.empty()) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlign, kBufferBytes));
    if (!*buffer) *size = 0;
    return;
  }
  *buffer = spare.back();
  spare.pop_back();
}

void take_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  size_t count = 0;      // asked without our lock: CUPTI has one of its own, under which others ask for buffers
  if (!cupti.dropped || cupti.dropped(nullptr, 0, &count)) count = 0;
  std::lock_guard<std::mutex> lock(buffers_lock);
  lost += count;
  if (valid && is_recording) filled.push_back({buffer, valid});
  else spare.push_back(buffer);
}

// --- records as rows -------------------------------------------------------------------------------------------------

enum Column {
  kKindOf, kBegin, kEnd, kName, kDevice, kContext, kStream, kCorrelation, kThread, kBytes, kGraph, kNode, kGridX, kGridY,
  kGridZ, kBlockX, kBlockY, kBlockZ, kRegistersOf, kShared, kLocal, kWay, kFrom, kTo, kDetail, kColumns
};
constexpr const char* kColumnNames[] = {
    "kind",   "begin",  "end",     "name",    "device",  "context", "stream",    "correlation", "thread",
    "bytes",  "graph",  "node",    "grid_x",  "grid_y",  "grid_z",  "block_x",   "block_y",     "block_z",
    "registers", "shared", "local", "way",    "from",    "to",      "detail"};
static_assert(std::size(kColumnNames) == kColumns);

template <class T>
T at(const uint8_t* record, int place) {
  T value;
  memcpy(&value, record + place, sizeof(T));
  return value;
}

struct Table {
  std::vector<int64_t> rows;      // kColumns each
  std::vector<std::string> names;
  std::unordered_map<std::string, int64_t> numbers;
  std::unordered_map<const char*, int64_t> kernels;
  std::unordered_map<uint64_t, int64_t> calls;

  int64_t number(const std::string& name) {
    auto [found, is_new] = numbers.try_emplace(name, names.size());
    if (is_new) names.push_back(name);
    return found->second;
  }

  int64_t kernel(const char* mangled) {
    if (!mangled) return number("a kernel without a name");
    auto found = kernels.find(mangled);
    if (found != kernels.end()) return found->second;
    int status = 1;
    char* plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    int64_t which = number(status ? mangled : plain);
    std::free(plain);
    return kernels[mangled] = which;
  }

  int64_t call(int domain, uint32_t id) {
    uint64_t key = static_cast<uint64_t>(domain) << 32 | id;
    auto found = calls.find(key);
    if (found != calls.end()) return found->second;
    const char* name = nullptr;
    if (!cupti.call_name || cupti.call_name(domain, id, &name) || !name) name = "a call without a name";
    return calls[key] = number(name);
  }
};

void read_places(const uint8_t* r, int64_t* row, int start, int device, int correlation) {
  row[kBegin] = at<int64_t>(r, start), row[kEnd] = at<int64_t>(r, start + 8);
  row[kDevice] = at<uint32_t>(r, device), row[kContext] = at<uint32_t>(r, device + 4);
  row[kStream] = at<uint32_t>(r, device + 8), row[kCorrelation] = at<uint32_t>(r, correlation);
}

void read_kernel(const uint8_t* r, int64_t* row, Table& table) {
  read_places(r, row, 16, 40, 92);
  row[kName] = table.kernel(at<const char*>(r, 104));
  row[kRegistersOf] = at<uint16_t>(r, 6);
  for (int k = 0; k < 3; k++) row[kGridX + k] = at<int32_t>(r, 52 + 4 * k), row[kBlockX + k] = at<int32_t>(r, 64 + 4 * k);
  row[kShared] = int64_t{at<int32_t>(r, 76)} + at<int32_t>(r, 80);
  row[kLocal] = at<uint32_t>(r, 84);
  row[kNode] = at<int64_t>(r, 144), row[kGraph] = at<uint32_t>(r, 156);
}

void read_copy(const uint8_t* r, int64_t* row, bool is_between) {
  read_places(r, row, 16, 32, is_between ? 60 : 44);
  row[kWay] = r[4], row[kFrom] = r[5], row[kTo] = r[6];
  row[kBytes] = at<int64_t>(r, 8);
  row[kNode] = at<int64_t>(r, is_between ? 72 : 64), row[kGraph] = at<uint32_t>(r, is_between ? 80 : 72);
  if (is_between) row[kDetail] = int64_t{at<uint32_t>(r, 44)} << 32 | at<uint32_t>(r, 52);     // the two units
}

void read_fill(const uint8_t* r, int64_t* row) {
  read_places(r, row, 16, 32, 44);
  row[kTo] = at<uint16_t>(r, 50), row[kBytes] = at<int64_t>(r, 8), row[kDetail] = at<uint32_t>(r, 4);
  row[kNode] = at<int64_t>(r, 64), row[kGraph] = at<uint32_t>(r, 72);
}

void read_call(const uint8_t* r, int64_t* row, Table& table, int domain) {
  row[kBegin] = at<int64_t>(r, 8), row[kEnd] = at<int64_t>(r, 16);
  row[kThread] = at<uint32_t>(r, 28), row[kCorrelation] = at<uint32_t>(r, 32), row[kDetail] = at<uint32_t>(r, 4);
  row[kName] = table.call(domain, at<uint32_t>(r, 4));
}

// False for records that say nothing of time: those of work that had not ended.
bool read_record(const uint8_t* r, int64_t* row, Table& table) {
  int kind = at<int32_t>(r, 0);
  row[kKindOf] = kind, row[kName] = -1;
  switch (kind) {
    case kKernel: read_kernel(r, row, table); break;
    case kMemcpy: read_copy(r, row, false); break;
    case kMemcpyBetween: read_copy(r, row, true); break;
    case kMemset: read_fill(r, row); break;
    case kDriver: read_call(r, row, table, kDriverCalls); break;
    case kRuntime: read_call(r, row, table, kRuntimeCalls); break;
    case kSync:
      row[kBegin] = at<int64_t>(r, 8), row[kEnd] = at<int64_t>(r, 16), row[kCorrelation] = at<uint32_t>(r, 24);
      row[kContext] = at<uint32_t>(r, 28), row[kStream] = at<uint32_t>(r, 32);
      row[kWay] = at<int32_t>(r, 4), row[kDetail] = at<uint32_t>(r, 36);
      break;
    case kOverhead:
      row[kBegin] = at<int64_t>(r, 24), row[kEnd] = at<int64_t>(r, 32);
      row[kWay] = at<int32_t>(r, 4), row[kThread] = at<uint32_t>(r, 16);      // CUpti_ActivityObjectKindId: pt
      break;
    default: return false;
  }
  return row[kBegin] > 0 && row[kEnd] >= row[kBegin];
}

void read_buffer(const Filled& buffer, Table& table) {
  for (uint8_t* record = nullptr; !cupti.next(buffer.at, buffer.bytes, &record) && record;) {
    size_t first = table.rows.size();
    table.rows.resize(first + kColumns);
    if (!read_record(record, &table.rows[first], table)) table.rows.resize(first);
  }
}

PyObject* columns_of(const std::vector<int64_t>& rows, int width, const char* const* names) {
  Ref columns(PyDict_New());
  size_t count = rows.size() / width;
  for (int c = 0; columns && c < width; c++) {
    Ref bytes(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count * sizeof(int64_t))));
    if (!bytes) return nullptr;
    auto* to = reinterpret_cast<int64_t*>(PyBytes_AS_STRING(bytes.p));
    for (size_t i = 0; i < count; i++) to[i] = rows[i * width + c];
    if (PyDict_SetItemString(columns.p, names[c], bytes.p)) return nullptr;
  }
  return columns.release();
}

PyObject* names_of(const std::vector<std::string>& names) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(names.size())));
  for (size_t i = 0; list && i < names.size(); i++) {
    PyObject* name = PyUnicode_DecodeUTF8(names[i].data(), static_cast<Py_ssize_t>(names[i].size()), "replace");
    if (!name) return nullptr;
    PyList_SET_ITEM(list.p, static_cast<Py_ssize_t>(i), name);
  }
  return list.release();
}

// --- what Python asks for --------------------------------------------------------------------------------------------

PyObject* refuse(const char* what, int code) {
  const char* text = nullptr;
  if (cupti.error_text) cupti.error_text(code, &text);
  return PyErr_Format(PyExc_RuntimeError, "CUPTI: %s: %s (%d)", what, text ? text : "it does not say why", code);
}

bool find_all() {
  struct { void** place; const char* name; bool must; } all[] = {
#define FUNCTION(member, name, must) {reinterpret_cast<void**>(&cupti.member), name, must}
      FUNCTION(version, "cuptiGetVersion", true),
      FUNCTION(register_buffers, "cuptiActivityRegisterCallbacks", true),
      FUNCTION(register_clock, "cuptiActivityRegisterTimestampCallback", true),
      FUNCTION(thread_ids, "cuptiSetThreadIdType", true),
      FUNCTION(select_driver, "cuptiActivityEnableDriverApi", false),
      FUNCTION(select_runtime, "cuptiActivityEnableRuntimeApi", false),
      FUNCTION(enable, "cuptiActivityEnable", true),
      FUNCTION(disable, "cuptiActivityDisable", true),
      FUNCTION(flush, "cuptiActivityFlushAll", true),
      FUNCTION(next, "cuptiActivityGetNextRecord", true),
      FUNCTION(dropped, "cuptiActivityGetNumDroppedRecords", false),
      FUNCTION(call_name, "cuptiGetCallbackName", false),
      FUNCTION(error_text, "cuptiGetResultString", false)};
#undef FUNCTION
  for (auto& entry : all) {
    *entry.place = dlsym(library, entry.name);
    if (!*entry.place && entry.must)
      return PyErr_Format(PyExc_RuntimeError, "CUPTI has no %s: it is older than CUDA 11.8's", entry.name), false;
  }
  return true;
}

// cuda_activity_open(path): CUPTI's version; OSError where it is not there, RuntimeError where it does not start.
PyObject* py_open(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (!text) return nullptr;
  if (!library) {
    if (!(library = dlopen(text, RTLD_NOW | RTLD_LOCAL))) return PyErr_SetString(PyExc_OSError, dlerror()), nullptr;
    if (!find_all()) return library = nullptr, nullptr;
    pthread_atfork(nullptr, nullptr, [] { is_recording = false; });
  }
  uint32_t version = 0;
  if (int code = cupti.version(&version)) return refuse("it does not start", code);
  return PyLong_FromUnsignedLong(version);
}

// cuda_activity_calls(): (names of the driver's calls, of the runtime's) by CUPTI's numbers, None where there is none.
PyObject* py_calls(PyObject*, PyObject*) {
  Ref both(PyTuple_New(2));
  for (int domain = kDriverCalls; both && domain <= kRuntimeCalls; domain++) {
    Ref list(PyList_New(0));
    for (uint32_t id = 0; list && id < kMostCalls; id++) {
      const char* name = nullptr;
      if (!library || !cupti.call_name || cupti.call_name(domain, id, &name)) name = nullptr;
      if (id && !name) break;
      Ref text(name ? PyUnicode_FromString(name) : Py_NewRef(Py_None));
      if (!text || PyList_Append(list.p, text.p)) return nullptr;
    }
    if (!list) return nullptr;
    PyTuple_SET_ITEM(both.p, domain - 1, list.release());
  }
  return both.release();
}

void record_no_more() {
  for (int kind : kAllKinds) cupti.disable(kind);
}

// All calls of a kind but those of these numbers; all where CUPTI cannot choose.
int record_calls(int kind, PyObject* left_out) {
  if (int code = cupti.enable(kind)) return code;
  auto* select = kind == kDriver ? cupti.select_driver : cupti.select_runtime;
  Ref items(PySequence_Fast(left_out, "cuda_activity_start: expected numbers"));
  for (Py_ssize_t i = 0; select && items && i < PySequence_Fast_GET_SIZE(items.p); i++) {
    auto id = static_cast<uint32_t>(PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(items.p, i)));
    if (!PyErr_Occurred()) select(id, 0);      // where it does not, there are more records
  }
  return PyErr_Occurred() ? -1 : 0;
}

// cuda_activity_start(kinds, driver, runtime): records of these kinds are kept from here on; of calls, none with these
// numbers, where CUPTI can choose. RuntimeError where CUPTI refuses: then none are.
PyObject* py_start(PyObject*, PyObject* args) {
  PyObject *kinds, *driver, *runtime;
  if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &kinds, &driver, &runtime)) return nullptr;
  if (!library) return PyErr_SetString(PyExc_RuntimeError, "CUPTI is not open"), nullptr;
  if (is_recording) return PyErr_SetString(PyExc_RuntimeError, "CUPTI is recording"), nullptr;
  if (int code = cupti.register_clock([] { return static_cast<uint64_t>(cuda::now()); })) return refuse("the clock", code);
  if (int code = cupti.thread_ids(kSystemThreads)) return refuse("numbers of threads", code);
  if (int code = cupti.register_buffers(give_buffer, take_buffer)) return refuse("buffers", code);
  is_recording = true;
  lost = 0;
  int code = 0;
  for (Py_ssize_t i = 0; !code && i < PyTuple_GET_SIZE(kinds); i++) {
    int kind = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(kinds, i)));
    bool is_call = kind == kDriver || kind == kRuntime;
    code = is_call ? record_calls(kind, kind == kDriver ? driver : runtime) : cupti.enable(kind);
  }
  if (!code && !PyErr_Occurred()) {
    cuda::note_jobs(true);
    Py_RETURN_NONE;
  }
  record_no_more();
  is_recording = false;
  return PyErr_Occurred() ? nullptr : refuse("recording does not start", code);
}

// cuda_activity_stop(): {columns: {name: int64s}, names, jobs: {name: int64s}, dropped}; the work that shall be among
// them has ended. `jobs` are calls that the queue's thread made: who asked for each, and when.
PyObject* py_stop(PyObject*, PyObject*) {
  if (!is_recording) return PyErr_SetString(PyExc_RuntimeError, "CUPTI is not recording"), nullptr;
  Table table;
  std::vector<int64_t> jobs;
  {
    Unlocked others_run;
    cuda::drain();
    record_no_more();
    cupti.flush(0);
    cupti.flush(kForced);
    jobs = cuda::note_jobs(false);
    std::vector<Filled> all;
    {
      std::lock_guard<std::mutex> lock(buffers_lock);
      all.swap(filled);
      is_recording = false;
    }
    for (const Filled& buffer : all) read_buffer(buffer, table);
    std::lock_guard<std::mutex> lock(buffers_lock);
    for (const Filled& buffer : all) spare.push_back(buffer.at);
    for (; spare.size() > 4; spare.pop_back()) std::free(spare.back());
  }
  constexpr const char* kJobNames[] = {"begin", "end", "asked", "asker", "worker"};
  Ref columns(columns_of(table.rows, kColumns, kColumnNames)), names(names_of(table.names));
  Ref asked(columns_of(jobs, static_cast<int>(std::size(kJobNames)), kJobNames));
  if (!columns || !names || !asked) return nullptr;
  return Py_BuildValue("{sOsOsOsn}", "columns", columns.p, "names", names.p, "jobs", asked.p, "dropped",
                       static_cast<Py_ssize_t>(lost));
}

PyMethodDef functions[] = {
    {"cuda_activity_open", guarded<py_open>, METH_O, "cuda_activity_open(path): opens CUPTI; its version"},
    {"cuda_activity_calls", guarded<py_calls>, METH_NOARGS,
     "cuda_activity_calls(): names of the driver's calls and of the runtime's, by CUPTI's numbers"},
    {"cuda_activity_start", guarded<py_start>, METH_VARARGS,
     "cuda_activity_start(kinds, driver, runtime): keep records of these kinds, not of these calls"},
    {"cuda_activity_stop", guarded<py_stop>, METH_NOARGS, "cuda_activity_stop(): the records, as columns"},
    {}};

}  // namespace

int init_cuda_activity(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
