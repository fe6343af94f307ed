// See cuda/queue.h.
#include "cuda/queue.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <new>
#include <thread>

#include "arena.h"

namespace rl::cuda {

bool queue_is_on = false;
int (*call_batch)(Job* const* jobs, int which) = nullptr;

namespace {

constexpr uint64_t kJobs = 1024;
constexpr uint64_t kDirect = 2;         // launches after the queue was drained that the caller makes itself
constexpr int kSpins = 20000;           // looks for a job before the thread sleeps: some 0.3 ms
constexpr int kLooks = 4096;            // at the ring by those who wait, before others get the processor

Job* ring = nullptr;
alignas(64) std::atomic<uint64_t> written{0};     // jobs ever queued
alignas(64) std::atomic<uint64_t> called{0};      // those that reached the driver
alignas(64) std::atomic<bool> is_asleep{false};
std::atomic<bool> is_ending{false};
std::atomic<int> error{0};
std::atomic<const char*> failed_call{nullptr};
uint64_t launches_since_drain = 0;                // under `producers`
SpinLock producers;
std::mutex sleep_lock;
std::condition_variable wake;
std::thread* worker = nullptr;
int (*enter_unit)(int) = nullptr;
std::atomic<bool> is_noting{false};
std::vector<int64_t> noted;                       // the worker's, who is idle when others look

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether there is a job beyond `seen`; false where the thread shall end.
bool await_job(uint64_t seen) {
  for (;;) {
    for (int i = 0; i < kSpins; i++) {
      if (written.load(std::memory_order_acquire) != seen) return true;
      relax();
    }
    if (is_ending) return false;
    std::unique_lock<std::mutex> lock(sleep_lock);
    is_asleep = true;      // before the last look: one who writes after it sees this, and wakes
    wake.wait(lock, [&] { return written.load() != seen || is_ending; });
    is_asleep = false;
  }
}

// Jobs from the `n`-th on that are made at once: their number, and the batch that they are; 1 where it is no batch.
int find_batch(uint64_t n, Job** jobs, int* which) {
  constexpr int kMost = kBatches[0], kLeast = kBatches[2];
  uint64_t ready = written.load(std::memory_order_acquire) - n;
  Job& first = ring[n % kJobs];
  if (!call_batch || ready < kLeast || !first.joins) return 1;
  int count = 0;
  for (; count < kMost && static_cast<uint64_t>(count) < ready; count++) {
    Job& job = ring[(n + count) % kJobs];
    if (!job.joins || job.stream != first.stream || job.unit != first.unit) break;
    jobs[count] = &job;
  }
  for (*which = 0; *which < 3; ++*which)
    if (count >= kBatches[*which]) return kBatches[*which];
  return 1;
}

int64_t this_thread() { return syscall(SYS_gettid); }

// One job, or a batch.
int make(Job& job, Job* const* jobs, int count, int which) {
  return count > 1 ? call_batch(jobs, which) : job.call(job);
}

int make_noted(Job& job, Job* const* jobs, int count, int which) {
  int64_t begin = now();
  int code = make(job, jobs, count, which);
  int64_t end = now();
  for (int i = 0; i < count; i++) {
    const Job& made = count > 1 ? *jobs[i] : job;
    if (made.asked) noted.insert(noted.end(), {begin, end, made.asked, made.asker, this_thread()});
  }
  return code;
}

void work() {
  int unit = -1;
  for (uint64_t n = called.load(); await_job(n);) {
    Job& job = ring[n % kJobs];
    int code = 0;
    if (job.unit != unit) {
      code = enter_unit(job.unit);
      unit = code ? -1 : job.unit;
    }
    Job* jobs[kBatches[0]];
    int which = 0, count = code ? 1 : find_batch(n, jobs, &which);
    if (!code) code = (is_noting ? make_noted : make)(job, jobs, count, which);
    int none = 0;
    if (code && error.compare_exchange_strong(none, code)) failed_call = job.what;
    called.store(n += count, std::memory_order_release);
  }
}

void wait_until(uint64_t reached) {
  for (int looks = 0; called.load(std::memory_order_acquire) < reached; looks++) {
    if (looks < kLooks) relax();
    else std::this_thread::yield();
  }
}

void stop_at_exit() { set_queue(false, nullptr); }

}  // namespace

Job* queue_room() {
  if (!queue_is_on) return nullptr;
  producers.lock();
  uint64_t n = written.load(std::memory_order_relaxed);
  if (launches_since_drain < kDirect && called.load(std::memory_order_acquire) == n) {
    launches_since_drain++;
    producers.unlock();
    return nullptr;
  }
  if (n - called.load(std::memory_order_acquire) >= kJobs) wait_until(n - kJobs + 1);
  return &ring[n % kJobs];
}

void queue_push() {
  Job& job = ring[written.load(std::memory_order_relaxed) % kJobs];
  job.asked = 0;
  if (__builtin_expect(is_noting.load(std::memory_order_relaxed), 0)) job.asked = now(), job.asker = this_thread();
  written.store(written.load(std::memory_order_relaxed) + 1);     // in one order with `is_asleep`
  bool wakes = is_asleep.load();
  producers.unlock();
  if (!wakes) return;
  std::lock_guard<std::mutex> lock(sleep_lock);
  wake.notify_one();
}

void drain_slowly() {
  producers.lock();
  launches_since_drain = 0;
  uint64_t n = written.load(std::memory_order_relaxed);
  producers.unlock();
  wait_until(n);
}

int queue_error(const char** what) {
  if (__builtin_expect(!error.load(std::memory_order_relaxed), 1)) return 0;
  *what = failed_call ? failed_call.load() : "launch";
  return error.exchange(0);
}

bool set_queue(bool on, int (*enter)(int unit)) {
  if (on == queue_is_on) return on;
  if (!on) {
    drain_slowly();
    queue_is_on = false;
    is_ending = true;
    { std::lock_guard<std::mutex> lock(sleep_lock); }
    wake.notify_one();
    worker->join();
    delete worker;
    worker = nullptr;
    return false;
  }
  static bool stops = !std::atexit(stop_at_exit);      // before the driver ends, which was opened earlier
  if (!ring) ring = new Job[kJobs];
  enter_unit = enter;
  is_ending = false;
  worker = new std::thread(work);
  return queue_is_on = stops;
}

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

std::vector<int64_t> note_jobs(bool wanted) {
  drain();
  is_noting = wanted;
  std::vector<int64_t> kept;
  kept.swap(noted);
  return kept;
}

void forget_queue() { queue_is_on = false; }

}  // namespace rl::cuda
