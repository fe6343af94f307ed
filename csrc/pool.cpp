// A fixed set of workers that take chunk numbers from one atomic counter.
#include "pool.h"

#include "plan.h"

#include <sched.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace rl {

namespace {

struct Job {
  void (*body)(void*, int64_t, int64_t);
  void* context;
  int64_t extent, grain, chunks;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> finished{0};
};

int default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    int n = CPU_COUNT(&set);
    if (n > 0) return n;
  }
  int n = static_cast<int>(std::thread::hardware_concurrency());
  return n > 0 ? n : 1;
}

thread_local bool inside_worker = false;

void work_on(Job* job) {
  for (;;) {
    int64_t chunk = job->next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= job->chunks) return;
    int64_t begin = chunk * job->grain;
    int64_t end = begin + job->grain < job->extent ? begin + job->grain : job->extent;
    job->body(job->context, begin, end);
    job->finished.fetch_add(1, std::memory_order_release);
  }
}

struct Pool {
  std::mutex entry;                 // one parallel_for at a time; a second caller runs its work alone
  std::mutex mutex;
  std::condition_variable wake;
  Job* job = nullptr;
  uint64_t generation = 0;
  int users = 0;                    // workers that may still look at `job`
  std::atomic<int> threads{default_threads()};
  int started = 0;
  pid_t owner = getpid();

  void start_workers() {
    while (started < threads - 1) {
      std::thread([this] { worker(); }).detach();
      started++;
    }
  }

  void worker() {
    inside_worker = true;
    uint64_t seen = 0;
    int rank;
    {
      std::lock_guard<std::mutex> hold(mutex);
      rank = ++ranks;
    }
    for (;;) {
      Job* mine = nullptr;
      // Spin briefly: back-to-back kernels would otherwise pay a wake-up each.
      for (int i = 0; i < 20000 && latest.load(std::memory_order_acquire) == seen; i++) {
#if defined(__aarch64__)
        asm volatile("yield");
#elif defined(__x86_64__)
        asm volatile("pause");
#endif
      }
      {
        std::unique_lock<std::mutex> hold(mutex);
        wake.wait(hold, [&] { return generation != seen; });
        seen = generation;
        if (job && rank < threads) {
          mine = job;
          users++;
        }
      }
      if (!mine) continue;
      work_on(mine);
      std::lock_guard<std::mutex> hold(mutex);
      users--;
    }
  }

  void run(Job& j) {
    {
      std::lock_guard<std::mutex> hold(mutex);
      start_workers();
      job = &j;
      generation++;
      latest.store(generation, std::memory_order_release);
    }
    wake.notify_all();
    work_on(&j);
    for (;;) {
      std::unique_lock<std::mutex> hold(mutex);
      job = nullptr;
      if (users == 0 && j.finished.load(std::memory_order_acquire) == j.chunks) return;
      hold.unlock();
      sched_yield();
    }
  }

  int ranks = 0;
  std::atomic<uint64_t> latest{0};
};

std::atomic<Pool*> pool{nullptr};
std::once_flag first_use;

// A forked child has no workers: it gets a pool of its own, keeping the thread setting.
void after_fork() {
  auto* fresh = new Pool;
  fresh->threads = pool.load()->threads.load();
  pool = fresh;
}

// Kernels of several threads may be the first at once: they run without the interpreter lock.
Pool& the_pool() {
  Pool* result = pool.load(std::memory_order_acquire);
  if (__builtin_expect(result != nullptr, 1)) return *result;
  std::call_once(first_use, [] {
    pool = new Pool;
    pthread_atfork(nullptr, nullptr, after_fork);
  });
  return *pool.load();
}

}  // namespace

void parallel_for(int64_t extent, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  if (extent <= 0) return;
  if (grain < 1) grain = 1;
  if (extent <= grain) {
    body(context, 0, extent);
    return;
  }
  Job job{body, context, extent, grain, (extent + grain - 1) / grain};
  Pool& p = the_pool();
  if (p.threads > 1 && !inside_worker && p.entry.try_lock()) {
    p.run(job);
    p.entry.unlock();
  } else {
    work_on(&job);
  }
}

int num_threads() { return the_pool().threads; }
void set_num_threads(int n) {
  the_pool().threads = n < 1 ? 1 : n;
  choose_plan_threads(n);   // how work is cut depends on it, results do not
}

}  // namespace rl
