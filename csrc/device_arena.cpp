#include "device_arena.h"

#include <algorithm>

namespace rl {

AddressSpace address_space;

namespace {

// What a block remembers of the requests it serves (device_memory.cpp): its size where they are large, otherwise 0.
void resize(Block* b, size_t size) {
  b->warm = b->warm ? size : 0;
  b->size = size;
}

// The block's first `size` bytes; the others become a block behind it.
Block* split(Block* b, size_t size) {
  auto* rest = new Block{b->data + size, b->size - size, b->warm ? b->size - size : 0, b, b->after, false, b->owner};
  rest->is_absent = b->is_absent;
  if (b->after) b->after->before = rest;
  b->after = rest;
  resize(b, size);
  return rest;
}

void swallow_next(Block* b) {
  Block* next = b->after;
  b->after = next->after;
  if (b->after) b->after->before = b;
  resize(b, b->size + next->size);
  delete next;
}

}  // namespace

bool can_expand(const Unit* unit) { return address_space.table && address_space.table == unit->table; }

Arena* new_arena(Unit* unit, size_t nbytes, size_t page, Stream* owner, bool large, int* status) {
  size_t size = (nbytes + page - 1) / page * page;
  void* base = nullptr;
  if ((*status = address_space.reserve(unit->device.index, size, &base))) return nullptr;
  auto* all = new Block{static_cast<char*>(base), size, large ? size : 0, nullptr, nullptr, false, owner};
  all->is_absent = true;
  return new Arena{static_cast<char*>(base), page, all};
}

Growth plan_growth(Arena* arena, BlockPool& pool, size_t want) {
  Growth growth;
  growth.page = arena->page;
  size_t size = 0;
  for (Block* b = arena->first; b && size < want; b = b->after) {
    if (!b->is_free && !b->is_absent) {
      growth.run.clear();
      size = 0;
      continue;
    }
    growth.run.push_back(b);
    size += b->size;
  }
  if (size < want) return Growth{};
  Block* last = growth.run.back();
  if (last->is_absent) growth.rest = (size - want) / arena->page * arena->page;
  for (Block* b : growth.run) {
    if (b->is_free) pool.remove(b);
    else growth.missing += b->size - (b == last ? growth.rest : 0);
  }
  return growth;
}

int fill(Unit* unit, const Growth& growth) {
  for (size_t i = 0; i < growth.run.size(); i++) {
    Block* b = growth.run[i];
    size_t size = b->size - (i + 1 == growth.run.size() ? growth.rest : 0);
    int status = b->is_absent ? address_space.fill(unit->device.index, b->data, size, growth.page) : RUSHLIGHT_OK;
    if (!status) continue;
    for (size_t k = 0; k < i; k++)   // all but the last are filled whole
      if (growth.run[k]->is_absent) address_space.clear(unit->device.index, growth.run[k]->data, growth.run[k]->size);
    return status;
  }
  return RUSHLIGHT_OK;
}

Block* finish_growth(const Growth& growth) {
  if (growth.rest) split(growth.run.back(), growth.run.back()->size - growth.rest);
  Block* b = growth.run.front();
  b->is_absent = false;
  for (size_t i = 1; i < growth.run.size(); i++) swallow_next(b);
  return b;
}

void undo_growth(const Growth& growth, BlockPool& pool) {
  for (Block* b : growth.run)
    if (!b->is_absent) pool.put(b);
}

std::vector<Clearing> plan_clearing(Arena* arena, BlockPool& pool) {
  std::vector<Clearing> found;
  for (Block* b = arena->first; b; b = b->after) {
    if (!b->is_free) continue;
    size_t at = static_cast<size_t>(b->data - arena->base);
    size_t begin = (at + arena->page - 1) / arena->page * arena->page, end = (at + b->size) / arena->page * arena->page;
    if (begin >= end) continue;
    pool.remove(b);
    found.push_back({b, begin - at, end - at});
  }
  return found;
}

int clear(Unit* unit, const Clearing& c) {
  return address_space.clear(unit->device.index, c.block->data + c.begin, c.end - c.begin);
}

void finish_clearing(const Clearing& c, bool done, BlockPool& pool) {
  if (!done) return static_cast<void>(pool.put(c.block));
  Block* absent = c.block;
  if (c.end < absent->size) pool.put(split(absent, c.end));
  if (c.begin) {
    absent = split(c.block, c.begin);
    pool.put(c.block);
  }
  absent->is_absent = true;
  if (absent->after && absent->after->is_absent) swallow_next(absent);
  if (absent->before && absent->before->is_absent) swallow_next(absent->before);
}

}  // namespace rl
