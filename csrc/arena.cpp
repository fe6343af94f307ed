// The caching allocator. Small blocks live in free lists by size class. Larger ones are cut from wide reservations of
// address space, the smallest free stretch that fits first, and join their free neighbours when they come back: a
// training step whose tensors differ in size reuses the same pages, so its peak is near what is alive at once.
#include "arena.h"

#include "block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace rl {

namespace {

constexpr size_t kAlign = 64;
constexpr size_t kPage = 4096;  // blocks of reservations are multiples of this
constexpr size_t kHuge = size_t(1) << 21;
constexpr size_t kSmall = size_t(1) << 17;        // below: free lists
constexpr size_t kReservation = size_t(1) << 30;  // address space, not memory

struct Guard {
  SpinLock& lock;
  explicit Guard(SpinLock& l) : lock(l) { lock.lock(); }
  ~Guard() { lock.unlock(); }
};

class Arena {
 public:
  Lent take(size_t nbytes) { return nbytes < kSmall ? take_small(nbytes) : take_large(nbytes); }

  void give(const Lent& lent) {
    if (lent.block)
      give_large(lent.block);
    else
      give_small(lent.data, lent.capacity);
  }

  void lock() { lock_.lock(); }
  void unlock() { lock_.unlock(); }

  // The blocks leave the free ones while their pages go: the system takes its time, and others must not spin meanwhile.
  void empty() {
    std::vector<Block*> warm;
    {
      Guard guard(lock_);
      for (Block* b : free_)
        if (b->warm) warm.push_back(b);
      for (Block* b : warm) free_.remove(b);
    }
    std::vector<bool> dropped;
    for (Block* b : warm) dropped.push_back(drop_pages(b));
    Guard guard(lock_);
    for (size_t i = 0; i < warm.size(); i++) {
      if (dropped[i]) {
        cached_ -= warm[i]->warm;
        warm[i]->warm = 0;
      }
      free_.put(warm[i]);  // may join it to one before it, or one that comes later in the list: those have not been put
                           // back yet
    }
  }

  MemoryStats stats() const { return {allocated_, cached_, peak_}; }
  void reset_peak() { peak_ = allocated_; }

 private:
  SpinLock lock_;
  void* small_[64] = {};
  BlockPool free_;
  size_t allocated_ = 0, cached_ = 0, peak_ = 0, limit_ = 0;

  void count(size_t n) {
    allocated_ += n;
    if (allocated_ > peak_) peak_ = allocated_;
  }

  // Four classes per power of two.
  static int size_class(size_t n, size_t* rounded) {
    if (n < kAlign) n = kAlign;
    int top = 63 - __builtin_clzll(n);  // n >= 2^top
    size_t quarter = (size_t(1) << top) / 4;
    size_t steps = (n - (size_t(1) << top) + quarter - 1) / quarter;
    *rounded = (size_t(1) << top) + steps * quarter;
    return (top - 6) * 4 + static_cast<int>(steps);
  }

  Lent take_small(size_t nbytes) {
    Lent lent;
    int c = size_class(nbytes, &lent.capacity);
    {
      Guard guard(lock_);
      count(lent.capacity);
      if (void* block = small_[c]) {
        small_[c] = *static_cast<void**>(block);
        cached_ -= lent.capacity;
        lent.data = static_cast<char*>(block);
        return lent;
      }
    }
    lent.data = static_cast<char*>(std::aligned_alloc(kAlign, (lent.capacity + kAlign - 1) / kAlign * kAlign));
    return lent;
  }

  void give_small(char* data, size_t capacity) {
    size_t rounded;
    int c = size_class(capacity, &rounded);
    Guard guard(lock_);
    *reinterpret_cast<void**>(data) = small_[c];
    small_[c] = data;
    allocated_ -= capacity;
    cached_ += capacity;
  }

  Lent take_large(size_t nbytes) {
    size_t want = (nbytes + kPage - 1) / kPage * kPage;
    if (want < nbytes || want > size_t(1) << 46) return {};
    {
      Guard guard(lock_);
      if (Block* b = take_free(want)) return {b->data, b->size, b};
    }
    Block* fresh = reserve(want);
    if (!fresh) return {};
    Guard guard(lock_);
    free_.put(fresh);
    Block* b = take_free(want);
    return {b->data, b->size, b};
  }

  // With the lock held: a free block, counted.
  Block* take_free(size_t want) {
    Block* b = free_.take(want);
    if (!b) return nullptr;
    cached_ -= b->warm;
    count(b->size);
    return b;
  }

  Block* reserve(size_t want) {
    size_t least = (want + kHuge - 1) / kHuge * kHuge;
    for (size_t size : {least > kReservation ? least : kReservation, least}) {
      void* p = mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) continue;
      auto* start = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + kHuge - 1) / kHuge * kHuge);
#ifdef MADV_HUGEPAGE
      madvise(start, size, MADV_HUGEPAGE);
#endif
      return new Block{start, size, 0, nullptr, nullptr, true};
    }
    return nullptr;
  }

  void give_large(Block* b) {
    bool full;
    {
      Guard guard(lock_);
      full = cached_ + b->size > limit();
    }
    bool dropped = full && drop_pages(b);   // not under the lock: the block is nobody's else yet
    Guard guard(lock_);
    allocated_ -= b->size;
    b->warm = dropped ? 0 : b->size;
    cached_ += b->warm;
    free_.put(b);
  }

  // Only whole pages of the system's own size can go.
  static bool drop_pages(Block* b) {
    uintptr_t page = page_size(), start = reinterpret_cast<uintptr_t>(b->data);
    uintptr_t first = (start + page - 1) / page * page, end = (start + b->size) / page * page;
    return first < end && !madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }

  static size_t page_size() {
    static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }

  size_t limit() {
    if (!limit_) limit_ = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4;
    return limit_;
  }
};

Arena& arena() {
  static Arena* a = new Arena;  // never destroyed: tensors may outlive static destructors
  return *a;
}

}  // namespace

Lent arena_take(size_t nbytes) {
  return arena().take(nbytes);
}
void arena_give(const Lent& lent) {
  arena().give(lent);
}
void arena_empty() {
  arena().empty();
}
void arena_before_fork() {
  arena().lock();
}
void arena_after_fork() {
  arena().unlock();
}
MemoryStats memory_stats() {
  return arena().stats();
}
void reset_peak_memory() {
  arena().reset_peak();
}

}  // namespace rl
