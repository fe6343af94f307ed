// Launches that a thread of its own makes. A launch costs the driver several times what it costs us; with the queue on,
// an op writes its launch into a ring and returns, and the thread calls the driver. One ring for all streams and units:
// what was asked for first reaches the driver first.
//
// Whoever else calls the driver about work on a stream (copies, events, captures, other libraries, those who ask for a
// stream's handle or a tensor's address) drains the queue before, so nobody can tell the difference by order. Errors of
// the driver are reported by the next launch, or the next one who drains.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rl::cuda {

struct Job {
  static constexpr size_t kBytes = 368, kMostArguments = 32;
  int (*call)(Job& job);            // in the queue's thread, which never takes the interpreter lock; a driver's answer
  const char* what;                 // for the message of a failure
  const char* called;               // of a kernel, as its variant's
  void* function;
  void* stream;
  int32_t unit;
  uint32_t blocks, threads;
  uint16_t count;
  bool joins;                       // whether it may be part of a batch
  int64_t asked;                    // while jobs are noted: when, and by which thread of the system
  int64_t asker;
  uint16_t offsets[kMostArguments]; // of arguments in `bytes`
  alignas(16) char bytes[kBytes];
};

extern bool queue_is_on;

// Jobs of one stream made at once, where several wait; sizes of batches, the largest first. Null: one after the other.
constexpr int kBatches[] = {32, 8, 4};
extern int (*call_batch)(Job* const* jobs, int which);

// Room for a job, which `queue_push` makes visible; null where the caller had better call the driver itself: there is
// little work, or the queue is off. Between the two no other thread can ask.
Job* queue_room();
void queue_push();

void drain_slowly();

// All that was queued has reached the driver.
inline void drain() {
  if (__builtin_expect(queue_is_on, 0)) drain_slowly();
}

// What the driver answered to a queued launch that failed, once; 0: none did. `what` says which call it was.
int queue_error(const char** what);

// Starts the thread, or drains the queue and stops it. `enter` makes a unit's context the calling thread's.
bool set_queue(bool on, int (*enter)(int unit));
// Nanoseconds of the clock that profiles have.
int64_t now();

// Keep for each job, from now on, when the queue's thread began and ended it (jobs of a batch: all of them at once), when
// it was asked for, by which thread, and the queue's own. Or keep none: those kept so far, five numbers each.
std::vector<int64_t> note_jobs(bool wanted);
void forget_queue();      // in a forked process, which has no such thread

}  // namespace rl::cuda
