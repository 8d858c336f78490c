// One pool of worker threads for the whole process.
//
// A job is a count of chunks; who runs which chunk is unspecified, so a chunk's result must depend on its index alone.
// How many chunks there are must depend on sizes, never on the number of threads: that keeps results bit-identical.
#pragma once
#include <cstdint>

#include "base/function_ref.h"

namespace tessera {

// fn(chunk, lane): lane < the thread count asked for; no two chunks run on one lane at the same time.
using ChunkFn = FunctionRef<void(int64_t chunk, int lane)>;

// Runs fn for every chunk in [0, chunks) on up to `threads` threads including the caller, and returns when all are
// done. Called from inside a chunk, or while the pool is busy for another caller, it runs serially on the calling
// thread. fn must not throw. Workers sleep when there is nothing to do; they are started at the first use that wants
// them.
void parallel_for(int threads, int64_t chunks, ChunkFn fn);

}  // namespace tessera
