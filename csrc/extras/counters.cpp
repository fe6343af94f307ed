// Counters in memory that processes share: how ranks of one machine tell each other how far they are. A wait spins for
// some microseconds, since the other side is usually almost there, and then sleeps in the kernel; Python has no way to
// read such memory in order, nor to sleep on it.
//
// A counter only grows (modulo 2^32). Beside it stands what the rank is doing (a mark per parity of the counter), so
// that ranks which are not at the same call find out instead of mixing their bytes.
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "boundary.h"
#include "counters.h"
#include "unlocked.h"

namespace rl {

namespace {

struct Counter {  // one cache line: a rank writes its own only
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;
  std::atomic<uint64_t> mark[2];
};
static_assert(sizeof(Counter) <= 64 && std::atomic<uint32_t>::is_always_lock_free);

bool has_reached(const Counter* c, uint32_t value) {
  return static_cast<int32_t>(c->value.load(std::memory_order_acquire) - value) >= 0;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores; this takes about as long as x86's pause
#endif
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr int kSpins = 200;   // some 5 us: more would take the core from the rank that is waited for
constexpr int kYields = 20;

// Whether the counter got there before the time `until`.
bool wait_for(Counter* c, uint32_t value, double until) {
  for (int i = 0; i < kSpins; i++) {
    if (has_reached(c, value)) return true;
    pause();
  }
  for (int i = 0; i < kYields; i++) {
    if (has_reached(c, value)) return true;
    sched_yield();
  }
  c->sleepers.fetch_add(1);
  bool there = false;
  for (;;) {
    uint32_t seen = c->value.load();
    there = static_cast<int32_t>(seen - value) >= 0;
    double left = until - now();
    if (there || left <= 0) break;
    auto whole = static_cast<time_t>(left);
    timespec span{whole, static_cast<long>((left - static_cast<double>(whole)) * 1e9)};
    syscall(SYS_futex, &c->value, FUTEX_WAIT, seen, &span, nullptr, 0);
  }
  c->sleepers.fetch_sub(1);
  return there;
}

// signal_counter(address, value, mark): this counter is at `value` now, doing what `mark` says.
PyObject* py_signal_counter(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "signal_counter takes 3 arguments, got %zd", count);
  auto* c = static_cast<Counter*>(PyLong_AsVoidPtr(args[0]));
  auto value = static_cast<uint32_t>(PyLong_AsUnsignedLongMask(args[1]));
  uint64_t mark = PyLong_AsUnsignedLongLongMask(args[2]);
  if (PyErr_Occurred()) return nullptr;
  c->mark[value & 1].store(mark, std::memory_order_relaxed);
  c->value.store(value);
  if (c->sleepers.load()) syscall(SYS_futex, &c->value, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  Py_RETURN_NONE;
}

// wait_counters(address, bytes between counters, how many, value, mark, seconds): -1 when all are at `value` with that
// mark (0 stands for any); i when counter i did not come in time; -2 - i when it came with another mark.
PyObject* py_wait_counters(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 6) return PyErr_Format(PyExc_TypeError, "wait_counters takes 6 arguments, got %zd", count);
  auto* base = static_cast<char*>(PyLong_AsVoidPtr(args[0]));
  long stride = PyLong_AsLong(args[1]), n = PyLong_AsLong(args[2]);
  auto value = static_cast<uint32_t>(PyLong_AsUnsignedLongMask(args[3]));
  uint64_t mark = PyLong_AsUnsignedLongLongMask(args[4]);
  double seconds = PyFloat_AsDouble(args[5]);
  if (PyErr_Occurred()) return nullptr;
  auto counter = [&](long i) { return reinterpret_cast<Counter*>(base + i * stride); };
  long late = -1;
  long i = 0;
  while (i < n && has_reached(counter(i), value)) i++;
  if (i < n) {
    Unlocked unlocked;
    double until = now() + seconds;
    for (; i < n && late < 0; i++)
      if (!wait_for(counter(i), value, until)) late = i;
  }
  if (late < 0 && mark)
    for (long k = 0; k < n; k++) {
      Counter* c = counter(k);
      // A rank may be further already: then it went through this call, and through its own comparison.
      if (c->value.load(std::memory_order_acquire) == value && c->mark[value & 1].load() != mark)
        return PyLong_FromLong(-2 - k);
    }
  return PyLong_FromLong(late);
}

PyMethodDef methods[] = {
    {"signal_counter", guarded_method<py_signal_counter>(), METH_FASTCALL, nullptr},
    {"wait_counters", guarded_method<py_wait_counters>(), METH_FASTCALL, nullptr},
    {}};

}  // namespace

int init_counters(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace rl
