// Memory seen by several processes: storages with a memory file each, and arenas that lend blocks of one file.
#pragma once
#include "faces.h"

namespace rl {

// Moves the bytes of a CPU storage into a memory file of its own, in place; nothing to do if they are in one already.
// False with an exception set on failure. Holds the lock.
bool storage_share(Storage* storage);

// shared_arena.cpp: whether the storage is a block of an arena; and that `to` holds it now instead of another storage.
bool is_shared_block(const Storage* storage);
void shared_block_moved(Storage* to);
// A storage in the arena that this process prefers; null, with no exception set, if there is none or it is full.
PyObject* shared_block_new(size_t nbytes);

int init_shared(PyObject* module);
int init_shared_arena(PyObject* module);
int init_guarded_memory(PyObject* module);   // guarded_memory.cpp

}  // namespace rl
