// Memory for tensors: freed blocks stay with us, since fresh pages from the system cost more than most kernels that
// would fill them. Entry points may be called without the interpreter lock.
#pragma once
#include <atomic>
#include <cstddef>

namespace rl {

struct SpinLock {
  std::atomic_flag flag = ATOMIC_FLAG_INIT;
  void lock() {
    while (flag.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag.clear(std::memory_order_release); }
};

struct Block;  // a stretch of an arena; see arena.cpp

struct Lent {
  char* data = nullptr;    // null: the system has no memory left
  size_t capacity = 0;     // bytes that may be used
  Block* block = nullptr;  // null for small ones
};

Lent arena_take(size_t nbytes);
void arena_give(const Lent& lent);
void arena_empty();  // pages of free blocks go back to the system
// A child forked in between finds the arena whole and unlocked.
void arena_before_fork();
void arena_after_fork();

struct MemoryStats {
  size_t allocated, cached, peak;
};
MemoryStats memory_stats();
void reset_peak_memory();

}  // namespace rl
