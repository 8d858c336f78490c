// The C ABI of Tessera: binary and source compatible with ONNX Runtime 1.31.1 (API version 31).
//
// A program gets the table with OrtGetApiBase()->GetApi(ORT_API_VERSION) and calls through it. The table only ever
// grows at its end, so a program built for an older version finds what it knows at the same place.
//
// Errors: a function that returns OrtStatusPtr returns null on success; anything else is released with ReleaseStatus.
// Ownership: a handle obtained through an `OrtX** out` belongs to the caller and is released with ReleaseX; one
// obtained through a `const OrtX**` belongs to the object it was asked of. Memory obtained with an OrtAllocator
// argument is freed with that allocator. A `const char*` lives as long as the object it was asked of. Threads: a
// session may be run from many threads at once; options, bindings and values are not locked. ORTCHAR_T marks paths:
// UTF-8 bytes, or UTF-16 on Windows. All other text is UTF-8, ended by a zero byte.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ORT_API_VERSION 31

// Annotations of Microsoft's source analyser, which client sources use too; empty for other compilers.
#ifdef _MSC_VER
#include <specstrings.h>
#define ORT_ALL_ARGS_NONNULL
#else
#define _In_
#define _In_z_
#define _In_opt_
#define _In_opt_z_
#define _In_reads_(X)
#define _In_reads_opt_
#define _Out_
#define _Out_opt_
#define _Out_writes_(X)
#define _Out_writes_opt_(X)
#define _Out_writes_all_(X)
#define _Out_writes_bytes_all_(X)
#define _Outptr_
#define _Outptr_opt_
#define _Outptr_result_maybenull_
#define _Outptr_result_maybenull_z_
#define _Outptr_result_buffer_maybenull_(X)
#define _Inout_
#define _Inout_opt_
#define _Inout_updates_(X)
#define _Inout_updates_all_(X)
#define _Frees_ptr_opt_
#define _Ret_maybenull_
#define _Ret_notnull_
#define _Check_return_
#define _Success_(X)
#define ORT_ALL_ARGS_NONNULL __attribute__((nonnull))
#endif

#ifdef _WIN32
#ifdef ORT_DLL_IMPORT
#define ORT_EXPORT __declspec(dllimport)
#else
#define ORT_EXPORT
#endif
#define ORT_API_CALL __stdcall
#define ORT_MUST_USE_RESULT
#define ORTCHAR_T wchar_t
#else
#ifdef __GNUC__
#define ORT_EXPORT __attribute__((visibility("default")))
#else
#define ORT_EXPORT
#endif
#define ORT_API_CALL
#define ORT_MUST_USE_RESULT __attribute__((warn_unused_result))
#define ORTCHAR_T char
#endif

// A literal, or a macro that expands to one, as ORTCHAR_T text.
#ifndef ORT_TSTR
#ifdef _WIN32
#define ORT_TSTR(X) L##X
#define ORT_TSTR_ON_MACRO(X) L"" X
#else
#define ORT_TSTR(X) X
#define ORT_TSTR_ON_MACRO(X) X
#endif
#endif

#ifndef ORT_FILE
#define ORT_FILE_INTERNAL(x) ORT_TSTR(x)
#define ORT_FILE ORT_FILE_INTERNAL(__FILE__)
#endif

// Enumerations have the size of int in C. C++ is told so, and then every number a client may pass has a meaning.
#ifdef __cplusplus
#define NO_EXCEPTION noexcept
#define ORT_ENUM_BASE : int
#else
#define NO_EXCEPTION
#define ORT_ENUM_BASE
#endif

// Declare a function ...
#define ORT_API(RETURN_TYPE, NAME, ...) RETURN_TYPE ORT_API_CALL NAME(__VA_ARGS__) NO_EXCEPTION
#define ORT_API_STATUS_IMPL(NAME, ...) \
  _Success_(return == 0) _Check_return_ _Ret_maybenull_ OrtStatusPtr ORT_API_CALL NAME(__VA_ARGS__) NO_EXCEPTION
#define ORT_API_STATUS(NAME, ...) ORT_API_STATUS_IMPL(NAME, __VA_ARGS__) ORT_MUST_USE_RESULT
// ... and a slot of a table.
#define ORT_API_T(RETURN_TYPE, NAME, ...) RETURN_TYPE(ORT_API_CALL* NAME)(__VA_ARGS__) NO_EXCEPTION
#define ORT_API2_STATUS(NAME, ...) \
  _Check_return_ _Ret_maybenull_ OrtStatusPtr(ORT_API_CALL* NAME)(__VA_ARGS__) NO_EXCEPTION ORT_MUST_USE_RESULT
#define ORT_CLASS_RELEASE(X) void(ORT_API_CALL * Release##X)(_Frees_ptr_opt_ Ort##X * input)
// An opaque type.
#define ORT_RUNTIME_CLASS(X) \
  struct Ort##X;             \
  typedef struct Ort##X Ort##X

#ifdef __cplusplus
extern "C" {
#endif

typedef enum OrtErrorCode ORT_ENUM_BASE {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NO_SUCHFILE = 3,
  ORT_NO_MODEL = 4,
  ORT_ENGINE_ERROR = 5,
  ORT_RUNTIME_EXCEPTION = 6,
  ORT_INVALID_PROTOBUF = 7,
  ORT_MODEL_LOADED = 8,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_INVALID_GRAPH = 10,
  ORT_EP_FAIL = 11,
  ORT_MODEL_LOAD_CANCELED = 12,
  ORT_MODEL_REQUIRES_COMPILATION = 13,
  ORT_NOT_FOUND = 14,
  ORT_DEVICE_RESET = 15
} OrtErrorCode;

// From UINT2 on the numbers differ from those of ONNX's TensorProto.DataType.
typedef enum ONNXTensorElementDataType ORT_ENUM_BASE {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 = 14,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128 = 15,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN = 17,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ = 18,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2 = 19,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ = 20,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4 = 21,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 = 22,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1 = 23,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2 = 24,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2 = 25,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 = 26
} ONNXTensorElementDataType;

typedef enum ONNXType ORT_ENUM_BASE {
  ONNX_TYPE_UNKNOWN = 0,
  ONNX_TYPE_TENSOR = 1,
  ONNX_TYPE_SEQUENCE = 2,
  ONNX_TYPE_MAP = 3,
  ONNX_TYPE_OPAQUE = 4,
  ONNX_TYPE_SPARSETENSOR = 5,
  ONNX_TYPE_OPTIONAL = 6
} ONNXType;

typedef enum OrtSparseFormat ORT_ENUM_BASE {
  ORT_SPARSE_UNDEFINED = 0,
  ORT_SPARSE_COO = 1,
  ORT_SPARSE_CSRC = 2,
  ORT_SPARSE_BLOCK_SPARSE = 4
} OrtSparseFormat;

enum OrtSparseIndicesFormat ORT_ENUM_BASE {
  ORT_SPARSE_COO_INDICES = 0,
  ORT_SPARSE_CSR_INNER_INDICES = 1,
  ORT_SPARSE_CSR_OUTER_INDICES = 2,
  ORT_SPARSE_BLOCK_SPARSE_INDICES = 3
};

typedef enum OrtLoggingLevel ORT_ENUM_BASE {
  ORT_LOGGING_LEVEL_VERBOSE = 0,
  ORT_LOGGING_LEVEL_INFO = 1,
  ORT_LOGGING_LEVEL_WARNING = 2,
  ORT_LOGGING_LEVEL_ERROR = 3,
  ORT_LOGGING_LEVEL_FATAL = 4
} OrtLoggingLevel;

typedef enum OrtOpAttrType ORT_ENUM_BASE {
  ORT_OP_ATTR_UNDEFINED = 0,
  ORT_OP_ATTR_INT = 1,
  ORT_OP_ATTR_INTS = 2,
  ORT_OP_ATTR_FLOAT = 3,
  ORT_OP_ATTR_FLOATS = 4,
  ORT_OP_ATTR_STRING = 5,
  ORT_OP_ATTR_STRINGS = 6,
  ORT_OP_ATTR_GRAPH = 7,
  ORT_OP_ATTR_TENSOR = 8
} OrtOpAttrType;

typedef enum GraphOptimizationLevel ORT_ENUM_BASE {
  ORT_DISABLE_ALL = 0,
  ORT_ENABLE_BASIC = 1,
  ORT_ENABLE_EXTENDED = 2,
  ORT_ENABLE_LAYOUT = 3,
  ORT_ENABLE_ALL = 99
} GraphOptimizationLevel;

typedef enum ExecutionMode ORT_ENUM_BASE { ORT_SEQUENTIAL = 0, ORT_PARALLEL = 1 } ExecutionMode;

typedef enum OrtLanguageProjection ORT_ENUM_BASE {
  ORT_PROJECTION_C = 0,
  ORT_PROJECTION_CPLUSPLUS = 1,
  ORT_PROJECTION_CSHARP = 2,
  ORT_PROJECTION_PYTHON = 3,
  ORT_PROJECTION_JAVA = 4,
  ORT_PROJECTION_WINML = 5,
  ORT_PROJECTION_NODEJS = 6
} OrtLanguageProjection;

typedef enum OrtAllocatorType ORT_ENUM_BASE {
  OrtInvalidAllocator = -1,
  OrtDeviceAllocator = 0,
  OrtArenaAllocator = 1,
  OrtReadOnlyAllocator = 2
} OrtAllocatorType;

// CPUInput and CPUOutput: host memory for a node's inputs or outputs on a provider that is not the CPU.
typedef enum OrtMemType ORT_ENUM_BASE {
  OrtMemTypeCPUInput = -2,
  OrtMemTypeCPUOutput = -1,
  OrtMemTypeCPU = OrtMemTypeCPUOutput,
  OrtMemTypeDefault = 0
} OrtMemType;

typedef enum OrtDeviceMemoryType ORT_ENUM_BASE {
  OrtDeviceMemoryType_DEFAULT = 0,
  OrtDeviceMemoryType_HOST_ACCESSIBLE = 5
} OrtDeviceMemoryType;

typedef enum OrtMemoryInfoDeviceType ORT_ENUM_BASE {
  OrtMemoryInfoDeviceType_CPU = 0,
  OrtMemoryInfoDeviceType_GPU = 1,
  OrtMemoryInfoDeviceType_FPGA = 2,
  OrtMemoryInfoDeviceType_NPU = 3
} OrtMemoryInfoDeviceType;

typedef enum OrtHardwareDeviceType ORT_ENUM_BASE {
  OrtHardwareDeviceType_CPU = 0,
  OrtHardwareDeviceType_GPU = 1,
  OrtHardwareDeviceType_NPU = 2
} OrtHardwareDeviceType;

typedef enum OrtExecutionProviderDevicePolicy ORT_ENUM_BASE {
  OrtExecutionProviderDevicePolicy_DEFAULT = 0,
  OrtExecutionProviderDevicePolicy_PREFER_CPU = 1,
  OrtExecutionProviderDevicePolicy_PREFER_NPU = 2,
  OrtExecutionProviderDevicePolicy_PREFER_GPU = 3,
  OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE = 4,
  OrtExecutionProviderDevicePolicy_MAX_EFFICIENCY = 5,
  OrtExecutionProviderDevicePolicy_MIN_OVERALL_POWER = 6
} OrtExecutionProviderDevicePolicy;

// Bits; UNKNOWN is the sign bit.
typedef enum OrtDeviceEpIncompatibilityReason ORT_ENUM_BASE {
  OrtDeviceEpIncompatibility_NONE = 0,
  OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE = 1,
  OrtDeviceEpIncompatibility_DEVICE_INCOMPATIBLE = 2,
  OrtDeviceEpIncompatibility_MISSING_DEPENDENCY = 4,
  OrtDeviceEpIncompatibility_UNKNOWN = -2147483647 - 1
} OrtDeviceEpIncompatibilityReason;

typedef enum OrtCompiledModelCompatibility ORT_ENUM_BASE {
  OrtCompiledModelCompatibility_EP_NOT_APPLICABLE = 0,
  OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL = 1,
  OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION = 2,
  OrtCompiledModelCompatibility_EP_UNSUPPORTED = 3
} OrtCompiledModelCompatibility;

typedef enum OrtCustomOpInputOutputCharacteristic ORT_ENUM_BASE {
  INPUT_OUTPUT_REQUIRED = 0,
  INPUT_OUTPUT_OPTIONAL = 1,
  INPUT_OUTPUT_VARIADIC = 2
} OrtCustomOpInputOutputCharacteristic;

// Bits for OrtCompileApi::ModelCompilationOptions_SetFlags.
typedef enum OrtCompileApiFlags ORT_ENUM_BASE {
  OrtCompileApiFlags_NONE = 0,
  OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED = 1,
  OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS = 2
} OrtCompileApiFlags;

typedef enum OrtExternalMemoryHandleType ORT_ENUM_BASE {
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE = 0,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP = 1,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32 = 2,
  ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD = 3
} OrtExternalMemoryHandleType;

typedef enum OrtExternalSemaphoreType ORT_ENUM_BASE {
  ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE = 0,
  ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_WIN32 = 1,
  ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD = 2
} OrtExternalSemaphoreType;

typedef enum OrtGraphicsApi ORT_ENUM_BASE {
  ORT_GRAPHICS_API_NONE = 0,
  ORT_GRAPHICS_API_D3D12 = 1,
  ORT_GRAPHICS_API_VULKAN = 2
} OrtGraphicsApi;

typedef enum OrtCudnnConvAlgoSearch ORT_ENUM_BASE {
  OrtCudnnConvAlgoSearchExhaustive = 0,
  OrtCudnnConvAlgoSearchHeuristic = 1,
  OrtCudnnConvAlgoSearchDefault = 2
} OrtCudnnConvAlgoSearch;

ORT_RUNTIME_CLASS(Env);
ORT_RUNTIME_CLASS(Status);
ORT_RUNTIME_CLASS(MemoryInfo);
ORT_RUNTIME_CLASS(IoBinding);
ORT_RUNTIME_CLASS(Session);
ORT_RUNTIME_CLASS(Value);
ORT_RUNTIME_CLASS(RunOptions);
ORT_RUNTIME_CLASS(TypeInfo);
ORT_RUNTIME_CLASS(TensorTypeAndShapeInfo);
ORT_RUNTIME_CLASS(MapTypeInfo);
ORT_RUNTIME_CLASS(SequenceTypeInfo);
ORT_RUNTIME_CLASS(OptionalTypeInfo);
ORT_RUNTIME_CLASS(SessionOptions);
ORT_RUNTIME_CLASS(CustomOpDomain);
ORT_RUNTIME_CLASS(ModelMetadata);
ORT_RUNTIME_CLASS(ThreadPoolParams);
ORT_RUNTIME_CLASS(ThreadingOptions);
ORT_RUNTIME_CLASS(ArenaCfg);
ORT_RUNTIME_CLASS(PrepackedWeightsContainer);
ORT_RUNTIME_CLASS(TensorRTProviderOptionsV2);
ORT_RUNTIME_CLASS(NvTensorRtRtxProviderOptions);
ORT_RUNTIME_CLASS(CUDAProviderOptionsV2);
ORT_RUNTIME_CLASS(CANNProviderOptions);
ORT_RUNTIME_CLASS(DnnlProviderOptions);
ORT_RUNTIME_CLASS(KernelInfo);
ORT_RUNTIME_CLASS(KernelContext);
ORT_RUNTIME_CLASS(CustomOp);
ORT_RUNTIME_CLASS(Op);
ORT_RUNTIME_CLASS(OpAttr);
ORT_RUNTIME_CLASS(Logger);
ORT_RUNTIME_CLASS(ShapeInferContext);
ORT_RUNTIME_CLASS(LoraAdapter);
ORT_RUNTIME_CLASS(ValueInfo);
ORT_RUNTIME_CLASS(Node);
ORT_RUNTIME_CLASS(Graph);
ORT_RUNTIME_CLASS(Model);
ORT_RUNTIME_CLASS(ModelCompilationOptions);
ORT_RUNTIME_CLASS(HardwareDevice);
ORT_RUNTIME_CLASS(EpDevice);
ORT_RUNTIME_CLASS(KeyValuePairs);
ORT_RUNTIME_CLASS(SyncStream);
ORT_RUNTIME_CLASS(ExternalInitializerInfo);
ORT_RUNTIME_CLASS(ExternalResourceImporter);
ORT_RUNTIME_CLASS(ExternalMemoryHandle);
ORT_RUNTIME_CLASS(ExternalSemaphoreHandle);
ORT_RUNTIME_CLASS(DeviceEpIncompatibilityDetails);
ORT_RUNTIME_CLASS(EpAssignedSubgraph);
ORT_RUNTIME_CLASS(EpAssignedNode);
ORT_RUNTIME_CLASS(EpContextConfig);
ORT_RUNTIME_CLASS(ModelPackageOptions);
ORT_RUNTIME_CLASS(ModelPackageContext);
ORT_RUNTIME_CLASS(ModelPackageComponentContext);

// The tables.
ORT_RUNTIME_CLASS(Api);
ORT_RUNTIME_CLASS(ApiBase);
ORT_RUNTIME_CLASS(TrainingApi);
ORT_RUNTIME_CLASS(ModelEditorApi);
ORT_RUNTIME_CLASS(CompileApi);
ORT_RUNTIME_CLASS(InteropApi);
ORT_RUNTIME_CLASS(EpApi);
ORT_RUNTIME_CLASS(ModelPackageApi);

#ifdef _MSC_VER
typedef _Return_type_success_(return == 0) OrtStatus* OrtStatusPtr;
#else
typedef OrtStatus* OrtStatusPtr;
#endif

typedef void(ORT_API_CALL* OrtExperimentalFnPtr)(void);

// Written by the caller or by the library, whoever offers the memory. `version` is the ORT_API_VERSION it was written
// for; members after Info exist only from the version named on, and may be null.
typedef struct OrtAllocator {
  uint32_t version;
  void*(ORT_API_CALL* Alloc)(struct OrtAllocator* this_, size_t size);
  void(ORT_API_CALL* Free)(struct OrtAllocator* this_, void* p);
  const struct OrtMemoryInfo*(ORT_API_CALL* Info)(const struct OrtAllocator* this_);
  // Version 18: memory that outlives a run, such as weights.
  void*(ORT_API_CALL* Reserve)(struct OrtAllocator* this_, size_t size);
  // Version 23.
  ORT_API2_STATUS(GetStats, const struct OrtAllocator* this_, OrtKeyValuePairs** out);
  void*(ORT_API_CALL* AllocOnStream)(struct OrtAllocator* this_, size_t size, OrtSyncStream* stream);
  // Version 25.
  ORT_API2_STATUS(Shrink, struct OrtAllocator* this_);
} OrtAllocator;

typedef void(ORT_API_CALL* OrtLoggingFunction)(void* param, OrtLoggingLevel severity, const char* category,
                                               const char* logid, const char* code_location, const char* message);

// Chooses among the devices: writes at most `max_selected` of them to `selected` and their number to `num_selected`.
typedef OrtStatus*(ORT_API_CALL* EpSelectionDelegate)(const OrtEpDevice** ep_devices, size_t num_devices,
                                                      const OrtKeyValuePairs* model_metadata,
                                                      const OrtKeyValuePairs* runtime_metadata,
                                                      const OrtEpDevice** selected, size_t max_selected,
                                                      size_t* num_selected, void* state);

typedef OrtStatus*(ORT_API_CALL* OrtWriteBufferFunc)(void* state, const void* buffer, size_t buffer_num_bytes);
typedef OrtStatus*(ORT_API_CALL* OrtWriteNamedBufferFunc)(void* state, const char* name, const void* buffer,
                                                          size_t buffer_num_bytes);
// The buffer comes from `allocator`; the library frees it with the same.
typedef OrtStatus*(ORT_API_CALL* OrtReadNamedBufferFunc)(void* state, const char* name, OrtAllocator* allocator,
                                                         void** buffer, size_t* data_size);
// Says where an initializer of a compiled model goes: null in `new_external_info` keeps it inside the model.
typedef OrtStatus*(ORT_API_CALL* OrtGetInitializerLocationFunc)(void* state, const char* initializer_name,
                                                                const OrtValue* initializer_value,
                                                                const OrtExternalInitializerInfo* external_info,
                                                                OrtExternalInitializerInfo** new_external_info);

// The symbol a custom operator library exports, usually under the name RegisterCustomOps.
typedef OrtStatus*(ORT_API_CALL* RegisterCustomOpsFn)(OrtSessionOptions* options, const OrtApiBase* api);

typedef void (*RunAsyncCallbackFn)(void* user_data, OrtValue** outputs, size_t num_outputs, OrtStatusPtr status);

// Threads made by the caller: create must start `ort_thread_worker_fn(ort_worker_fn_param)` and return a handle that is
// not null; join must wait for it.
typedef void (*OrtThreadWorkerFn)(void* ort_worker_fn_param);
typedef const struct OrtCustomHandleType { char __place_holder; } * OrtCustomThreadHandle;
typedef OrtCustomThreadHandle (*OrtCustomCreateThreadFn)(void* ort_custom_thread_creation_options,
                                                         OrtThreadWorkerFn ort_thread_worker_fn,
                                                         void* ort_worker_fn_param);
typedef void (*OrtCustomJoinThreadFn)(OrtCustomThreadHandle ort_custom_thread_handle);

// What on_enqueue returns is handed to the other three for the same piece of work.
typedef void* (*OrtThreadPoolWorkEnqueueFn)(void* user_context)NO_EXCEPTION;
typedef void (*OrtThreadPoolWorkStartFn)(void* user_context, void* enqueue_data) NO_EXCEPTION;
typedef void (*OrtThreadPoolWorkStopFn)(void* user_context, void* enqueue_data) NO_EXCEPTION;
typedef void (*OrtThreadPoolWorkAbandonFn)(void* user_context, void* enqueue_data) NO_EXCEPTION;
typedef struct OrtThreadPoolCallbacksConfig {
  uint32_t version;
  OrtThreadPoolWorkEnqueueFn on_enqueue;
  OrtThreadPoolWorkStartFn on_start_work;
  OrtThreadPoolWorkStopFn on_stop_work;
  OrtThreadPoolWorkAbandonFn on_abandon;
  void* user_context;
} OrtThreadPoolCallbacksConfig;

// For CreateEnvWithOptions; `version` is ORT_API_VERSION, the pointers may be null except log_id.
typedef struct OrtEnvCreationOptions {
  uint32_t version;
  int32_t logging_severity_level;
  const char* log_id;
  OrtLoggingFunction custom_logging_function;
  void* custom_logging_param;
  const OrtThreadingOptions* threading_options;
  const OrtKeyValuePairs* config_entries;
} OrtEnvCreationOptions;

typedef struct OrtExternalMemoryDescriptor {
  uint32_t version;
  OrtExternalMemoryHandleType handle_type;
  void* native_handle;
  size_t size_bytes;
  size_t offset_bytes;
} OrtExternalMemoryDescriptor;

typedef struct OrtExternalSemaphoreDescriptor {
  uint32_t version;
  OrtExternalSemaphoreType type;
  void* native_handle;
} OrtExternalSemaphoreDescriptor;

typedef struct OrtExternalTensorDescriptor {
  uint32_t version;
  ONNXTensorElementDataType element_type;
  const int64_t* shape;
  size_t rank;
  size_t offset_bytes;
} OrtExternalTensorDescriptor;

typedef struct OrtGraphicsInteropConfig {
  uint32_t version;
  OrtGraphicsApi graphics_api;
  void* command_queue;
  const OrtKeyValuePairs* additional_options;
} OrtGraphicsInteropConfig;

// Options of providers on other devices. In C++ some come with their defaults, in C the caller sets every member.
typedef struct OrtCUDAProviderOptions {
#ifdef __cplusplus
  OrtCUDAProviderOptions()
      : device_id(0),
        cudnn_conv_algo_search(OrtCudnnConvAlgoSearchExhaustive),
        gpu_mem_limit(SIZE_MAX),
        arena_extend_strategy(0),
        do_copy_in_default_stream(1),
        has_user_compute_stream(0),
        user_compute_stream(nullptr),
        default_memory_arena_cfg(nullptr),
        tunable_op_enable(0),
        tunable_op_tuning_enable(0),
        tunable_op_max_tuning_duration_ms(0) {}
#endif
  int device_id;
  OrtCudnnConvAlgoSearch cudnn_conv_algo_search;
  size_t gpu_mem_limit;
  int arena_extend_strategy;
  int do_copy_in_default_stream;
  int has_user_compute_stream;
  void* user_compute_stream;
  OrtArenaCfg* default_memory_arena_cfg;
  int tunable_op_enable;
  int tunable_op_tuning_enable;
  int tunable_op_max_tuning_duration_ms;
} OrtCUDAProviderOptions;

typedef struct OrtROCMProviderOptions {
#ifdef __cplusplus
  OrtROCMProviderOptions()
      : device_id(0),
        miopen_conv_exhaustive_search(0),
        gpu_mem_limit(SIZE_MAX),
        arena_extend_strategy(0),
        do_copy_in_default_stream(1),
        has_user_compute_stream(0),
        user_compute_stream(nullptr),
        default_memory_arena_cfg(nullptr),
        enable_hip_graph(0),
        tunable_op_enable(0),
        tunable_op_tuning_enable(0),
        tunable_op_max_tuning_duration_ms(0) {}
#endif
  int device_id;
  int miopen_conv_exhaustive_search;
  size_t gpu_mem_limit;
  int arena_extend_strategy;
  int do_copy_in_default_stream;
  int has_user_compute_stream;
  void* user_compute_stream;
  OrtArenaCfg* default_memory_arena_cfg;
  int enable_hip_graph;
  int tunable_op_enable;
  int tunable_op_tuning_enable;
  int tunable_op_max_tuning_duration_ms;
} OrtROCMProviderOptions;

typedef struct OrtTensorRTProviderOptions {
  int device_id;
  int has_user_compute_stream;
  void* user_compute_stream;
  int trt_max_partition_iterations;
  int trt_min_subgraph_size;
  size_t trt_max_workspace_size;
  int trt_fp16_enable;
  int trt_int8_enable;
  const char* trt_int8_calibration_table_name;
  int trt_int8_use_native_calibration_table;
  int trt_dla_enable;
  int trt_dla_core;
  int trt_dump_subgraphs;
  int trt_engine_cache_enable;
  const char* trt_engine_cache_path;
  int trt_engine_decryption_enable;
  const char* trt_engine_decryption_lib_path;
  int trt_force_sequential_engine_build;
} OrtTensorRTProviderOptions;

typedef struct OrtMIGraphXProviderOptions {
  int device_id;
  int migraphx_fp16_enable;
  int migraphx_fp8_enable;
  int migraphx_int8_enable;
  int migraphx_use_native_calibration_table;
  const char* migraphx_int8_calibration_table_name;
  int migraphx_save_compiled_model;
  const char* migraphx_save_model_path;
  int migraphx_load_compiled_model;
  const char* migraphx_load_model_path;
  bool migraphx_exhaustive_tune;
  size_t migraphx_mem_limit;
  int migraphx_arena_extend_strategy;
} OrtMIGraphXProviderOptions;

typedef struct OrtOpenVINOProviderOptions {
#ifdef __cplusplus
  OrtOpenVINOProviderOptions()
      : device_type(nullptr),
        enable_npu_fast_compile(0),
        device_id(nullptr),
        num_of_threads(0),
        cache_dir(nullptr),
        context(nullptr),
        enable_opencl_throttling(0),
        enable_dynamic_shapes(0) {}
#endif
  const char* device_type;
  unsigned char enable_npu_fast_compile;
  const char* device_id;
  size_t num_of_threads;
  const char* cache_dir;
  void* context;
  unsigned char enable_opencl_throttling;
  unsigned char enable_dynamic_shapes;
} OrtOpenVINOProviderOptions;

struct OrtApiBase {
  // The table for programs written against `version`, or null if this library does not serve it.
  ORT_API_T(const OrtApi*, GetApi, uint32_t version);
  // The ONNX Runtime version this library stands in for, "1.31.1".
  ORT_API_T(const char*, GetVersionString, void);
};

// The only entry point; everything else is reached through it.
ORT_EXPORT const OrtApiBase* ORT_API_CALL OrtGetApiBase(void) NO_EXCEPTION;

struct OrtApi {
  // Status. The message is copied; GetErrorMessage borrows from the status.
  ORT_API_T(OrtStatus*, CreateStatus, OrtErrorCode code, const char* msg);
  ORT_API_T(OrtErrorCode, GetErrorCode, const OrtStatus* status);
  ORT_API_T(const char*, GetErrorMessage, const OrtStatus* status);

  // Environment, session and run.
  ORT_API2_STATUS(CreateEnv, OrtLoggingLevel log_severity_level, const char* logid, OrtEnv** out);
  ORT_API2_STATUS(CreateEnvWithCustomLogger, OrtLoggingFunction logging_function, void* logger_param,
                  OrtLoggingLevel log_severity_level, const char* logid, OrtEnv** out);
  ORT_API2_STATUS(EnableTelemetryEvents, const OrtEnv* env);
  ORT_API2_STATUS(DisableTelemetryEvents, const OrtEnv* env);
  ORT_API2_STATUS(CreateSession, const OrtEnv* env, const ORTCHAR_T* model_path, const OrtSessionOptions* options,
                  OrtSession** out);
  ORT_API2_STATUS(CreateSessionFromArray, const OrtEnv* env, const void* model_data, size_t model_data_length,
                  const OrtSessionOptions* options, OrtSession** out);
  ORT_API2_STATUS(Run, OrtSession* session, const OrtRunOptions* run_options, const char* const* input_names,
                  const OrtValue* const* inputs, size_t input_len, const char* const* output_names,
                  size_t output_names_len, OrtValue** outputs);

  // Session options.
  ORT_API2_STATUS(CreateSessionOptions, OrtSessionOptions** options);
  ORT_API2_STATUS(SetOptimizedModelFilePath, OrtSessionOptions* options, const ORTCHAR_T* optimized_model_filepath);
  ORT_API2_STATUS(CloneSessionOptions, const OrtSessionOptions* in_options, OrtSessionOptions** out_options);
  ORT_API2_STATUS(SetSessionExecutionMode, OrtSessionOptions* options, ExecutionMode execution_mode);
  ORT_API2_STATUS(EnableProfiling, OrtSessionOptions* options, const ORTCHAR_T* profile_file_prefix);
  ORT_API2_STATUS(DisableProfiling, OrtSessionOptions* options);
  ORT_API2_STATUS(EnableMemPattern, OrtSessionOptions* options);
  ORT_API2_STATUS(DisableMemPattern, OrtSessionOptions* options);
  ORT_API2_STATUS(EnableCpuMemArena, OrtSessionOptions* options);
  ORT_API2_STATUS(DisableCpuMemArena, OrtSessionOptions* options);
  ORT_API2_STATUS(SetSessionLogId, OrtSessionOptions* options, const char* logid);
  ORT_API2_STATUS(SetSessionLogVerbosityLevel, OrtSessionOptions* options, int session_log_verbosity_level);
  ORT_API2_STATUS(SetSessionLogSeverityLevel, OrtSessionOptions* options, int session_log_severity_level);
  ORT_API2_STATUS(SetSessionGraphOptimizationLevel, OrtSessionOptions* options,
                  GraphOptimizationLevel graph_optimization_level);
  ORT_API2_STATUS(SetIntraOpNumThreads, OrtSessionOptions* options, int intra_op_num_threads);
  ORT_API2_STATUS(SetInterOpNumThreads, OrtSessionOptions* options, int inter_op_num_threads);

  // Custom operators. A domain is used, not copied: it must outlive the sessions made with it.
  ORT_API2_STATUS(CreateCustomOpDomain, const char* domain, OrtCustomOpDomain** out);
  ORT_API2_STATUS(CustomOpDomain_Add, OrtCustomOpDomain* custom_op_domain, const OrtCustomOp* op);
  ORT_API2_STATUS(AddCustomOpDomain, OrtSessionOptions* options, OrtCustomOpDomain* custom_op_domain);
  ORT_API2_STATUS(RegisterCustomOpsLibrary, OrtSessionOptions* options, const char* library_path,
                  void** library_handle);

  // What a session takes and gives. Names are allocated with `allocator`.
  ORT_API2_STATUS(SessionGetInputCount, const OrtSession* session, size_t* out);
  ORT_API2_STATUS(SessionGetOutputCount, const OrtSession* session, size_t* out);
  ORT_API2_STATUS(SessionGetOverridableInitializerCount, const OrtSession* session, size_t* out);
  ORT_API2_STATUS(SessionGetInputTypeInfo, const OrtSession* session, size_t index, OrtTypeInfo** type_info);
  ORT_API2_STATUS(SessionGetOutputTypeInfo, const OrtSession* session, size_t index, OrtTypeInfo** type_info);
  ORT_API2_STATUS(SessionGetOverridableInitializerTypeInfo, const OrtSession* session, size_t index,
                  OrtTypeInfo** type_info);
  ORT_API2_STATUS(SessionGetInputName, const OrtSession* session, size_t index, OrtAllocator* allocator, char** value);
  ORT_API2_STATUS(SessionGetOutputName, const OrtSession* session, size_t index, OrtAllocator* allocator, char** value);
  ORT_API2_STATUS(SessionGetOverridableInitializerName, const OrtSession* session, size_t index,
                  OrtAllocator* allocator, char** value);

  // Run options. SetTerminate stops the runs that use them, from any thread.
  ORT_API2_STATUS(CreateRunOptions, OrtRunOptions** out);
  ORT_API2_STATUS(RunOptionsSetRunLogVerbosityLevel, OrtRunOptions* options, int log_verbosity_level);
  ORT_API2_STATUS(RunOptionsSetRunLogSeverityLevel, OrtRunOptions* options, int log_severity_level);
  ORT_API2_STATUS(RunOptionsSetRunTag, OrtRunOptions* options, const char* run_tag);
  ORT_API2_STATUS(RunOptionsGetRunLogVerbosityLevel, const OrtRunOptions* options, int* log_verbosity_level);
  ORT_API2_STATUS(RunOptionsGetRunLogSeverityLevel, const OrtRunOptions* options, int* log_severity_level);
  ORT_API2_STATUS(RunOptionsGetRunTag, const OrtRunOptions* options, const char** run_tag);
  ORT_API2_STATUS(RunOptionsSetTerminate, OrtRunOptions* options);
  ORT_API2_STATUS(RunOptionsUnsetTerminate, OrtRunOptions* options);

  // Tensors. A tensor made with data borrows it.
  ORT_API2_STATUS(CreateTensorAsOrtValue, OrtAllocator* allocator, const int64_t* shape, size_t shape_len,
                  ONNXTensorElementDataType type, OrtValue** out);
  ORT_API2_STATUS(CreateTensorWithDataAsOrtValue, const OrtMemoryInfo* info, void* p_data, size_t p_data_len,
                  const int64_t* shape, size_t shape_len, ONNXTensorElementDataType type, OrtValue** out);
  ORT_API2_STATUS(IsTensor, const OrtValue* value, int* out);
  ORT_API2_STATUS(GetTensorMutableData, OrtValue* value, void** out);

  // Strings. Content is all strings end to end, without zero bytes, and where each begins.
  ORT_API2_STATUS(FillStringTensor, OrtValue* value, const char* const* s, size_t s_len);
  ORT_API2_STATUS(GetStringTensorDataLength, const OrtValue* value, size_t* len);
  ORT_API2_STATUS(GetStringTensorContent, const OrtValue* value, void* s, size_t s_len, size_t* offsets,
                  size_t offsets_len);

  // Types and shapes. Unknown dimensions are -1; a cast that does not apply gives null.
  ORT_API2_STATUS(CastTypeInfoToTensorInfo, const OrtTypeInfo* type_info, const OrtTensorTypeAndShapeInfo** out);
  ORT_API2_STATUS(GetOnnxTypeFromTypeInfo, const OrtTypeInfo* type_info, enum ONNXType* out);
  ORT_API2_STATUS(CreateTensorTypeAndShapeInfo, OrtTensorTypeAndShapeInfo** out);
  ORT_API2_STATUS(SetTensorElementType, OrtTensorTypeAndShapeInfo* info, enum ONNXTensorElementDataType type);
  ORT_API2_STATUS(SetDimensions, OrtTensorTypeAndShapeInfo* info, const int64_t* dim_values, size_t dim_count);
  ORT_API2_STATUS(GetTensorElementType, const OrtTensorTypeAndShapeInfo* info, enum ONNXTensorElementDataType* out);
  ORT_API2_STATUS(GetDimensionsCount, const OrtTensorTypeAndShapeInfo* info, size_t* out);
  ORT_API2_STATUS(GetDimensions, const OrtTensorTypeAndShapeInfo* info, int64_t* dim_values, size_t dim_values_length);
  ORT_API2_STATUS(GetSymbolicDimensions, const OrtTensorTypeAndShapeInfo* info, const char* dim_params[],
                  size_t dim_params_length);
  ORT_API2_STATUS(GetTensorShapeElementCount, const OrtTensorTypeAndShapeInfo* info, size_t* out);
  ORT_API2_STATUS(GetTensorTypeAndShape, const OrtValue* value, OrtTensorTypeAndShapeInfo** out);
  ORT_API2_STATUS(GetTypeInfo, const OrtValue* value, OrtTypeInfo** out);
  ORT_API2_STATUS(GetValueType, const OrtValue* value, enum ONNXType* out);

  // Where memory is, and allocators.
  ORT_API2_STATUS(CreateMemoryInfo, const char* name, enum OrtAllocatorType type, int id, enum OrtMemType mem_type,
                  OrtMemoryInfo** out);
  ORT_API2_STATUS(CreateCpuMemoryInfo, enum OrtAllocatorType type, enum OrtMemType mem_type, OrtMemoryInfo** out);
  ORT_API2_STATUS(CompareMemoryInfo, const OrtMemoryInfo* info1, const OrtMemoryInfo* info2, int* out);
  ORT_API2_STATUS(MemoryInfoGetName, const OrtMemoryInfo* ptr, const char** out);
  ORT_API2_STATUS(MemoryInfoGetId, const OrtMemoryInfo* ptr, int* out);
  ORT_API2_STATUS(MemoryInfoGetMemType, const OrtMemoryInfo* ptr, OrtMemType* out);
  ORT_API2_STATUS(MemoryInfoGetType, const OrtMemoryInfo* ptr, OrtAllocatorType* out);
  ORT_API2_STATUS(AllocatorAlloc, OrtAllocator* ort_allocator, size_t size, void** out);
  ORT_API2_STATUS(AllocatorFree, OrtAllocator* ort_allocator, void* p);
  ORT_API2_STATUS(AllocatorGetInfo, const OrtAllocator* ort_allocator, const struct OrtMemoryInfo** out);
  ORT_API2_STATUS(GetAllocatorWithDefaultOptions, OrtAllocator** out);
  ORT_API2_STATUS(AddFreeDimensionOverride, OrtSessionOptions* options, const char* dim_denotation, int64_t dim_value);

  // Sequences and maps. A map has two values, its keys and its values.
  ORT_API2_STATUS(GetValue, const OrtValue* value, int index, OrtAllocator* allocator, OrtValue** out);
  ORT_API2_STATUS(GetValueCount, const OrtValue* value, size_t* out);
  ORT_API2_STATUS(CreateValue, const OrtValue* const* in, size_t num_values, enum ONNXType value_type, OrtValue** out);
  ORT_API2_STATUS(CreateOpaqueValue, const char* domain_name, const char* type_name, const void* data_container,
                  size_t data_container_size, OrtValue** out);
  ORT_API2_STATUS(GetOpaqueValue, const char* domain_name, const char* type_name, const OrtValue* in,
                  void* data_container, size_t data_container_size);

  // For custom operators: attributes at creation, inputs and outputs at run time.
  ORT_API2_STATUS(KernelInfoGetAttribute_float, const OrtKernelInfo* info, const char* name, float* out);
  ORT_API2_STATUS(KernelInfoGetAttribute_int64, const OrtKernelInfo* info, const char* name, int64_t* out);
  ORT_API2_STATUS(KernelInfoGetAttribute_string, const OrtKernelInfo* info, const char* name, char* out, size_t* size);
  ORT_API2_STATUS(KernelContext_GetInputCount, const OrtKernelContext* context, size_t* out);
  ORT_API2_STATUS(KernelContext_GetOutputCount, const OrtKernelContext* context, size_t* out);
  ORT_API2_STATUS(KernelContext_GetInput, const OrtKernelContext* context, size_t index, const OrtValue** out);
  ORT_API2_STATUS(KernelContext_GetOutput, OrtKernelContext* context, size_t index, const int64_t* dim_values,
                  size_t dim_count, OrtValue** out);

  // Releasing; null is allowed everywhere.
  ORT_CLASS_RELEASE(Env);
  ORT_CLASS_RELEASE(Status);
  ORT_CLASS_RELEASE(MemoryInfo);
  ORT_CLASS_RELEASE(Session);
  ORT_CLASS_RELEASE(Value);
  ORT_CLASS_RELEASE(RunOptions);
  ORT_CLASS_RELEASE(TypeInfo);
  ORT_CLASS_RELEASE(TensorTypeAndShapeInfo);
  ORT_CLASS_RELEASE(SessionOptions);
  ORT_CLASS_RELEASE(CustomOpDomain);

  // Version 2.
  ORT_API2_STATUS(GetDenotationFromTypeInfo, const OrtTypeInfo* type_info, const char** const denotation, size_t* len);
  ORT_API2_STATUS(CastTypeInfoToMapTypeInfo, const OrtTypeInfo* type_info, const OrtMapTypeInfo** out);
  ORT_API2_STATUS(CastTypeInfoToSequenceTypeInfo, const OrtTypeInfo* type_info, const OrtSequenceTypeInfo** out);
  ORT_API2_STATUS(GetMapKeyType, const OrtMapTypeInfo* map_type_info, enum ONNXTensorElementDataType* out);
  ORT_API2_STATUS(GetMapValueType, const OrtMapTypeInfo* map_type_info, OrtTypeInfo** type_info);
  ORT_API2_STATUS(GetSequenceElementType, const OrtSequenceTypeInfo* sequence_type_info, OrtTypeInfo** type_info);
  ORT_CLASS_RELEASE(MapTypeInfo);
  ORT_CLASS_RELEASE(SequenceTypeInfo);
  ORT_API2_STATUS(SessionEndProfiling, OrtSession* session, OrtAllocator* allocator, char** out);
  ORT_API2_STATUS(SessionGetModelMetadata, const OrtSession* session, OrtModelMetadata** out);
  ORT_API2_STATUS(ModelMetadataGetProducerName, const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                  char** value);
  ORT_API2_STATUS(ModelMetadataGetGraphName, const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                  char** value);
  ORT_API2_STATUS(ModelMetadataGetDomain, const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                  char** value);
  ORT_API2_STATUS(ModelMetadataGetDescription, const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                  char** value);
  ORT_API2_STATUS(ModelMetadataLookupCustomMetadataMap, const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                  const char* key, char** value);
  ORT_API2_STATUS(ModelMetadataGetVersion, const OrtModelMetadata* model_metadata, int64_t* value);
  ORT_CLASS_RELEASE(ModelMetadata);

  // Version 3.
  ORT_API2_STATUS(CreateEnvWithGlobalThreadPools, OrtLoggingLevel log_severity_level, const char* logid,
                  const OrtThreadingOptions* tp_options, OrtEnv** out);
  ORT_API2_STATUS(DisablePerSessionThreads, OrtSessionOptions* options);
  ORT_API2_STATUS(CreateThreadingOptions, OrtThreadingOptions** out);
  ORT_CLASS_RELEASE(ThreadingOptions);
  ORT_API2_STATUS(ModelMetadataGetCustomMetadataMapKeys, const OrtModelMetadata* model_metadata,
                  OrtAllocator* allocator, char*** keys, int64_t* num_keys);
  ORT_API2_STATUS(AddFreeDimensionOverrideByName, OrtSessionOptions* options, const char* dim_name, int64_t dim_value);

  // Version 4.
  ORT_API2_STATUS(GetAvailableProviders, char*** out_ptr, int* provider_length);
  ORT_API2_STATUS(ReleaseAvailableProviders, char** ptr, int providers_length);

  // Version 5.
  ORT_API2_STATUS(GetStringTensorElementLength, const OrtValue* value, size_t index, size_t* out);
  ORT_API2_STATUS(GetStringTensorElement, const OrtValue* value, size_t s_len, size_t index, void* s);
  ORT_API2_STATUS(FillStringTensorElement, OrtValue* value, const char* s, size_t index);
  ORT_API2_STATUS(AddSessionConfigEntry, OrtSessionOptions* options, const char* config_key, const char* config_value);
  ORT_API2_STATUS(CreateAllocator, const OrtSession* session, const OrtMemoryInfo* mem_info, OrtAllocator** out);
  ORT_CLASS_RELEASE(Allocator);
  ORT_API2_STATUS(RunWithBinding, OrtSession* session, const OrtRunOptions* run_options,
                  const OrtIoBinding* binding_ptr);
  ORT_API2_STATUS(CreateIoBinding, OrtSession* session, OrtIoBinding** out);
  ORT_CLASS_RELEASE(IoBinding);
  ORT_API2_STATUS(BindInput, OrtIoBinding* binding_ptr, const char* name, const OrtValue* val_ptr);
  ORT_API2_STATUS(BindOutput, OrtIoBinding* binding_ptr, const char* name, const OrtValue* val_ptr);
  ORT_API2_STATUS(BindOutputToDevice, OrtIoBinding* binding_ptr, const char* name, const OrtMemoryInfo* mem_info_ptr);
  ORT_API2_STATUS(GetBoundOutputNames, const OrtIoBinding* binding_ptr, OrtAllocator* allocator, char** buffer,
                  size_t** lengths, size_t* count);
  ORT_API2_STATUS(GetBoundOutputValues, const OrtIoBinding* binding_ptr, OrtAllocator* allocator, OrtValue*** output,
                  size_t* output_count);
  ORT_API_T(void, ClearBoundInputs, OrtIoBinding* binding_ptr);
  ORT_API_T(void, ClearBoundOutputs, OrtIoBinding* binding_ptr);
  ORT_API2_STATUS(TensorAt, OrtValue* value, const int64_t* location_values, size_t location_values_count, void** out);
  ORT_API2_STATUS(CreateAndRegisterAllocator, OrtEnv* env, const OrtMemoryInfo* mem_info, const OrtArenaCfg* arena_cfg);
  ORT_API2_STATUS(SetLanguageProjection, const OrtEnv* ort_env, OrtLanguageProjection projection);
  ORT_API2_STATUS(SessionGetProfilingStartTimeNs, const OrtSession* session, uint64_t* out);
  ORT_API2_STATUS(SetGlobalIntraOpNumThreads, OrtThreadingOptions* tp_options, int intra_op_num_threads);
  ORT_API2_STATUS(SetGlobalInterOpNumThreads, OrtThreadingOptions* tp_options, int inter_op_num_threads);
  ORT_API2_STATUS(SetGlobalSpinControl, OrtThreadingOptions* tp_options, int allow_spinning);

  // Version 6.
  ORT_API2_STATUS(AddInitializer, OrtSessionOptions* options, const char* name, const OrtValue* val);
  ORT_API2_STATUS(CreateEnvWithCustomLoggerAndGlobalThreadPools, OrtLoggingFunction logging_function,
                  void* logger_param, OrtLoggingLevel log_severity_level, const char* logid,
                  const struct OrtThreadingOptions* tp_options, OrtEnv** out);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_CUDA, OrtSessionOptions* options,
                  const OrtCUDAProviderOptions* cuda_options);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_ROCM, OrtSessionOptions* options,
                  const OrtROCMProviderOptions* rocm_options);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_OpenVINO, OrtSessionOptions* options,
                  const OrtOpenVINOProviderOptions* provider_options);
  ORT_API2_STATUS(SetGlobalDenormalAsZero, OrtThreadingOptions* tp_options);
  ORT_API2_STATUS(CreateArenaCfg, size_t max_mem, int arena_extend_strategy, int initial_chunk_size_bytes,
                  int max_dead_bytes_per_chunk, OrtArenaCfg** out);
  ORT_CLASS_RELEASE(ArenaCfg);

  // Version 7.
  ORT_API2_STATUS(ModelMetadataGetGraphDescription, const OrtModelMetadata* model_metadata, OrtAllocator* allocator,
                  char** value);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_TensorRT, OrtSessionOptions* options,
                  const OrtTensorRTProviderOptions* tensorrt_options);
  ORT_API2_STATUS(SetCurrentGpuDeviceId, int device_id);
  ORT_API2_STATUS(GetCurrentGpuDeviceId, int* device_id);

  // Version 8.
  ORT_API2_STATUS(KernelInfoGetAttributeArray_float, const OrtKernelInfo* info, const char* name, float* out,
                  size_t* size);
  ORT_API2_STATUS(KernelInfoGetAttributeArray_int64, const OrtKernelInfo* info, const char* name, int64_t* out,
                  size_t* size);
  ORT_API2_STATUS(CreateArenaCfgV2, const char* const* arena_config_keys, const size_t* arena_config_values,
                  size_t num_keys, OrtArenaCfg** out);
  ORT_API2_STATUS(AddRunConfigEntry, OrtRunOptions* options, const char* config_key, const char* config_value);
  ORT_API2_STATUS(CreatePrepackedWeightsContainer, OrtPrepackedWeightsContainer** out);
  ORT_CLASS_RELEASE(PrepackedWeightsContainer);
  ORT_API2_STATUS(CreateSessionWithPrepackedWeightsContainer, const OrtEnv* env, const ORTCHAR_T* model_path,
                  const OrtSessionOptions* options, OrtPrepackedWeightsContainer* prepacked_weights_container,
                  OrtSession** out);
  ORT_API2_STATUS(CreateSessionFromArrayWithPrepackedWeightsContainer, const OrtEnv* env, const void* model_data,
                  size_t model_data_length, const OrtSessionOptions* options,
                  OrtPrepackedWeightsContainer* prepacked_weights_container, OrtSession** out);

  // Version 9.
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_TensorRT_V2, OrtSessionOptions* options,
                  const OrtTensorRTProviderOptionsV2* tensorrt_options);
  ORT_API2_STATUS(CreateTensorRTProviderOptions, OrtTensorRTProviderOptionsV2** out);
  ORT_API2_STATUS(UpdateTensorRTProviderOptions, OrtTensorRTProviderOptionsV2* tensorrt_options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(GetTensorRTProviderOptionsAsString, const OrtTensorRTProviderOptionsV2* tensorrt_options,
                  OrtAllocator* allocator, char** ptr);
  void(ORT_API_CALL* ReleaseTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2* input);
  ORT_API2_STATUS(EnableOrtCustomOps, OrtSessionOptions* options);
  ORT_API2_STATUS(RegisterAllocator, OrtEnv* env, OrtAllocator* allocator);
  ORT_API2_STATUS(UnregisterAllocator, OrtEnv* env, const OrtMemoryInfo* mem_info);
  ORT_API2_STATUS(IsSparseTensor, const OrtValue* value, int* out);
  ORT_API2_STATUS(CreateSparseTensorAsOrtValue, OrtAllocator* allocator, const int64_t* dense_shape,
                  size_t dense_shape_len, ONNXTensorElementDataType type, OrtValue** out);
  ORT_API2_STATUS(FillSparseTensorCoo, OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
                  const int64_t* values_shape, size_t values_shape_len, const void* values, const int64_t* indices_data,
                  size_t indices_num);
  ORT_API2_STATUS(FillSparseTensorCsr, OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
                  const int64_t* values_shape, size_t values_shape_len, const void* values,
                  const int64_t* inner_indices_data, size_t inner_indices_num, const int64_t* outer_indices_data,
                  size_t outer_indices_num);
  ORT_API2_STATUS(FillSparseTensorBlockSparse, OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
                  const int64_t* values_shape, size_t values_shape_len, const void* values,
                  const int64_t* indices_shape_data, size_t indices_shape_len, const int32_t* indices_data);
  ORT_API2_STATUS(CreateSparseTensorWithValuesAsOrtValue, const OrtMemoryInfo* info, void* p_data,
                  const int64_t* dense_shape, size_t dense_shape_len, const int64_t* values_shape,
                  size_t values_shape_len, ONNXTensorElementDataType type, OrtValue** out);
  ORT_API2_STATUS(UseCooIndices, OrtValue* ort_value, int64_t* indices_data, size_t indices_num);
  ORT_API2_STATUS(UseCsrIndices, OrtValue* ort_value, int64_t* inner_data, size_t inner_num, int64_t* outer_data,
                  size_t outer_num);
  ORT_API2_STATUS(UseBlockSparseIndices, OrtValue* ort_value, const int64_t* indices_shape, size_t indices_shape_len,
                  int32_t* indices_data);
  ORT_API2_STATUS(GetSparseTensorFormat, const OrtValue* ort_value, enum OrtSparseFormat* out);
  ORT_API2_STATUS(GetSparseTensorValuesTypeAndShape, const OrtValue* ort_value, OrtTensorTypeAndShapeInfo** out);
  ORT_API2_STATUS(GetSparseTensorValues, const OrtValue* ort_value, const void** out);
  ORT_API2_STATUS(GetSparseTensorIndicesTypeShape, const OrtValue* ort_value,
                  enum OrtSparseIndicesFormat indices_format, OrtTensorTypeAndShapeInfo** out);
  ORT_API2_STATUS(GetSparseTensorIndices, const OrtValue* ort_value, enum OrtSparseIndicesFormat indices_format,
                  size_t* num_indices, const void** indices);

  // Version 10.
  ORT_API2_STATUS(HasValue, const OrtValue* value, int* out);
  ORT_API2_STATUS(KernelContext_GetGPUComputeStream, const OrtKernelContext* context, void** out);
  ORT_API2_STATUS(GetTensorMemoryInfo, const OrtValue* value, const OrtMemoryInfo** mem_info);
  ORT_API2_STATUS(GetExecutionProviderApi, const char* provider_name, uint32_t version, const void** provider_api);
  ORT_API2_STATUS(SessionOptionsSetCustomCreateThreadFn, OrtSessionOptions* options,
                  OrtCustomCreateThreadFn ort_custom_create_thread_fn);
  ORT_API2_STATUS(SessionOptionsSetCustomThreadCreationOptions, OrtSessionOptions* options,
                  void* ort_custom_thread_creation_options);
  ORT_API2_STATUS(SessionOptionsSetCustomJoinThreadFn, OrtSessionOptions* options,
                  OrtCustomJoinThreadFn ort_custom_join_thread_fn);
  ORT_API2_STATUS(SetGlobalCustomCreateThreadFn, OrtThreadingOptions* tp_options,
                  OrtCustomCreateThreadFn ort_custom_create_thread_fn);
  ORT_API2_STATUS(SetGlobalCustomThreadCreationOptions, OrtThreadingOptions* tp_options,
                  void* ort_custom_thread_creation_options);
  ORT_API2_STATUS(SetGlobalCustomJoinThreadFn, OrtThreadingOptions* tp_options,
                  OrtCustomJoinThreadFn ort_custom_join_thread_fn);
  ORT_API2_STATUS(SynchronizeBoundInputs, OrtIoBinding* binding_ptr);
  ORT_API2_STATUS(SynchronizeBoundOutputs, OrtIoBinding* binding_ptr);

  // Version 11.
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_CUDA_V2, OrtSessionOptions* options,
                  const OrtCUDAProviderOptionsV2* cuda_options);
  ORT_API2_STATUS(CreateCUDAProviderOptions, OrtCUDAProviderOptionsV2** out);
  ORT_API2_STATUS(UpdateCUDAProviderOptions, OrtCUDAProviderOptionsV2* cuda_options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(GetCUDAProviderOptionsAsString, const OrtCUDAProviderOptionsV2* cuda_options, OrtAllocator* allocator,
                  char** ptr);
  void(ORT_API_CALL* ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2* input);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_MIGraphX, OrtSessionOptions* options,
                  const OrtMIGraphXProviderOptions* migraphx_options);

  // Version 12.
  ORT_API2_STATUS(AddExternalInitializers, OrtSessionOptions* options, const char* const* initializer_names,
                  const OrtValue* const* initializers, size_t num_initializers);
  ORT_API2_STATUS(CreateOpAttr, const char* name, const void* data, int len, OrtOpAttrType type, OrtOpAttr** op_attr);
  ORT_CLASS_RELEASE(OpAttr);
  ORT_API2_STATUS(CreateOp, const OrtKernelInfo* info, const char* op_name, const char* domain, int version,
                  const char** type_constraint_names, const ONNXTensorElementDataType* type_constraint_values,
                  int type_constraint_count, const OrtOpAttr* const* attr_values, int attr_count, int input_count,
                  int output_count, OrtOp** ort_op);
  ORT_API2_STATUS(InvokeOp, const OrtKernelContext* context, const OrtOp* ort_op, const OrtValue* const* input_values,
                  int input_count, OrtValue* const* output_values, int output_count);
  ORT_CLASS_RELEASE(Op);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider, OrtSessionOptions* options, const char* provider_name,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(CopyKernelInfo, const OrtKernelInfo* info, OrtKernelInfo** info_copy);
  ORT_CLASS_RELEASE(KernelInfo);

  // Version 13.
  ORT_API_T(const OrtTrainingApi*, GetTrainingApi, uint32_t version);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_CANN, OrtSessionOptions* options,
                  const OrtCANNProviderOptions* cann_options);
  ORT_API2_STATUS(CreateCANNProviderOptions, OrtCANNProviderOptions** out);
  ORT_API2_STATUS(UpdateCANNProviderOptions, OrtCANNProviderOptions* cann_options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(GetCANNProviderOptionsAsString, const OrtCANNProviderOptions* cann_options, OrtAllocator* allocator,
                  char** ptr);
  ORT_CLASS_RELEASE(CANNProviderOptions);

  // Version 14.
  void(ORT_API_CALL* MemoryInfoGetDeviceType)(const OrtMemoryInfo* ptr, OrtMemoryInfoDeviceType* out);
  ORT_API2_STATUS(UpdateEnvWithCustomLogLevel, OrtEnv* ort_env, OrtLoggingLevel log_severity_level);
  ORT_API2_STATUS(SetGlobalIntraOpThreadAffinity, OrtThreadingOptions* tp_options, const char* affinity_string);
  ORT_API2_STATUS(RegisterCustomOpsLibrary_V2, OrtSessionOptions* options, const ORTCHAR_T* library_name);
  ORT_API2_STATUS(RegisterCustomOpsUsingFunction, OrtSessionOptions* options, const char* registration_func_name);
  ORT_API2_STATUS(KernelInfo_GetInputCount, const OrtKernelInfo* info, size_t* out);
  ORT_API2_STATUS(KernelInfo_GetOutputCount, const OrtKernelInfo* info, size_t* out);
  ORT_API2_STATUS(KernelInfo_GetInputName, const OrtKernelInfo* info, size_t index, char* out, size_t* size);
  ORT_API2_STATUS(KernelInfo_GetOutputName, const OrtKernelInfo* info, size_t index, char* out, size_t* size);
  ORT_API2_STATUS(KernelInfo_GetInputTypeInfo, const OrtKernelInfo* info, size_t index, OrtTypeInfo** type_info);
  ORT_API2_STATUS(KernelInfo_GetOutputTypeInfo, const OrtKernelInfo* info, size_t index, OrtTypeInfo** type_info);
  ORT_API2_STATUS(KernelInfoGetAttribute_tensor, const OrtKernelInfo* info, const char* name, OrtAllocator* allocator,
                  OrtValue** out);
  ORT_API2_STATUS(HasSessionConfigEntry, const OrtSessionOptions* options, const char* config_key, int* out);
  ORT_API2_STATUS(GetSessionConfigEntry, const OrtSessionOptions* options, const char* config_key, char* config_value,
                  size_t* size);

  // Version 15.
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_Dnnl, OrtSessionOptions* options,
                  const OrtDnnlProviderOptions* dnnl_options);
  ORT_API2_STATUS(CreateDnnlProviderOptions, OrtDnnlProviderOptions** out);
  ORT_API2_STATUS(UpdateDnnlProviderOptions, OrtDnnlProviderOptions* dnnl_options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(GetDnnlProviderOptionsAsString, const OrtDnnlProviderOptions* dnnl_options, OrtAllocator* allocator,
                  char** ptr);
  ORT_CLASS_RELEASE(DnnlProviderOptions);
  ORT_API2_STATUS(KernelInfo_GetNodeName, const OrtKernelInfo* info, char* out, size_t* size);
  ORT_API2_STATUS(KernelInfo_GetLogger, const OrtKernelInfo* info, const OrtLogger** logger);
  ORT_API2_STATUS(KernelContext_GetLogger, const OrtKernelContext* context, const OrtLogger** logger);
  ORT_API2_STATUS(Logger_LogMessage, const OrtLogger* logger, OrtLoggingLevel log_severity_level, const char* message,
                  const ORTCHAR_T* file_path, int line_number, const char* func_name);
  ORT_API2_STATUS(Logger_GetLoggingSeverityLevel, const OrtLogger* logger, OrtLoggingLevel* out);
  ORT_API2_STATUS(KernelInfoGetConstantInput_tensor, const OrtKernelInfo* info, size_t index, int* is_constant,
                  const OrtValue** out);
  ORT_API2_STATUS(CastTypeInfoToOptionalTypeInfo, const OrtTypeInfo* type_info, const OrtOptionalTypeInfo** out);
  ORT_API2_STATUS(GetOptionalContainedTypeInfo, const OrtOptionalTypeInfo* optional_type_info, OrtTypeInfo** out);
  ORT_API2_STATUS(GetResizedStringTensorElementBuffer, OrtValue* value, size_t index, size_t length_in_bytes,
                  char** buffer);
  ORT_API2_STATUS(KernelContext_GetAllocator, const OrtKernelContext* context, const OrtMemoryInfo* mem_info,
                  OrtAllocator** out);
  const char*(ORT_API_CALL* GetBuildInfoString)(void);

  // Version 16.
  ORT_API2_STATUS(CreateROCMProviderOptions, OrtROCMProviderOptions** out);
  ORT_API2_STATUS(UpdateROCMProviderOptions, OrtROCMProviderOptions* rocm_options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(GetROCMProviderOptionsAsString, const OrtROCMProviderOptions* rocm_options, OrtAllocator* allocator,
                  char** ptr);
  ORT_CLASS_RELEASE(ROCMProviderOptions);
  ORT_API2_STATUS(CreateAndRegisterAllocatorV2, OrtEnv* env, const char* provider_type, const OrtMemoryInfo* mem_info,
                  const OrtArenaCfg* arena_cfg, const char* const* provider_options_keys,
                  const char* const* provider_options_values, size_t num_keys);
  ORT_API2_STATUS(RunAsync, OrtSession* session, const OrtRunOptions* run_options, const char* const* input_names,
                  const OrtValue* const* input, size_t input_len, const char* const* output_names,
                  size_t output_names_len, OrtValue** output, RunAsyncCallbackFn run_async_callback, void* user_data);
  ORT_API2_STATUS(UpdateTensorRTProviderOptionsWithValue, OrtTensorRTProviderOptionsV2* tensorrt_options,
                  const char* key, void* value);
  ORT_API2_STATUS(GetTensorRTProviderOptionsByName, const OrtTensorRTProviderOptionsV2* tensorrt_options,
                  const char* key, void** ptr);
  ORT_API2_STATUS(UpdateCUDAProviderOptionsWithValue, OrtCUDAProviderOptionsV2* cuda_options, const char* key,
                  void* value);
  ORT_API2_STATUS(GetCUDAProviderOptionsByName, const OrtCUDAProviderOptionsV2* cuda_options, const char* key,
                  void** ptr);
  ORT_API2_STATUS(KernelContext_GetResource, const OrtKernelContext* context, int resource_version, int resource_id,
                  void** resource);

  // Version 17.
  ORT_API2_STATUS(SetUserLoggingFunction, OrtSessionOptions* options, OrtLoggingFunction user_logging_function,
                  void* user_logging_param);
  ORT_API2_STATUS(ShapeInferContext_GetInputCount, const OrtShapeInferContext* context, size_t* out);
  ORT_API2_STATUS(ShapeInferContext_GetInputTypeShape, const OrtShapeInferContext* context, size_t index,
                  OrtTensorTypeAndShapeInfo** info);
  ORT_API2_STATUS(ShapeInferContext_GetAttribute, const OrtShapeInferContext* context, const char* attr_name,
                  const OrtOpAttr** attr);
  ORT_API2_STATUS(ShapeInferContext_SetOutputTypeShape, const OrtShapeInferContext* context, size_t index,
                  const OrtTensorTypeAndShapeInfo* info);
  ORT_API2_STATUS(SetSymbolicDimensions, OrtTensorTypeAndShapeInfo* info, const char* dim_params[],
                  size_t dim_params_length);
  ORT_API2_STATUS(ReadOpAttr, const OrtOpAttr* op_attr, OrtOpAttrType type, void* data, size_t len, size_t* out);
  ORT_API2_STATUS(SetDeterministicCompute, OrtSessionOptions* options, bool value);
  ORT_API2_STATUS(KernelContext_ParallelFor, const OrtKernelContext* context, void (*fn)(void*, size_t), size_t total,
                  size_t num_batch, void* usr_data);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_OpenVINO_V2, OrtSessionOptions* options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);

  // Version 18.
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_VitisAI, OrtSessionOptions* options,
                  const char* const* provider_options_keys, const char* const* provider_options_values,
                  size_t num_keys);
  ORT_API2_STATUS(KernelContext_GetScratchBuffer, const OrtKernelContext* context, const OrtMemoryInfo* mem_info,
                  size_t count_or_bytes, void** out);
  ORT_API2_STATUS(KernelInfoGetAllocator, const OrtKernelInfo* info, OrtMemType mem_type, OrtAllocator** out);
  ORT_API2_STATUS(AddExternalInitializersFromFilesInMemory, OrtSessionOptions* options,
                  const ORTCHAR_T* const* external_initializer_file_names,
                  char* const* external_initializer_file_buffer_array, const size_t* external_initializer_file_lengths,
                  size_t num_external_initializer_files);

  // Version 20.
  ORT_API2_STATUS(CreateLoraAdapter, const ORTCHAR_T* adapter_file_path, OrtAllocator* allocator, OrtLoraAdapter** out);
  ORT_API2_STATUS(CreateLoraAdapterFromArray, const void* bytes, size_t num_bytes, OrtAllocator* allocator,
                  OrtLoraAdapter** out);
  ORT_CLASS_RELEASE(LoraAdapter);
  ORT_API2_STATUS(RunOptionsAddActiveLoraAdapter, OrtRunOptions* options, const OrtLoraAdapter* adapter);
  ORT_API2_STATUS(SetEpDynamicOptions, OrtSession* sess, const char* const* keys, const char* const* values,
                  size_t kv_len);

  // Version 22.
  ORT_CLASS_RELEASE(ValueInfo);
  ORT_CLASS_RELEASE(Node);
  ORT_CLASS_RELEASE(Graph);
  ORT_CLASS_RELEASE(Model);
  ORT_API2_STATUS(GetValueInfoName, const OrtValueInfo* value_info, const char** name);
  ORT_API2_STATUS(GetValueInfoTypeInfo, const OrtValueInfo* value_info, const OrtTypeInfo** type_info);
  const OrtModelEditorApi*(ORT_API_CALL* GetModelEditorApi)(void);
  ORT_API2_STATUS(CreateTensorWithDataAndDeleterAsOrtValue, OrtAllocator* deleter, void* p_data, size_t p_data_len,
                  const int64_t* shape, size_t shape_len, ONNXTensorElementDataType type, OrtValue** out);
  ORT_API2_STATUS(SessionOptionsSetLoadCancellationFlag, OrtSessionOptions* options, bool cancel);
  const OrtCompileApi*(ORT_API_CALL* GetCompileApi)(void);
  void(ORT_API_CALL* CreateKeyValuePairs)(OrtKeyValuePairs** out);
  void(ORT_API_CALL* AddKeyValuePair)(OrtKeyValuePairs* kvps, const char* key, const char* value);
  const char*(ORT_API_CALL* GetKeyValue)(const OrtKeyValuePairs* kvps, const char* key);
  void(ORT_API_CALL* GetKeyValuePairs)(const OrtKeyValuePairs* kvps, const char* const** keys,
                                       const char* const** values, size_t* num_entries);
  void(ORT_API_CALL* RemoveKeyValuePair)(OrtKeyValuePairs* kvps, const char* key);
  ORT_CLASS_RELEASE(KeyValuePairs);
  ORT_API2_STATUS(RegisterExecutionProviderLibrary, OrtEnv* env, const char* registration_name, const ORTCHAR_T* path);
  ORT_API2_STATUS(UnregisterExecutionProviderLibrary, OrtEnv* env, const char* registration_name);
  ORT_API2_STATUS(GetEpDevices, const OrtEnv* env, const OrtEpDevice* const** ep_devices, size_t* num_ep_devices);
  ORT_API2_STATUS(SessionOptionsAppendExecutionProvider_V2, OrtSessionOptions* session_options, OrtEnv* env,
                  const OrtEpDevice* const* ep_devices, size_t num_ep_devices, const char* const* ep_option_keys,
                  const char* const* ep_option_vals, size_t num_ep_options);
  ORT_API2_STATUS(SessionOptionsSetEpSelectionPolicy, OrtSessionOptions* session_options,
                  OrtExecutionProviderDevicePolicy policy);
  ORT_API2_STATUS(SessionOptionsSetEpSelectionPolicyDelegate, OrtSessionOptions* session_options,
                  EpSelectionDelegate delegate, void* delegate_state);
  OrtHardwareDeviceType(ORT_API_CALL* HardwareDevice_Type)(const OrtHardwareDevice* device);
  uint32_t(ORT_API_CALL* HardwareDevice_VendorId)(const OrtHardwareDevice* device);
  const char*(ORT_API_CALL* HardwareDevice_Vendor)(const OrtHardwareDevice* device);
  uint32_t(ORT_API_CALL* HardwareDevice_DeviceId)(const OrtHardwareDevice* device);
  const OrtKeyValuePairs*(ORT_API_CALL* HardwareDevice_Metadata)(const OrtHardwareDevice* device);
  const char*(ORT_API_CALL* EpDevice_EpName)(const OrtEpDevice* ep_device);
  const char*(ORT_API_CALL* EpDevice_EpVendor)(const OrtEpDevice* ep_device);
  const OrtKeyValuePairs*(ORT_API_CALL* EpDevice_EpMetadata)(const OrtEpDevice* ep_device);
  const OrtKeyValuePairs*(ORT_API_CALL* EpDevice_EpOptions)(const OrtEpDevice* ep_device);
  const OrtHardwareDevice*(ORT_API_CALL* EpDevice_Device)(const OrtEpDevice* ep_device);
  const OrtEpApi*(ORT_API_CALL* GetEpApi)(void);

  // Version 23.
  ORT_API2_STATUS(GetTensorSizeInBytes, const OrtValue* ort_value, size_t* size);
  ORT_API2_STATUS(AllocatorGetStats, const OrtAllocator* ort_allocator, OrtKeyValuePairs** out);
  ORT_API2_STATUS(CreateMemoryInfo_V2, const char* name, enum OrtMemoryInfoDeviceType device_type, uint32_t vendor_id,
                  int32_t device_id, enum OrtDeviceMemoryType mem_type, size_t alignment,
                  enum OrtAllocatorType allocator_type, OrtMemoryInfo** out);
  ORT_API_T(OrtDeviceMemoryType, MemoryInfoGetDeviceMemType, const OrtMemoryInfo* ptr);
  ORT_API_T(uint32_t, MemoryInfoGetVendorId, const OrtMemoryInfo* ptr);
  ORT_API2_STATUS(ValueInfo_GetValueProducer, const OrtValueInfo* value_info, const OrtNode** producer_node,
                  size_t* producer_output_index);
  ORT_API2_STATUS(ValueInfo_GetValueNumConsumers, const OrtValueInfo* value_info, size_t* num_consumers);
  ORT_API2_STATUS(ValueInfo_GetValueConsumers, const OrtValueInfo* value_info, const OrtNode** nodes,
                  int64_t* input_indices, size_t num_consumers);
  ORT_API2_STATUS(ValueInfo_GetInitializerValue, const OrtValueInfo* value_info, const OrtValue** initializer_value);
  ORT_API2_STATUS(ValueInfo_GetExternalInitializerInfo, const OrtValueInfo* value_info,
                  OrtExternalInitializerInfo** info);
  ORT_API2_STATUS(ValueInfo_IsRequiredGraphInput, const OrtValueInfo* value_info, bool* is_required_graph_input);
  ORT_API2_STATUS(ValueInfo_IsOptionalGraphInput, const OrtValueInfo* value_info, bool* is_optional_graph_input);
  ORT_API2_STATUS(ValueInfo_IsGraphOutput, const OrtValueInfo* value_info, bool* is_graph_output);
  ORT_API2_STATUS(ValueInfo_IsConstantInitializer, const OrtValueInfo* value_info, bool* is_constant_initializer);
  ORT_API2_STATUS(ValueInfo_IsFromOuterScope, const OrtValueInfo* value_info, bool* is_from_outer_scope);
  ORT_API2_STATUS(Graph_GetName, const OrtGraph* graph, const char** graph_name);
  ORT_API2_STATUS(Graph_GetModelPath, const OrtGraph* graph, const ORTCHAR_T** model_path);
  ORT_API2_STATUS(Graph_GetOnnxIRVersion, const OrtGraph* graph, int64_t* onnx_ir_version);
  ORT_API2_STATUS(Graph_GetNumOperatorSets, const OrtGraph* graph, size_t* num_operator_sets);
  ORT_API2_STATUS(Graph_GetOperatorSets, const OrtGraph* graph, const char** domains, int64_t* opset_versions,
                  size_t num_operator_sets);
  ORT_API2_STATUS(Graph_GetNumInputs, const OrtGraph* graph, size_t* num_inputs);
  ORT_API2_STATUS(Graph_GetInputs, const OrtGraph* graph, const OrtValueInfo** inputs, size_t num_inputs);
  ORT_API2_STATUS(Graph_GetNumOutputs, const OrtGraph* graph, size_t* num_outputs);
  ORT_API2_STATUS(Graph_GetOutputs, const OrtGraph* graph, const OrtValueInfo** outputs, size_t num_outputs);
  ORT_API2_STATUS(Graph_GetNumInitializers, const OrtGraph* graph, size_t* num_initializers);
  ORT_API2_STATUS(Graph_GetInitializers, const OrtGraph* graph, const OrtValueInfo** initializers,
                  size_t num_initializers);
  ORT_API2_STATUS(Graph_GetNumNodes, const OrtGraph* graph, size_t* num_nodes);
  ORT_API2_STATUS(Graph_GetNodes, const OrtGraph* graph, const OrtNode** nodes, size_t num_nodes);
  ORT_API2_STATUS(Graph_GetParentNode, const OrtGraph* graph, const OrtNode** node);
  ORT_API2_STATUS(Graph_GetGraphView, const OrtGraph* src_graph, const OrtNode** nodes, size_t num_nodes,
                  OrtGraph** dst_graph);
  ORT_API2_STATUS(Node_GetId, const OrtNode* node, size_t* node_id);
  ORT_API2_STATUS(Node_GetName, const OrtNode* node, const char** node_name);
  ORT_API2_STATUS(Node_GetOperatorType, const OrtNode* node, const char** operator_type);
  ORT_API2_STATUS(Node_GetDomain, const OrtNode* node, const char** domain_name);
  ORT_API2_STATUS(Node_GetSinceVersion, const OrtNode* node, int* since_version);
  ORT_API2_STATUS(Node_GetNumInputs, const OrtNode* node, size_t* num_inputs);
  ORT_API2_STATUS(Node_GetInputs, const OrtNode* node, const OrtValueInfo** inputs, size_t num_inputs);
  ORT_API2_STATUS(Node_GetNumOutputs, const OrtNode* node, size_t* num_outputs);
  ORT_API2_STATUS(Node_GetOutputs, const OrtNode* node, const OrtValueInfo** outputs, size_t num_outputs);
  ORT_API2_STATUS(Node_GetNumImplicitInputs, const OrtNode* node, size_t* num_implicit_inputs);
  ORT_API2_STATUS(Node_GetImplicitInputs, const OrtNode* node, const OrtValueInfo** implicit_inputs,
                  size_t num_implicit_inputs);
  ORT_API2_STATUS(Node_GetNumAttributes, const OrtNode* node, size_t* num_attributes);
  ORT_API2_STATUS(Node_GetAttributes, const OrtNode* node, const OrtOpAttr** attributes, size_t num_attributes);
  ORT_API2_STATUS(Node_GetAttributeByName, const OrtNode* node, const char* attribute_name,
                  const OrtOpAttr** attribute);
  ORT_API2_STATUS(OpAttr_GetTensorAttributeAsOrtValue, const OrtOpAttr* attribute, OrtValue** attr_tensor);
  ORT_API2_STATUS(OpAttr_GetType, const OrtOpAttr* attribute, OrtOpAttrType* type);
  ORT_API2_STATUS(OpAttr_GetName, const OrtOpAttr* attribute, const char** name);
  ORT_API2_STATUS(Node_GetNumSubgraphs, const OrtNode* node, size_t* num_subgraphs);
  ORT_API2_STATUS(Node_GetSubgraphs, const OrtNode* node, const OrtGraph** subgraphs, size_t num_subgraphs,
                  const char** attribute_names);
  ORT_API2_STATUS(Node_GetGraph, const OrtNode* node, const OrtGraph** graph);
  ORT_API2_STATUS(Node_GetEpName, const OrtNode* node, const char** out);
  ORT_CLASS_RELEASE(ExternalInitializerInfo);
  ORT_API_T(const ORTCHAR_T*, ExternalInitializerInfo_GetFilePath, const OrtExternalInitializerInfo* info);
  ORT_API_T(int64_t, ExternalInitializerInfo_GetFileOffset, const OrtExternalInitializerInfo* info);
  ORT_API_T(size_t, ExternalInitializerInfo_GetByteSize, const OrtExternalInitializerInfo* info);
  ORT_API_T(const char*, GetRunConfigEntry, const OrtRunOptions* options, const char* config_key);
  ORT_API_T(const OrtMemoryInfo*, EpDevice_MemoryInfo, const OrtEpDevice* ep_device, OrtDeviceMemoryType memory_type);
  ORT_API2_STATUS(CreateSharedAllocator, OrtEnv* env, const OrtEpDevice* ep_device, OrtDeviceMemoryType mem_type,
                  OrtAllocatorType allocator_type, const OrtKeyValuePairs* allocator_options, OrtAllocator** allocator);
  ORT_API2_STATUS(GetSharedAllocator, OrtEnv* env, const OrtMemoryInfo* mem_info, OrtAllocator** allocator);
  ORT_API2_STATUS(ReleaseSharedAllocator, OrtEnv* env, const OrtEpDevice* ep_device, OrtDeviceMemoryType mem_type);
  ORT_API2_STATUS(GetTensorData, const OrtValue* value, const void** out);
  ORT_API2_STATUS(GetSessionOptionsConfigEntries, const OrtSessionOptions* options, OrtKeyValuePairs** out);
  ORT_API2_STATUS(SessionGetMemoryInfoForInputs, const OrtSession* session, const OrtMemoryInfo** inputs_memory_info,
                  size_t num_inputs);
  ORT_API2_STATUS(SessionGetMemoryInfoForOutputs, const OrtSession* session, const OrtMemoryInfo** outputs_memory_info,
                  size_t num_outputs);
  ORT_API2_STATUS(SessionGetEpDeviceForInputs, const OrtSession* session, const OrtEpDevice** inputs_ep_devices,
                  size_t num_inputs);
  ORT_API2_STATUS(CreateSyncStreamForEpDevice, const OrtEpDevice* ep_device, const OrtKeyValuePairs* stream_options,
                  OrtSyncStream** stream);
  ORT_API_T(void*, SyncStream_GetHandle, OrtSyncStream* stream);
  ORT_CLASS_RELEASE(SyncStream);
  ORT_API2_STATUS(CopyTensors, const OrtEnv* env, const OrtValue* const* src_tensors, OrtValue* const* dst_tensors,
                  OrtSyncStream* stream, size_t num_tensors);
  ORT_API2_STATUS(Graph_GetModelMetadata, const OrtGraph* graph, OrtModelMetadata** out);
  ORT_API2_STATUS(GetModelCompatibilityForEpDevices, const OrtEpDevice* const* ep_devices, size_t num_ep_devices,
                  const char* compatibility_info, OrtCompiledModelCompatibility* out_status);
  ORT_API2_STATUS(CreateExternalInitializerInfo, const ORTCHAR_T* filepath, int64_t file_offset, size_t byte_size,
                  OrtExternalInitializerInfo** out);

  // Version 24.
  ORT_API_T(bool, TensorTypeAndShape_HasShape, const OrtTensorTypeAndShapeInfo* info);
  ORT_API2_STATUS(KernelInfo_GetConfigEntries, const OrtKernelInfo* info, OrtKeyValuePairs** out);
  ORT_API2_STATUS(KernelInfo_GetOperatorDomain, const OrtKernelInfo* info, char* out, size_t* size);
  ORT_API2_STATUS(KernelInfo_GetOperatorType, const OrtKernelInfo* info, char* out, size_t* size);
  ORT_API2_STATUS(KernelInfo_GetOperatorSinceVersion, const OrtKernelInfo* info, int* since_version);
  const OrtInteropApi*(ORT_API_CALL* GetInteropApi)(void);
  ORT_API2_STATUS(SessionGetEpDeviceForOutputs, const OrtSession* session, const OrtEpDevice** outputs_ep_devices,
                  size_t num_outputs);
  ORT_API2_STATUS(GetNumHardwareDevices, const OrtEnv* env, size_t* num_devices);
  ORT_API2_STATUS(GetHardwareDevices, const OrtEnv* env, const OrtHardwareDevice** devices, size_t num_devices);
  ORT_API2_STATUS(GetHardwareDeviceEpIncompatibilityDetails, const OrtEnv* env, const char* ep_name,
                  const OrtHardwareDevice* hw, OrtDeviceEpIncompatibilityDetails** details);
  ORT_API2_STATUS(DeviceEpIncompatibilityDetails_GetReasonsBitmask, const OrtDeviceEpIncompatibilityDetails* details,
                  uint32_t* reasons_bitmask);
  ORT_API2_STATUS(DeviceEpIncompatibilityDetails_GetNotes, const OrtDeviceEpIncompatibilityDetails* details,
                  const char** notes);
  ORT_API2_STATUS(DeviceEpIncompatibilityDetails_GetErrorCode, const OrtDeviceEpIncompatibilityDetails* details,
                  int32_t* error_code);
  ORT_CLASS_RELEASE(DeviceEpIncompatibilityDetails);
  ORT_API2_STATUS(GetCompatibilityInfoFromModel, const ORTCHAR_T* model_path, const char* ep_type,
                  OrtAllocator* allocator, char** compatibility_info);
  ORT_API2_STATUS(GetCompatibilityInfoFromModelBytes, const void* model_data, size_t model_data_length,
                  const char* ep_type, OrtAllocator* allocator, char** compatibility_info);
  ORT_API2_STATUS(CreateEnvWithOptions, const OrtEnvCreationOptions* options, OrtEnv** out);
  ORT_API2_STATUS(Session_GetEpGraphAssignmentInfo, const OrtSession* session,
                  const OrtEpAssignedSubgraph* const** ep_subgraphs, size_t* num_ep_subgraphs);
  ORT_API2_STATUS(EpAssignedSubgraph_GetEpName, const OrtEpAssignedSubgraph* ep_subgraph, const char** out);
  ORT_API2_STATUS(EpAssignedSubgraph_GetNodes, const OrtEpAssignedSubgraph* ep_subgraph,
                  const OrtEpAssignedNode* const** ep_nodes, size_t* num_ep_nodes);
  ORT_API2_STATUS(EpAssignedNode_GetName, const OrtEpAssignedNode* ep_node, const char** out);
  ORT_API2_STATUS(EpAssignedNode_GetDomain, const OrtEpAssignedNode* ep_node, const char** out);
  ORT_API2_STATUS(EpAssignedNode_GetOperatorType, const OrtEpAssignedNode* ep_node, const char** out);
  ORT_API_T(void, RunOptionsSetSyncStream, OrtRunOptions* options, OrtSyncStream* sync_stream);
  ORT_API2_STATUS(GetTensorElementTypeAndShapeDataReference, const OrtValue* value,
                  ONNXTensorElementDataType* elem_type, const int64_t** shape_data, size_t* shape_data_count);

  // Version 25.
  ORT_API2_STATUS(RunOptionsEnableProfiling, OrtRunOptions* options, const ORTCHAR_T* profile_file_prefix);
  ORT_API2_STATUS(RunOptionsDisableProfiling, OrtRunOptions* options);
  ORT_API2_STATUS(KernelInfoGetAttributeArray_string, const OrtKernelInfo* info, const char* name,
                  OrtAllocator* allocator, char*** out, size_t* size);
  ORT_API2_STATUS(SetPerSessionThreadPoolCallbacks, OrtEnv* env, const OrtThreadPoolCallbacksConfig* config);

  // Version 27.
  ORT_API2_STATUS(GetMemPatternEnabled, const OrtSessionOptions* options, int* out);
  ORT_API2_STATUS(GetSessionExecutionMode, const OrtSessionOptions* options, ExecutionMode* out);
  ORT_API2_STATUS(SessionReleaseCapturedGraph, OrtSession* session, int graph_annotation_id);

  // Version 28.
  ORT_API_T(OrtExperimentalFnPtr, GetExperimentalFunction, const char* name);
  ORT_API2_STATUS(KernelContext_GetSyncStream, const OrtKernelContext* context, OrtSyncStream** out);

  // Version 29.
  ORT_API2_STATUS(SessionOptionsSetWeightlessSourceModelBuffer, OrtSessionOptions* options,
                  const void* source_model_data, size_t source_model_data_length);

  // Version 30.
  ORT_API2_STATUS(KernelContext_GetPreallocatedOutput, const OrtKernelContext* context, size_t output_index,
                  OrtValue** output);

  // Version 31.
  ORT_API2_STATUS(SessionOptionsSetEpContextDataReadFunc, OrtSessionOptions* options, OrtReadNamedBufferFunc read_func,
                  void* state);
  ORT_API_T(const OrtModelPackageApi*, GetModelPackageApi, void);
};

// A custom operator, written by the caller. `version` is the ORT_API_VERSION it was written for: members younger than
// that are not looked at.
struct OrtCustomOp {
  uint32_t version;
  void*(ORT_API_CALL* CreateKernel)(const struct OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info);
  const char*(ORT_API_CALL* GetName)(const struct OrtCustomOp* op);
  const char*(ORT_API_CALL* GetExecutionProviderType)(const struct OrtCustomOp* op);
  ONNXTensorElementDataType(ORT_API_CALL* GetInputType)(const struct OrtCustomOp* op, size_t index);
  size_t(ORT_API_CALL* GetInputTypeCount)(const struct OrtCustomOp* op);
  ONNXTensorElementDataType(ORT_API_CALL* GetOutputType)(const struct OrtCustomOp* op, size_t index);
  size_t(ORT_API_CALL* GetOutputTypeCount)(const struct OrtCustomOp* op);
  void(ORT_API_CALL* KernelCompute)(void* op_kernel, OrtKernelContext* context);
  void(ORT_API_CALL* KernelDestroy)(void* op_kernel);
  // Version 8.
  OrtCustomOpInputOutputCharacteristic(ORT_API_CALL* GetInputCharacteristic)(const struct OrtCustomOp* op,
                                                                             size_t index);
  OrtCustomOpInputOutputCharacteristic(ORT_API_CALL* GetOutputCharacteristic)(const struct OrtCustomOp* op,
                                                                              size_t index);
  // Version 13.
  OrtMemType(ORT_API_CALL* GetInputMemoryType)(const struct OrtCustomOp* op, size_t index);
  // Version 14.
  int(ORT_API_CALL* GetVariadicInputMinArity)(const struct OrtCustomOp* op);
  int(ORT_API_CALL* GetVariadicInputHomogeneity)(const struct OrtCustomOp* op);
  int(ORT_API_CALL* GetVariadicOutputMinArity)(const struct OrtCustomOp* op);
  int(ORT_API_CALL* GetVariadicOutputHomogeneity)(const struct OrtCustomOp* op);
  // Version 16: as CreateKernel and KernelCompute, with a status. If CreateKernelV2 is set, the first two are not
  // called.
  OrtStatusPtr(ORT_API_CALL* CreateKernelV2)(const struct OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                                             void** kernel);
  OrtStatusPtr(ORT_API_CALL* KernelComputeV2)(void* op_kernel, OrtKernelContext* context);
  // Version 17.
  OrtStatusPtr(ORT_API_CALL* InferOutputShapeFn)(const struct OrtCustomOp* op, OrtShapeInferContext*);
  int(ORT_API_CALL* GetStartVersion)(const struct OrtCustomOp* op);
  int(ORT_API_CALL* GetEndVersion)(const struct OrtCustomOp* op);
  // Version 18. Each gives the number of pairs and two arrays that the matching Release takes back.
  size_t(ORT_API_CALL* GetMayInplace)(int** input_index, int** output_index);
  void(ORT_API_CALL* ReleaseMayInplace)(int* input_index, int* output_index);
  size_t(ORT_API_CALL* GetAliasMap)(int** input_index, int** output_index);
  void(ORT_API_CALL* ReleaseAliasMap)(int* input_index, int* output_index);
};

// Building a graph in memory, and changing the one of a session before it is finished.
struct OrtModelEditorApi {
  ORT_API2_STATUS(CreateTensorTypeInfo, const OrtTensorTypeAndShapeInfo* tensor_info, OrtTypeInfo** type_info);
  ORT_API2_STATUS(CreateSparseTensorTypeInfo, const OrtTensorTypeAndShapeInfo* tensor_info, OrtTypeInfo** type_info);
  ORT_API2_STATUS(CreateMapTypeInfo, ONNXTensorElementDataType map_key_type, const OrtTypeInfo* map_value_type,
                  OrtTypeInfo** type_info);
  ORT_API2_STATUS(CreateSequenceTypeInfo, const OrtTypeInfo* sequence_type, OrtTypeInfo** type_info);
  ORT_API2_STATUS(CreateOptionalTypeInfo, const OrtTypeInfo* contained_type, OrtTypeInfo** type_info);
  ORT_API2_STATUS(CreateValueInfo, const char* name, const OrtTypeInfo* type_info, OrtValueInfo** value_info);
  ORT_API2_STATUS(CreateNode, const char* operator_name, const char* domain_name, const char* node_name,
                  const char* const* input_names, size_t input_names_len, const char* const* output_names,
                  size_t output_names_len, OrtOpAttr** attributes, size_t attribs_len, OrtNode** node);
  ORT_API2_STATUS(CreateGraph, OrtGraph** graph);
  ORT_API2_STATUS(SetGraphInputs, OrtGraph* graph, OrtValueInfo** inputs, size_t inputs_len);
  ORT_API2_STATUS(SetGraphOutputs, OrtGraph* graph, OrtValueInfo** outputs, size_t outputs_len);
  ORT_API2_STATUS(AddInitializerToGraph, OrtGraph* graph, const char* name, OrtValue* tensor, bool data_is_external);
  ORT_API2_STATUS(AddNodeToGraph, OrtGraph* graph, OrtNode* node);
  ORT_API2_STATUS(CreateModel, const char* const* domain_names, const int* opset_versions, size_t opset_entries_len,
                  OrtModel** model);
  ORT_API2_STATUS(AddGraphToModel, OrtModel* model, OrtGraph* graph);
  ORT_API2_STATUS(CreateSessionFromModel, const OrtEnv* env, const OrtModel* model, const OrtSessionOptions* options,
                  OrtSession** out);
  ORT_API2_STATUS(CreateModelEditorSession, const OrtEnv* env, const ORTCHAR_T* model_path,
                  const OrtSessionOptions* options, OrtSession** out);
  ORT_API2_STATUS(CreateModelEditorSessionFromArray, const OrtEnv* env, const void* model_data,
                  size_t model_data_length, const OrtSessionOptions* options, OrtSession** out);
  ORT_API2_STATUS(SessionGetOpsetForDomain, const OrtSession* session, const char* domain, int* opset);
  ORT_API2_STATUS(ApplyModelToModelEditorSession, OrtSession* session, OrtModel* model);
  ORT_API2_STATUS(FinalizeModelEditorSession, OrtSession* session, const OrtSessionOptions* options,
                  OrtPrepackedWeightsContainer* prepacked_weights_container);
};

// Compiling a model once, ahead of the sessions that use it.
struct OrtCompileApi {
  ORT_CLASS_RELEASE(ModelCompilationOptions);
  ORT_API2_STATUS(CreateModelCompilationOptionsFromSessionOptions, const OrtEnv* env,
                  const OrtSessionOptions* session_options, OrtModelCompilationOptions** out);
  ORT_API2_STATUS(ModelCompilationOptions_SetInputModelPath, OrtModelCompilationOptions* model_compile_options,
                  const ORTCHAR_T* input_model_path);
  ORT_API2_STATUS(ModelCompilationOptions_SetInputModelFromBuffer, OrtModelCompilationOptions* model_compile_options,
                  const void* input_model_data, size_t input_model_data_size);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelPath, OrtModelCompilationOptions* model_compile_options,
                  const ORTCHAR_T* output_model_path);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelExternalInitializersFile,
                  OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* external_initializers_file_path,
                  size_t external_initializers_size_threshold);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelBuffer, OrtModelCompilationOptions* model_compile_options,
                  OrtAllocator* allocator, void** output_model_buffer_ptr, size_t* output_model_buffer_size_ptr);
  ORT_API2_STATUS(ModelCompilationOptions_SetEpContextEmbedMode, OrtModelCompilationOptions* model_compile_options,
                  bool embed_ep_context_in_model);
  ORT_API2_STATUS(CompileModel, const OrtEnv* env, const OrtModelCompilationOptions* model_options);
  ORT_API2_STATUS(ModelCompilationOptions_SetFlags, OrtModelCompilationOptions* model_compile_options, uint32_t flags);
  ORT_API2_STATUS(ModelCompilationOptions_SetEpContextBinaryInformation,
                  OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* output_directory,
                  const ORTCHAR_T* model_name);
  ORT_API2_STATUS(ModelCompilationOptions_SetGraphOptimizationLevel, OrtModelCompilationOptions* model_compile_options,
                  GraphOptimizationLevel graph_optimization_level);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelWriteFunc, OrtModelCompilationOptions* model_compile_options,
                  OrtWriteBufferFunc write_func, void* state);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc,
                  OrtModelCompilationOptions* model_compile_options,
                  OrtGetInitializerLocationFunc get_initializer_location_func, void* state);
  ORT_API2_STATUS(ModelCompilationOptions_SetInputModel, OrtModelCompilationOptions* model_compile_options,
                  const OrtModel* model);
  ORT_API2_STATUS(ModelCompilationOptions_SetWeightlessEnabled, OrtModelCompilationOptions* model_compile_options,
                  bool use_weightless);
  ORT_API2_STATUS(ModelCompilationOptions_SetEpContextDataWriteFunc, OrtModelCompilationOptions* model_compile_options,
                  OrtWriteNamedBufferFunc write_func, void* state);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelExternalInitializersBuffer,
                  OrtModelCompilationOptions* model_compile_options, const ORTCHAR_T* logical_file_name,
                  size_t initializer_size_threshold, OrtAllocator* allocator, void** output_buffer,
                  size_t* output_buffer_size);
  ORT_API2_STATUS(ModelCompilationOptions_SetOutputModelExternalInitializersAlignment,
                  OrtModelCompilationOptions* model_compile_options, size_t alignment,
                  size_t initializer_size_threshold);
};

// Memory and semaphores shared with other device interfaces.
struct OrtInteropApi {
  ORT_API2_STATUS(CreateExternalResourceImporterForDevice, const OrtEpDevice* ep_device,
                  OrtExternalResourceImporter** out_importer);
  ORT_CLASS_RELEASE(ExternalResourceImporter);
  ORT_API2_STATUS(CanImportMemory, const OrtExternalResourceImporter* importer, OrtExternalMemoryHandleType handle_type,
                  bool* out_supported);
  ORT_API2_STATUS(ImportMemory, OrtExternalResourceImporter* importer, const OrtExternalMemoryDescriptor* desc,
                  OrtExternalMemoryHandle** out_handle);
  ORT_CLASS_RELEASE(ExternalMemoryHandle);
  ORT_API2_STATUS(CreateTensorFromMemory, OrtExternalResourceImporter* importer,
                  const OrtExternalMemoryHandle* mem_handle, const OrtExternalTensorDescriptor* tensor_desc,
                  OrtValue** out_tensor);
  ORT_API2_STATUS(CanImportSemaphore, const OrtExternalResourceImporter* importer, OrtExternalSemaphoreType type,
                  bool* out_supported);
  ORT_API2_STATUS(ImportSemaphore, OrtExternalResourceImporter* importer, const OrtExternalSemaphoreDescriptor* desc,
                  OrtExternalSemaphoreHandle** out_handle);
  ORT_CLASS_RELEASE(ExternalSemaphoreHandle);
  ORT_API2_STATUS(WaitSemaphore, OrtExternalResourceImporter* importer, OrtExternalSemaphoreHandle* semaphore_handle,
                  OrtSyncStream* stream, uint64_t value);
  ORT_API2_STATUS(SignalSemaphore, OrtExternalResourceImporter* importer, OrtExternalSemaphoreHandle* semaphore_handle,
                  OrtSyncStream* stream, uint64_t value);
  ORT_API2_STATUS(InitGraphicsInteropForEpDevice, const OrtEpDevice* ep_device, const OrtGraphicsInteropConfig* config);
  ORT_API2_STATUS(DeinitGraphicsInteropForEpDevice, const OrtEpDevice* ep_device);
};

// Folders that hold a model in several variants, of which one is chosen for a machine.
struct OrtModelPackageApi {
  ORT_API2_STATUS(CreateModelPackageOptionsFromSessionOptions, const OrtEnv* env,
                  const OrtSessionOptions* session_options, OrtModelPackageOptions** out);
  ORT_CLASS_RELEASE(ModelPackageOptions);
  ORT_API2_STATUS(CreateModelPackageContext, const ORTCHAR_T* package_root, OrtModelPackageContext** out);
  ORT_CLASS_RELEASE(ModelPackageContext);
  ORT_API2_STATUS(ModelPackage_GetSchemaVersion, const OrtModelPackageContext* ctx, int64_t* out_version);
  ORT_API2_STATUS(ModelPackage_GetComponentCount, const OrtModelPackageContext* ctx, size_t* out_count);
  ORT_API2_STATUS(ModelPackage_GetComponentNames, const OrtModelPackageContext* ctx, const char* const** out_names,
                  size_t* out_count);
  ORT_API2_STATUS(ModelPackage_GetVariantCount, const OrtModelPackageContext* ctx, const char* component_name,
                  size_t* out_count);
  ORT_API2_STATUS(ModelPackage_GetVariantNames, const OrtModelPackageContext* ctx, const char* component_name,
                  const char* const** out_variant_names, size_t* out_count);
  ORT_API2_STATUS(ModelPackage_GetVariantEpName, const OrtModelPackageContext* ctx, const char* component_name,
                  const char* variant_name, const char** out_ep);
  ORT_API2_STATUS(ModelPackage_ResolveStringRef, const OrtModelPackageContext* ctx, const char* base_dir,
                  const char* input, int must_exist, const char** out_path);
  ORT_API2_STATUS(SelectComponent, const OrtModelPackageContext* ctx, const char* component_name,
                  const OrtModelPackageOptions* options, OrtModelPackageComponentContext** out);
  ORT_CLASS_RELEASE(ModelPackageComponentContext);
  ORT_API2_STATUS(ModelPackageComponent_GetSelectedVariantName, const OrtModelPackageComponentContext* ctx,
                  const char** out_name);
  ORT_API2_STATUS(ModelPackageComponent_GetSelectedVariantFolderPath, const OrtModelPackageComponentContext* ctx,
                  const ORTCHAR_T** folder_path);
  ORT_API2_STATUS(CreateSession, const OrtEnv* env, const OrtModelPackageComponentContext* ctx,
                  const OrtSessionOptions* session_options, OrtSession** session);
};

// Entry points from before the table; each exists only in a library that has the provider.
ORT_EXPORT ORT_API_STATUS(OrtSessionOptionsAppendExecutionProvider_CPU, OrtSessionOptions* options, int use_arena);
ORT_EXPORT ORT_API_STATUS(OrtSessionOptionsAppendExecutionProvider_CUDA, OrtSessionOptions* options, int device_id);
ORT_EXPORT ORT_API_STATUS(OrtSessionOptionsAppendExecutionProvider_ROCM, OrtSessionOptions* options, int device_id);
ORT_EXPORT ORT_API_STATUS(OrtSessionOptionsAppendExecutionProvider_MIGraphX, OrtSessionOptions* options, int device_id);
ORT_EXPORT ORT_API_STATUS(OrtSessionOptionsAppendExecutionProvider_Dnnl, OrtSessionOptions* options, int use_arena);
ORT_EXPORT ORT_API_STATUS(OrtSessionOptionsAppendExecutionProvider_Tensorrt, OrtSessionOptions* options, int device_id);

#ifdef __cplusplus
}
#endif

#include "tessera/c_api_ep.h"
