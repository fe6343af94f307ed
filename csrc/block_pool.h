// Free stretches of memory, the smallest that fits first: what every caching allocator here is made of. A block's
// record lies outside the block, so the memory may be anybody's, a device's that the host cannot read included. Its
// callers lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <set>

namespace rl {

struct Block {
  char* data;
  size_t size;
  size_t warm;  // bytes of a free block that really are there already: pages of a reservation of address space
  Block* before;           // neighbours by address; null at the ends of what was got in one piece
  Block* after;
  bool is_free;
  void* owner = nullptr;   // of the allocator's choosing: a stream's pool
  void* extra = nullptr;   // likewise
  bool is_absent = false;  // address space without memory: neither free nor lent
  uint64_t freed_at = 0;   // of the allocator's own counting
  size_t asked = 0;        // bytes of the request it serves
};

class BlockPool {
 public:
  // The smallest free block that is large enough, and no larger than `most`, cut to size unless `whole`; null if there
  // is none.
  Block* take(size_t want, size_t most = SIZE_MAX, bool whole = false) {
    Block probe{nullptr, want, 0, nullptr, nullptr, true};
    auto it = free_.lower_bound(&probe);
    if (it == free_.end() || (*it)->size > most) return nullptr;
    Block* b = *it;
    free_.erase(it);
    if (b->size > want && !whole) cut(b, want);
    b->is_free = false;
    return b;
  }

  // A block joins the free ones, and its free neighbours. The block it has become.
  Block* put(Block* b) {
    b->is_free = true;
    if (Block* next = b->after; next && next->is_free) {
      free_.erase(next);
      join(b, next);
    }
    if (Block* last = b->before; last && last->is_free) {
      free_.erase(last);
      join(last, b);
      b = last;
    }
    free_.insert(b);
    return b;
  }

  void remove(Block* b) {
    free_.erase(b);
    b->is_free = false;
  }

  auto begin() const { return free_.begin(); }
  auto end() const { return free_.end(); }

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };
  std::set<Block*, BySize> free_;

  // Keep the first `want` bytes; the rest becomes a free block of its own.
  void cut(Block* b, size_t want) {
    size_t warm = b->warm > want ? b->warm - want : 0;
    auto* rest = new (std::nothrow) Block{b->data + want, b->size - want, warm, b, b->after, true, b->owner};
    if (!rest) return;
    if (b->after) b->after->before = rest;
    b->after = rest;
    b->size = want;
    b->warm -= warm;
    free_.insert(rest);
  }

  static void join(Block* b, Block* next) {
    b->size += next->size;
    b->warm += next->warm;
    b->after = next->after;
    if (b->after) b->after->before = b;
    delete next;
  }
};

}  // namespace rl
