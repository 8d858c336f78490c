// What Tessera offers beside the C ABI it shares with ONNX Runtime: memory numbers and a plain-text account of a
// session. Optional: a program that also runs with another library asks for it and does without when it is absent.
//
// Errors, ownership and threads are as in tessera/c_api.h; any function may be called while the session runs.
#pragma once
#include "tessera/c_api.h"

#define TESSERA_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

// Bytes, all of them. The caller sets `size` to sizeof(TesseraMemory); members it does not know stay untouched, members
// the library does not know are left as they were.
typedef struct TesseraMemory {
  size_t size;
  int64_t weights;       // constants of the model, wherever they lie
  int64_t mapped;        // files mapped for external data
  int64_t copied;        // constants that had to be moved, for alignment or decoding
  int64_t packed;        // copies of constants in the layout of a kernel
  int64_t planned_peak;  // most bytes of intermediate results alive at once in the last run; before it, as planned
  int64_t slab;          // memory the last run used for intermediate results
  int64_t idle;          // memory kept for the next run
} TesseraMemory;

// Grows at its end only. `version` is that of the library, `size` the bytes of this struct as the library has it: a
// member lies inside that size or does not exist.
typedef struct TesseraApi {
  uint32_t version;
  size_t size;
  // Where the session's memory is.
  ORT_API2_STATUS(SessionGetMemory, const OrtSession* session, TesseraMemory* memory);
  // What was loaded and how it will run: text of several lines, for people. Freed with `allocator`.
  ORT_API2_STATUS(SessionExplain, const OrtSession* session, OrtAllocator* allocator, char** text);
  // Most bytes of intermediate results alive at once, as planned when the model was loaded; where a shape has unknown
  // dimensions, for assumed ones.
  ORT_API2_STATUS(SessionGetPlannedPeak, const OrtSession* session, int64_t* bytes);
} TesseraApi;

// The table, or null if the library is older than `version`. Also reached without this symbol, by asking
// OrtApi::GetExperimentalFunction (API version 28 and later) for "TesseraGetApi".
typedef const TesseraApi*(ORT_API_CALL* TesseraGetApiFn)(uint32_t version);
ORT_EXPORT const TesseraApi* ORT_API_CALL TesseraGetApi(uint32_t version) NO_EXCEPTION;

#ifdef __cplusplus
}
#endif
