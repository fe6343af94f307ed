// Segments that expand: address space in which blocks lie one behind the other, filled with memory page by page where
// requests need it and emptied where nobody uses it, so that what was freed in pieces can serve a large request. The
// allocator (device_memory.cpp) locks for what says so, and lets go of the lock while the device is asked.
#pragma once
#include <vector>

#include "device.h"

namespace rl {

// Neighbouring blocks, free or absent, that become one; `rest` bytes at the end of the last stay absent.
struct Growth {
  std::vector<Block*> run;
  size_t rest = 0;
  size_t missing = 0;     // bytes that must be filled
  size_t page = 0;
};

// Whole pages within a free block.
struct Clearing {
  Block* block;
  size_t begin, end;      // within the block
};

bool can_expand(const Unit* unit);

// A stretch of address space; null where the device has none left, with its status.
Arena* new_arena(Unit* unit, size_t nbytes, size_t page, Stream* owner, bool large, int* status);

// Locked: the first neighbours with room for `want` bytes, which nobody else can take from here on. `pool` has the
// arena's free blocks.
Growth plan_growth(Arena* arena, BlockPool& pool, size_t want);
int fill(Unit* unit, const Growth& growth);            // a status; on failure nothing was filled
Block* finish_growth(const Growth& growth);            // locked: the one block, in no pool
void undo_growth(const Growth& growth, BlockPool& pool);   // locked

// Locked: what of an arena can be emptied; its blocks are in no pool until `finish_clearing`.
std::vector<Clearing> plan_clearing(Arena* arena, BlockPool& pool);
int clear(Unit* unit, const Clearing& clearing);
void finish_clearing(const Clearing& clearing, bool done, BlockPool& pool);   // locked

}  // namespace rl
