// The part of the C ABI for execution providers loaded at run time. Included by c_api.h; not meant to be included
// alone.
//
// The structs that begin with `ort_version_supported` are written by the provider and read by the library, which looks
// at no member younger than that number. OrtEpApi is the table the library offers to providers.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

ORT_RUNTIME_CLASS(Ep);
ORT_RUNTIME_CLASS(EpFactory);
ORT_RUNTIME_CLASS(EpGraphSupportInfo);
ORT_RUNTIME_CLASS(EpProfilerImpl);
ORT_RUNTIME_CLASS(MemoryDevice);
ORT_RUNTIME_CLASS(NodeComputeContext);
ORT_RUNTIME_CLASS(NodeComputeInfo);
ORT_RUNTIME_CLASS(NodeFusionOptions);
ORT_RUNTIME_CLASS(DataTransferImpl);
ORT_RUNTIME_CLASS(SyncNotificationImpl);
ORT_RUNTIME_CLASS(SyncStreamImpl);
ORT_RUNTIME_CLASS(ExternalResourceImporterImpl);
ORT_RUNTIME_CLASS(OpSchema);
ORT_RUNTIME_CLASS(OpSchemaTypeConstraint);
ORT_RUNTIME_CLASS(ProfilingEvent);
ORT_RUNTIME_CLASS(ProfilingEventsContainer);
ORT_RUNTIME_CLASS(KernelRegistry);
ORT_RUNTIME_CLASS(KernelDefBuilder);
ORT_RUNTIME_CLASS(KernelDef);
ORT_RUNTIME_CLASS(KernelImpl);
ORT_RUNTIME_CLASS(LoopKernelHelper);
ORT_RUNTIME_CLASS(ScanKernelHelper);
ORT_RUNTIME_CLASS(DataType);
ORT_RUNTIME_CLASS(SharedPrePackedWeightCache);

typedef enum OrtEpDataLayout ORT_ENUM_BASE {
  OrtEpDataLayout_NCHW = 0,
  OrtEpDataLayout_NHWC = 1,
  OrtEpDataLayout_Default = OrtEpDataLayout_NCHW
} OrtEpDataLayout;

typedef enum OrtGraphCaptureNodeAssignmentPolicy ORT_ENUM_BASE {
  OrtGraphCaptureNodeAssignmentPolicy_ALL_NODES_ON_EP = 0,
  OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES = 1
} OrtGraphCaptureNodeAssignmentPolicy;

typedef enum OrtWeightlessSupport ORT_ENUM_BASE {
  OrtWeightlessSupport_NONE = 0,
  OrtWeightlessSupport_EXTERNAL_ONLY = 1,
  OrtWeightlessSupport_ALL = 2
} OrtWeightlessSupport;

typedef enum OrtProfilingEventCategory ORT_ENUM_BASE {
  OrtProfilingEventCategory_SESSION = 0,
  OrtProfilingEventCategory_NODE = 1,
  OrtProfilingEventCategory_KERNEL = 2,
  OrtProfilingEventCategory_API = 3
} OrtProfilingEventCategory;

typedef enum OrtResourceCountKind ORT_ENUM_BASE {
  OrtResourceCountKind_None = 0,
  OrtResourceCountKind_TotalBytes = 1
} OrtResourceCountKind;

// A budget; `kind` is an OrtResourceCountKind and says which member of `value` counts.
typedef struct OrtResourceCount {
  uint32_t kind;
  uint32_t reserved;
  union {
    uint64_t total_bytes;
    uint64_t reserved_words[6];
  } value;
#ifdef __cplusplus
  OrtResourceCount() noexcept : kind(OrtResourceCountKind_None), reserved(0), value() {}
  static OrtResourceCount None() noexcept { return OrtResourceCount(); }
  static OrtResourceCount FromTotalBytes(uint64_t bytes) noexcept {
    OrtResourceCount count;
    count.kind = OrtResourceCountKind_TotalBytes;
    count.value.total_bytes = bytes;
    return count;
  }
  uint64_t AsTotalBytes() const noexcept { return value.total_bytes; }
#endif
} OrtResourceCount;

struct OrtExternalMemoryHandle {
  uint32_t version;
  const OrtEpDevice* ep_device;
  OrtExternalMemoryDescriptor descriptor;
  void(ORT_API_CALL* Release)(OrtExternalMemoryHandle* handle);
};

struct OrtExternalSemaphoreHandle {
  uint32_t version;
  const OrtEpDevice* ep_device;
  OrtExternalSemaphoreDescriptor descriptor;
  void(ORT_API_CALL* Release)(OrtExternalSemaphoreHandle* handle);
};

// Copies tensors between devices; all streams may be null.
struct OrtDataTransferImpl {
  uint32_t ort_version_supported;
  ORT_API_T(void, Release, OrtDataTransferImpl* this_ptr);
  ORT_API_T(bool, CanCopy, const OrtDataTransferImpl* this_ptr, const OrtMemoryDevice* src_memory_device,
            const OrtMemoryDevice* dst_memory_device);
  ORT_API2_STATUS(CopyTensors, OrtDataTransferImpl* this_ptr, const OrtValue** src_tensors, OrtValue** dst_tensors,
                  OrtSyncStream** streams, size_t num_tensors);
};

struct OrtSyncNotificationImpl {
  uint32_t ort_version_supported;
  ORT_API_T(void, Release, OrtSyncNotificationImpl* this_ptr);
  ORT_API2_STATUS(Activate, OrtSyncNotificationImpl* this_ptr);
  ORT_API2_STATUS(WaitOnDevice, OrtSyncNotificationImpl* this_ptr, OrtSyncStream* consumer_stream);
  ORT_API2_STATUS(WaitOnHost, OrtSyncNotificationImpl* this_ptr);
};

struct OrtSyncStreamImpl {
  uint32_t ort_version_supported;
  ORT_API_T(void, Release, OrtSyncStreamImpl* this_ptr);
  ORT_API_T(void*, GetHandle, OrtSyncStreamImpl* this_ptr);
  ORT_API2_STATUS(CreateNotification, OrtSyncStreamImpl* this_ptr, OrtSyncNotificationImpl** notification);
  ORT_API2_STATUS(Flush, OrtSyncStreamImpl* this_ptr);
  ORT_API2_STATUS(OnSessionRunEnd, OrtSyncStreamImpl* this_ptr);
};

struct OrtExternalResourceImporterImpl {
  uint32_t ort_version_supported;
  ORT_API_T(bool, CanImportMemory, const OrtExternalResourceImporterImpl* this_ptr,
            OrtExternalMemoryHandleType handle_type);
  ORT_API2_STATUS(ImportMemory, OrtExternalResourceImporterImpl* this_ptr, const OrtExternalMemoryDescriptor* desc,
                  OrtExternalMemoryHandle** out_handle);
  ORT_API_T(void, ReleaseMemory, OrtExternalResourceImporterImpl* this_ptr, OrtExternalMemoryHandle* handle);
  ORT_API2_STATUS(CreateTensorFromMemory, OrtExternalResourceImporterImpl* this_ptr,
                  const OrtExternalMemoryHandle* mem_handle, const OrtExternalTensorDescriptor* tensor_desc,
                  OrtValue** out_tensor);
  ORT_API_T(bool, CanImportSemaphore, const OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreType type);
  ORT_API2_STATUS(ImportSemaphore, OrtExternalResourceImporterImpl* this_ptr,
                  const OrtExternalSemaphoreDescriptor* desc, OrtExternalSemaphoreHandle** out_handle);
  ORT_API_T(void, ReleaseSemaphore, OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreHandle* handle);
  ORT_API2_STATUS(WaitSemaphore, OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreHandle* handle,
                  OrtSyncStream* stream, uint64_t value);
  ORT_API2_STATUS(SignalSemaphore, OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreHandle* handle,
                  OrtSyncStream* stream, uint64_t value);
  ORT_API_T(void, Release, OrtExternalResourceImporterImpl* this_ptr);
};

struct OrtEpProfilerImpl {
  uint32_t ort_version_supported;
  ORT_API_T(void, Release, OrtEpProfilerImpl* this_ptr);
  ORT_API2_STATUS(StartProfiling, OrtEpProfilerImpl* this_ptr, int64_t ep_profiling_start_offset_ns);
  ORT_API2_STATUS(StartEvent, OrtEpProfilerImpl* this_ptr, uint64_t ort_event_correlation_id);
  ORT_API2_STATUS(StopEvent, OrtEpProfilerImpl* this_ptr, uint64_t ort_event_correlation_id,
                  const OrtProfilingEvent* ort_event);
  ORT_API2_STATUS(EndProfiling, OrtEpProfilerImpl* this_ptr, OrtProfilingEventsContainer* events_container);
};

struct OrtNodeFusionOptions {
  uint32_t ort_version_supported;
  bool drop_constant_initializers;
};

// How a provider runs a node it compiled: one state per session, Compute once per run.
struct OrtNodeComputeInfo {
  uint32_t ort_version_supported;
  OrtStatus*(ORT_API_CALL* CreateState)(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* compute_context,
                                        void** compute_state);
  OrtStatus*(ORT_API_CALL* Compute)(OrtNodeComputeInfo* this_ptr, void* compute_state,
                                    OrtKernelContext* kernel_context);
  void(ORT_API_CALL* ReleaseState)(OrtNodeComputeInfo* this_ptr, void* compute_state);
};

struct OrtKernelImpl {
  uint32_t ort_version_supported;
  uint32_t flags;
  ORT_API2_STATUS(Compute, OrtKernelImpl* this_ptr, OrtKernelContext* context);
  ORT_API_T(void, Release, OrtKernelImpl* this_ptr);
  ORT_API2_STATUS(PrePackWeight, OrtKernelImpl* this_ptr, const OrtValue* tensor, int input_index,
                  OrtAllocator* allocator, OrtSharedPrePackedWeightCache* prepacked_weight_cache, bool* is_packed);
  ORT_API2_STATUS(SetSharedPrePackedWeight, OrtKernelImpl* this_ptr, const void* const* buffer_data_ptrs,
                  const size_t* buffer_data_sizes, size_t num_buffers, int input_index);
};

typedef OrtStatus*(ORT_API_CALL* OrtKernelCreateFunc)(void* kernel_create_func_state, const OrtKernelInfo* info,
                                                      OrtKernelImpl** kernel_out);

struct OrtLoopKernelHelper {
  uint32_t ort_version_supported;
  ORT_API_T(void, Release, OrtLoopKernelHelper* this_ptr);
  ORT_API2_STATUS(ConcatOutput, OrtLoopKernelHelper* this_ptr, void* stream_handle,
                  const OrtValue* const* per_iteration_outputs, size_t num_per_iteration_outputs, void* output,
                  size_t output_size_in_bytes);
};

struct OrtScanKernelHelper {
  uint32_t ort_version_supported;
  ORT_API_T(void, Release, OrtScanKernelHelper* this_ptr);
  ORT_API2_STATUS(Transpose, OrtScanKernelHelper* this_ptr, const size_t* permutation, size_t num_permutation_elems,
                  const OrtValue* input, OrtSyncStream* stream, OrtValue* output);
};

// The two symbols a provider library exports, as CreateEpFactories and ReleaseEpFactory.
typedef OrtStatus* (*CreateEpApiFactoriesFn)(const char* registered_name, const OrtApiBase* ort_api_base,
                                             const OrtLogger* default_logger, OrtEpFactory** factories,
                                             size_t max_factories, size_t* num_factories);
typedef OrtStatus* (*ReleaseEpApiFactoryFn)(OrtEpFactory* factory);

struct OrtEpApi {
  ORT_API2_STATUS(CreateEpDevice, OrtEpFactory* ep_factory, const OrtHardwareDevice* hardware_device,
                  const OrtKeyValuePairs* ep_metadata, const OrtKeyValuePairs* ep_options, OrtEpDevice** ep_device);
  ORT_CLASS_RELEASE(EpDevice);
  ORT_API2_STATUS(EpGraphSupportInfo_AddNodesToFuse, OrtEpGraphSupportInfo* graph_support_info,
                  const OrtNode* const* nodes, size_t num_nodes, const OrtNodeFusionOptions* node_fusion_options);
  ORT_API2_STATUS(EpGraphSupportInfo_AddSingleNode, OrtEpGraphSupportInfo* graph_support_info, const OrtNode* node);
  ORT_API_T(const char*, NodeComputeContext_NodeName, const OrtNodeComputeContext* context);
  ORT_API2_STATUS(EpDevice_AddAllocatorInfo, OrtEpDevice* ep_device, const OrtMemoryInfo* allocator_memory_info);
  ORT_API_T(const OrtMemoryDevice*, MemoryInfo_GetMemoryDevice, const OrtMemoryInfo* memory_info);
  ORT_API_T(const OrtMemoryDevice*, Value_GetMemoryDevice, const OrtValue* value);
  ORT_API_T(bool, MemoryDevice_AreEqual, const OrtMemoryDevice* a, const OrtMemoryDevice* b);
  ORT_API_T(OrtMemoryInfoDeviceType, MemoryDevice_GetDeviceType, const OrtMemoryDevice* memory_device);
  ORT_API_T(OrtDeviceMemoryType, MemoryDevice_GetMemoryType, const OrtMemoryDevice* memory_device);
  ORT_API_T(uint32_t, MemoryDevice_GetVendorId, const OrtMemoryDevice* memory_device);
  ORT_API_T(uint32_t, MemoryDevice_GetDeviceId, const OrtMemoryDevice* memory_device);
  ORT_API_T(const OrtSyncStreamImpl*, SyncStream_GetImpl, const OrtSyncStream* stream);
  ORT_API_T(uint64_t, SyncStream_GetSyncId, const OrtSyncStream* stream);
  ORT_API_T(uint64_t, GetSyncIdForLastWaitOnSyncStream, const OrtSyncStream* producer_stream,
            const OrtSyncStream* consumer_stream);
  ORT_API2_STATUS(CreateHardwareDevice, OrtHardwareDeviceType type, uint32_t vendor_id, uint32_t device_id,
                  const char* vendor_name, const OrtKeyValuePairs* metadata, OrtHardwareDevice** hardware_device);
  ORT_CLASS_RELEASE(HardwareDevice);
  ORT_API2_STATUS(CreateKernelRegistry, OrtKernelRegistry** kernel_registry);
  ORT_CLASS_RELEASE(KernelRegistry);
  ORT_API2_STATUS(KernelRegistry_AddKernel, OrtKernelRegistry* kernel_registry, const OrtKernelDef* kernel_def,
                  OrtKernelCreateFunc kernel_create_func, void* kernel_create_func_state);
  ORT_API2_STATUS(CreateKernelDefBuilder, OrtKernelDefBuilder** kernel_def_builder_out);
  ORT_CLASS_RELEASE(KernelDefBuilder);
  ORT_API2_STATUS(KernelDefBuilder_SetOperatorType, OrtKernelDefBuilder* kernel_def_builder, const char* op_type);
  ORT_API2_STATUS(KernelDefBuilder_SetDomain, OrtKernelDefBuilder* kernel_def_builder, const char* domain);
  ORT_API2_STATUS(KernelDefBuilder_SetSinceVersion, OrtKernelDefBuilder* kernel_def_builder, int since_version_start,
                  int since_version_end);
  ORT_API2_STATUS(KernelDefBuilder_SetExecutionProvider, OrtKernelDefBuilder* kernel_def_builder, const char* ep_name);
  ORT_API2_STATUS(KernelDefBuilder_SetInputMemType, OrtKernelDefBuilder* kernel_def_builder, size_t input_index,
                  OrtMemType mem_type);
  ORT_API2_STATUS(KernelDefBuilder_SetOutputMemType, OrtKernelDefBuilder* kernel_def_builder, size_t output_index,
                  OrtMemType mem_type);
  ORT_API2_STATUS(KernelDefBuilder_AddTypeConstraint, OrtKernelDefBuilder* kernel_def_builder, const char* arg_name,
                  const OrtDataType* const* types, size_t num_types);
  ORT_API2_STATUS(KernelDefBuilder_AddInputOutputAliases, OrtKernelDefBuilder* kernel_def_builder,
                  int const* input_indices, int const* output_indices, size_t num_io_indices);
  ORT_API2_STATUS(KernelDefBuilder_AddInputOutputMutableAliases, OrtKernelDefBuilder* kernel_def_builder,
                  int const* input_indices, int const* output_indices, size_t num_io_indices);
  ORT_API2_STATUS(KernelDefBuilder_Build, OrtKernelDefBuilder* kernel_def_builder, OrtKernelDef** kernel_def_out);
  ORT_CLASS_RELEASE(KernelDef);
  ORT_API_T(const char*, KernelDef_GetOperatorType, const OrtKernelDef* kernel_def);
  ORT_API_T(const char*, KernelDef_GetDomain, const OrtKernelDef* kernel_def);
  ORT_API2_STATUS(KernelDef_GetSinceVersion, const OrtKernelDef* kernel_def, int* start_version, int* end_version);
  ORT_API_T(const char*, KernelDef_GetExecutionProvider, const OrtKernelDef* kernel_def);
  ORT_API2_STATUS(KernelDef_GetInputMemType, const OrtKernelDef* kernel_def, size_t input_index, OrtMemType* mem_type);
  ORT_API2_STATUS(KernelDef_GetOutputMemType, const OrtKernelDef* kernel_def, size_t output_index,
                  OrtMemType* mem_type);
  ORT_API2_STATUS(GetTensorDataType, ONNXTensorElementDataType elem_type, const OrtDataType** out);
  ORT_API2_STATUS(EpGraphSupportInfo_LookUpKernel, OrtEpGraphSupportInfo* graph_support_info, const OrtNode* node,
                  const OrtKernelDef** out_kernel_def);
  ORT_API2_STATUS(SharedPrePackedWeightCache_StoreWeightData, OrtSharedPrePackedWeightCache* prepacked_weight_cache,
                  void** buffer_data_ptrs, size_t* buffer_data_sizes, size_t num_buffers);
  ORT_API2_STATUS(KernelInfo_GetEp, const OrtKernelInfo* info, const OrtEp** ep);
  ORT_API2_STATUS(DeviceEpIncompatibilityDetails_SetDetails, OrtDeviceEpIncompatibilityDetails* details,
                  uint32_t reasons_bitmask, int32_t error_code, const char* notes);
  ORT_API2_STATUS(CreateIfKernel, const OrtKernelInfo* kernel_info, OrtKernelImpl** kernel_out);
  ORT_API2_STATUS(CreateLoopKernel, const OrtKernelInfo* kernel_info, OrtLoopKernelHelper* helper,
                  OrtKernelImpl** kernel_out);
  ORT_API2_STATUS(CreateScanKernel, const OrtKernelInfo* kernel_info, OrtScanKernelHelper* helper,
                  OrtKernelImpl** kernel_out);
  ORT_CLASS_RELEASE(KernelImpl);
  ORT_API2_STATUS(GetEnvConfigEntries, OrtKeyValuePairs** config_entries);
  ORT_API2_STATUS(GetOpSchema, const char* name, int max_inclusive_version, const char* domain,
                  OrtOpSchema** out_schema);
  ORT_CLASS_RELEASE(OpSchema);
  ORT_API2_STATUS(OpSchema_GetSinceVersion, const OrtOpSchema* schema, int* out);
  ORT_API2_STATUS(OpSchema_GetNumInputs, const OrtOpSchema* schema, size_t* out);
  ORT_API2_STATUS(OpSchema_GetInputName, const OrtOpSchema* schema, size_t index, const char** out);
  ORT_API2_STATUS(OpSchema_GetInputTypeConstraint, const OrtOpSchema* schema, size_t index,
                  const OrtOpSchemaTypeConstraint** out);
  ORT_API2_STATUS(OpSchema_GetNumOutputs, const OrtOpSchema* schema, size_t* out);
  ORT_API2_STATUS(OpSchema_GetOutputName, const OrtOpSchema* schema, size_t index, const char** out);
  ORT_API2_STATUS(OpSchema_GetOutputTypeConstraint, const OrtOpSchema* schema, size_t index,
                  const OrtOpSchemaTypeConstraint** out);
  ORT_API2_STATUS(OpSchema_GetTypeConstraintCount, const OrtOpSchema* schema, size_t* out);
  ORT_API2_STATUS(OpSchema_GetTypeConstraint, const OrtOpSchema* schema, size_t index,
                  const OrtOpSchemaTypeConstraint** out);
  ORT_API2_STATUS(OpSchemaTypeConstraint_GetTypeParamName, const OrtOpSchemaTypeConstraint* type_constraint,
                  const char** out);
  ORT_API2_STATUS(OpSchemaTypeConstraint_GetAllowedTypes, const OrtOpSchemaTypeConstraint* type_constraint,
                  const char* const** out_types, size_t* num_types);
  ORT_API2_STATUS(OpSchemaTypeConstraint_GetInputIndices, const OrtOpSchemaTypeConstraint* type_constraint,
                  const size_t** out_indices, size_t* count);
  ORT_API2_STATUS(OpSchemaTypeConstraint_GetOutputIndices, const OrtOpSchemaTypeConstraint* type_constraint,
                  const size_t** out_indices, size_t* count);
  ORT_API2_STATUS(CreateProfilingEvent, OrtProfilingEventCategory category, int32_t process_id, int32_t thread_id,
                  const char* event_name, int64_t timestamp_us, int64_t duration_us, const char* const* arg_keys,
                  const char* const* arg_values, size_t num_args, OrtProfilingEvent** out);
  ORT_CLASS_RELEASE(ProfilingEvent);
  ORT_API2_STATUS(ProfilingEvent_GetCategory, const OrtProfilingEvent* event, OrtProfilingEventCategory* out);
  ORT_API2_STATUS(ProfilingEvent_GetName, const OrtProfilingEvent* event, const char** out);
  ORT_API2_STATUS(ProfilingEvent_GetTimestampUs, const OrtProfilingEvent* event, int64_t* out);
  ORT_API2_STATUS(ProfilingEvent_GetDurationUs, const OrtProfilingEvent* event, int64_t* out);
  ORT_API2_STATUS(ProfilingEvent_GetArgValue, const OrtProfilingEvent* event, const char* key, const char** out);
  ORT_API2_STATUS(ProfilingEventsContainer_AddEvents, OrtProfilingEventsContainer* events_container,
                  const OrtProfilingEvent* const* events, size_t num_events);
  ORT_API2_STATUS(SessionOptionsGetWeightlessSourceModelBuffer, const OrtSessionOptions* session_options,
                  const void** source_model_data, size_t* source_model_data_length);
  ORT_API2_STATUS(SessionOptionsGetEpContextConfig, const OrtSessionOptions* session_options,
                  OrtEpContextConfig** config);
  ORT_CLASS_RELEASE(EpContextConfig);
  ORT_API2_STATUS(EpContextConfigGetEpContextDataReadFunc, const OrtEpContextConfig* config,
                  OrtReadNamedBufferFunc* read_func, void** state);
  ORT_API2_STATUS(EpContextConfigGetEpContextDataWriteFunc, const OrtEpContextConfig* config,
                  OrtWriteNamedBufferFunc* write_func, void** state);
};

// A provider in one session.
struct OrtEp {
  uint32_t ort_version_supported;
  ORT_API_T(const char*, GetName, const OrtEp* this_ptr);
  ORT_API2_STATUS(GetCapability, OrtEp* this_ptr, const OrtGraph* graph, OrtEpGraphSupportInfo* graph_support_info);
  ORT_API2_STATUS(Compile, OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count,
                  OrtNodeComputeInfo** node_compute_infos, OrtNode** ep_context_nodes);
  ORT_API_T(void, ReleaseNodeComputeInfos, OrtEp* this_ptr, OrtNodeComputeInfo** node_compute_infos,
            size_t num_node_compute_infos);
  ORT_API2_STATUS(GetPreferredDataLayout, OrtEp* this_ptr, OrtEpDataLayout* preferred_data_layout);
  ORT_API2_STATUS(ShouldConvertDataLayoutForOp, OrtEp* this_ptr, const char* domain, const char* op_type,
                  OrtEpDataLayout target_data_layout, int* should_convert);
  ORT_API2_STATUS(SetDynamicOptions, OrtEp* this_ptr, const char* const* option_keys, const char* const* option_values,
                  size_t num_options);
  ORT_API2_STATUS(OnRunStart, OrtEp* this_ptr, const OrtRunOptions* run_options);
  ORT_API2_STATUS(OnRunEnd, OrtEp* this_ptr, const OrtRunOptions* run_options, bool sync_stream);
  ORT_API2_STATUS(CreateAllocator, OrtEp* this_ptr, const OrtMemoryInfo* memory_info, OrtAllocator** allocator);
  ORT_API2_STATUS(CreateSyncStreamForDevice, OrtEp* this_ptr, const OrtMemoryDevice* memory_device,
                  OrtSyncStreamImpl** stream);
  ORT_API_T(const char*, GetCompiledModelCompatibilityInfo, OrtEp* this_ptr, const OrtGraph* graph);
  ORT_API2_STATUS(GetKernelRegistry, OrtEp* this_ptr, const OrtKernelRegistry** kernel_registry);
  ORT_API2_STATUS(IsConcurrentRunSupported, OrtEp* this_ptr, bool* is_supported);
  ORT_API2_STATUS(Sync, OrtEp* this_ptr);
  ORT_API2_STATUS(CreateProfiler, OrtEp* this_ptr, OrtEpProfilerImpl** profiler);
  ORT_API_T(bool, IsGraphCaptureEnabled, const OrtEp* this_ptr);
  ORT_API_T(bool, IsGraphCaptured, const OrtEp* this_ptr, int graph_annotation_id);
  ORT_API2_STATUS(ReplayGraph, OrtEp* this_ptr, int graph_annotation_id);
  ORT_API_T(OrtGraphCaptureNodeAssignmentPolicy, GetGraphCaptureNodeAssignmentPolicy, const OrtEp* this_ptr);
  ORT_API2_STATUS(GetAvailableResource, const OrtEp* this_ptr, OrtResourceCount* available);
  ORT_API2_STATUS(OnSessionInitializationEnd, OrtEp* this_ptr);
  ORT_API2_STATUS(GetDefaultMemoryDevice, const OrtEp* this_ptr, const OrtMemoryDevice** device);
  ORT_API2_STATUS(ReleaseCapturedGraph, OrtEp* this_ptr, int graph_annotation_id);
  ORT_API2_STATUS(GetWeightlessSupport, const OrtEp* this_ptr, OrtWeightlessSupport* support);
};

// Says which devices a provider serves and makes it.
struct OrtEpFactory {
  uint32_t ort_version_supported;
  ORT_API_T(const char*, GetName, const OrtEpFactory* this_ptr);
  ORT_API_T(const char*, GetVendor, const OrtEpFactory* this_ptr);
  ORT_API2_STATUS(GetSupportedDevices, OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                  size_t num_devices, OrtEpDevice** ep_devices, size_t max_ep_devices, size_t* num_ep_devices);
  ORT_API2_STATUS(CreateEp, OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                  const OrtKeyValuePairs* const* ep_metadata_pairs, size_t num_devices,
                  const OrtSessionOptions* session_options, const OrtLogger* logger, OrtEp** ep);
  ORT_API_T(void, ReleaseEp, OrtEpFactory* this_ptr, struct OrtEp* ep);
  ORT_API_T(uint32_t, GetVendorId, const OrtEpFactory* this_ptr);
  ORT_API_T(const char*, GetVersion, const OrtEpFactory* this_ptr);
  ORT_API2_STATUS(ValidateCompiledModelCompatibilityInfo, OrtEpFactory* this_ptr,
                  const OrtHardwareDevice* const* devices, size_t num_devices, const char* compatibility_info,
                  OrtCompiledModelCompatibility* model_compatibility);
  ORT_API2_STATUS(CreateAllocator, OrtEpFactory* this_ptr, const OrtMemoryInfo* memory_info,
                  const OrtKeyValuePairs* allocator_options, OrtAllocator** allocator);
  ORT_API_T(void, ReleaseAllocator, OrtEpFactory* this_ptr, OrtAllocator* allocator);
  ORT_API2_STATUS(CreateDataTransfer, OrtEpFactory* this_ptr, OrtDataTransferImpl** data_transfer);
  ORT_API_T(bool, IsStreamAware, const OrtEpFactory* this_ptr);
  ORT_API2_STATUS(CreateSyncStreamForDevice, OrtEpFactory* this_ptr, const OrtMemoryDevice* memory_device,
                  const OrtKeyValuePairs* stream_options, OrtSyncStreamImpl** stream);
  ORT_API2_STATUS(GetHardwareDeviceIncompatibilityDetails, OrtEpFactory* this_ptr, const OrtHardwareDevice* hw,
                  OrtDeviceEpIncompatibilityDetails* details);
  ORT_API2_STATUS(CreateExternalResourceImporterForDevice, OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                  OrtExternalResourceImporterImpl** out_importer);
  ORT_API2_STATUS(GetNumCustomOpDomains, OrtEpFactory* this_ptr, size_t* num_domains);
  ORT_API2_STATUS(GetCustomOpDomains, OrtEpFactory* this_ptr, OrtCustomOpDomain** domains, size_t num_domains);
  ORT_API2_STATUS(InitGraphicsInterop, OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                  const OrtGraphicsInteropConfig* config);
  ORT_API2_STATUS(DeinitGraphicsInterop, OrtEpFactory* this_ptr, const OrtEpDevice* ep_device);
  ORT_API2_STATUS(SelectBestModelCandidate, OrtEpFactory* this_ptr, const OrtHardwareDevice* device,
                  const OrtKeyValuePairs* const* candidates, size_t num_candidates,
                  const OrtSessionOptions* session_options, size_t* selected_index);
};

#ifdef __cplusplus
}
#endif
