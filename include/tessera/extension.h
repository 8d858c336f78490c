// What Tessera offers beside the C ABI it shares with ONNX Runtime: memory numbers, a plain-text account of a session,
// and operators with shape functions and packed weights (tessera/op.h makes them of C++ classes). Optional: a program
// that also runs with another library asks for it and does without when it is absent.
//
// Errors, ownership and threads are as in tessera/c_api.h; any function may be called while the session runs.
#pragma once
#include "tessera/c_api.h"

#define TESSERA_API_VERSION 4

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

// What packing did for a session. The caller sets `size`, as in TesseraMemory.
typedef struct TesseraPacks {
  size_t size;
  int64_t made;       // weights that this session packed
  int64_t mapped;     // found in a pack file
  int64_t shared;     // found in another session of the process
  int64_t stale;      // not in the pack file, or there of other weights
  int64_t bytes_in;   // read of the weights that were packed
  int64_t bytes_out;  // written
} TesseraPacks;

// A dimension: `number`; or, where `symbol` is not null, an expression that has no number before the model runs.
// Expressions live as long as the shape call that gave them.
typedef struct TesseraDim {
  int64_t number;
  const void* symbol;
} TesseraDim;

typedef enum TesseraDimOp ORT_ENUM_BASE {
  TESSERA_DIM_ADD = 0,
  TESSERA_DIM_SUB = 1,
  TESSERA_DIM_MUL = 2,
  TESSERA_DIM_FLOOR_DIV = 3,
  TESSERA_DIM_MAX = 4,
  TESSERA_DIM_MIN = 5
} TesseraDimOp;

// What a shape function sees of its node.
typedef struct TesseraShapeCall TesseraShapeCall;

// An operator. The library copies the struct and its texts; the functions must stay loaded while sessions use them.
// They throw nothing. Runs of several threads call Shape and Compute of one node at once.
typedef struct TesseraOperator {
  size_t size;  // sizeof(TesseraOperator), as the caller has it
  const char* domain;
  const char* name;
  int since_version;        // of the domain's operator set; at least 1
  int until_version;        // 0: every later one too
  bool random;              // two calls with the same inputs may differ
  uint32_t content_inputs;  // bit i: Shape reads the elements of input i
  int packed_input;         // -1: none
  ONNXTensorElementDataType packed_type;
  const char* packed_layout;  // another name for every change of what Pack writes
  void* state;                // for Open
  // Makes the state of a node from its attributes. Types and shapes are not known yet.
  OrtStatus*(ORT_API_CALL* Open)(void* state, const OrtKernelInfo* info, void** node);
  void(ORT_API_CALL* Close)(void* node);
  // Output types from input types, undefined for absent inputs. Refuses inputs it does not take.
  OrtStatus*(ORT_API_CALL* Types)(void* node, const ONNXTensorElementDataType* inputs, size_t input_count,
                                  ONNXTensorElementDataType* outputs, size_t output_count);
  // Output shapes from input shapes: at load over symbols, when a model runs over numbers. Null: Compute gives its
  // outputs their shapes with KernelContext_GetOutput.
  OrtStatus*(ORT_API_CALL* Shape)(void* node, TesseraShapeCall* call);
  OrtStatus*(ORT_API_CALL* Compute)(void* node, OrtKernelContext* context);
  // Another form of a constant input: its bytes (0: used as it is), and the writing of it, the same on every machine.
  int64_t(ORT_API_CALL* PackedBytes)(void* node, const int64_t* dims, size_t rank);
  void(ORT_API_CALL* Pack)(void* node, const int64_t* dims, size_t rank, const void* weight, void* packed);
} TesseraOperator;

// Called once, when the library does not need `context` and what belongs to it any more; by any thread.
typedef void(ORT_API_CALL* TesseraReleaseFn)(void* context);
// Writes `length` bytes of a file, from `offset` on, to `to`. Called while a session is created, by one thread.
typedef OrtStatus*(ORT_API_CALL* TesseraReadFn)(void* context, uint64_t offset, size_t length, void* to);

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

  // Version 2. Adds an operator to the sessions that are made with the options.
  ORT_API2_STATUS(AddOperator, OrtSessionOptions* options, const TesseraOperator* op);
  // For shape functions. An absent input has a null `dims`.
  ORT_API2_STATUS(ShapeGetCounts, const TesseraShapeCall* call, size_t* inputs, size_t* outputs);
  ORT_API2_STATUS(ShapeGetInput, const TesseraShapeCall* call, size_t index, ONNXTensorElementDataType* type,
                  const TesseraDim** dims, size_t* rank);
  // The elements of an integer input named in content_inputs; null where they are not known, which is at load only.
  ORT_API2_STATUS(ShapeGetContent, TesseraShapeCall* call, size_t index, const TesseraDim** elements, size_t* count);
  ORT_API2_STATUS(ShapeSetOutput, TesseraShapeCall* call, size_t index, const TesseraDim* dims, size_t rank);
  // A size nobody knows anything about; at load only.
  ORT_API2_STATUS(ShapeGetUnknown, TesseraShapeCall* call, TesseraDim* out);
  ORT_API2_STATUS(DimCombine, TesseraDimOp op, const TesseraDim* a, const TesseraDim* b, TesseraDim* out);
  // For Compute: the packed form of a constant input; null where there is none.
  ORT_API2_STATUS(KernelContextGetPacked, const OrtKernelContext* context, size_t index, const void** packed);

  // Version 3. A file of external data for the sessions that are made with the options, under the name that the model
  // gives it; looked at before the model's folder. Sizes may be of any number of bytes.
  // In memory that is used in place, and released when the options and every session made with them are. A call that
  // fails releases nothing.
  ORT_API2_STATUS(AddExternalFile, OrtSessionOptions* options, const ORTCHAR_T* name, const void* data, size_t size,
                  TesseraReleaseFn release, void* context);
  // Read piece by piece into memory of the library.
  ORT_API2_STATUS(AddExternalReader, OrtSessionOptions* options, const ORTCHAR_T* name, uint64_t size,
                  TesseraReadFn read, TesseraReleaseFn release, void* context);
  // `size` bytes of an open file from `offset` on, mapped; the descriptor may be closed afterwards.
  ORT_API2_STATUS(AddExternalDescriptor, OrtSessionOptions* options, const ORTCHAR_T* name, int fd, uint64_t offset,
                  uint64_t size);
  // What packing did for a session, the bodies of its model included.
  ORT_API2_STATUS(SessionGetPacks, const OrtSession* session, TesseraPacks* packs);

  // Version 4. The nodes of the main graph as the session has them, producers before readers. JSON: an array of objects
  // with "name", "op", "domain", and the names in "inputs" and "outputs", "" for what is absent. Freed with
  // `allocator`.
  ORT_API2_STATUS(SessionGetNodes, const OrtSession* session, OrtAllocator* allocator, char** json);
  // OrtApi::Run, and how long every step took. JSON: an array of objects with "name", "op", and nanoseconds "start" and
  // "duration", the first of them for the whole run, without "op". Freed with `allocator`.
  ORT_API2_STATUS(RunTimed, OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                  const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                  size_t output_count, OrtValue** outputs, OrtAllocator* allocator, char** json);
} TesseraApi;

// The table, or null if the library is older than `version`. Also reached without this symbol, by asking
// OrtApi::GetExperimentalFunction (API version 28 and later) for "TesseraGetApi".
typedef const TesseraApi*(ORT_API_CALL* TesseraGetApiFn)(uint32_t version);
ORT_EXPORT const TesseraApi* ORT_API_CALL TesseraGetApi(uint32_t version) NO_EXCEPTION;

#ifdef __cplusplus
}
#endif
