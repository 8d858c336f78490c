// The part of the C ABI for training on the machine where the model is used; OrtApi::GetTrainingApi gives the table.
#pragma once
#include "tessera/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

ORT_RUNTIME_CLASS(TrainingSession);
ORT_RUNTIME_CLASS(CheckpointState);

typedef enum OrtPropertyType ORT_ENUM_BASE {
  OrtIntProperty = 0,
  OrtFloatProperty = 1,
  OrtStringProperty = 2
} OrtPropertyType;

// A training session keeps the checkpoint state it was made with: the state must outlive the session.
struct OrtTrainingApi {
  ORT_API2_STATUS(LoadCheckpoint, const ORTCHAR_T* checkpoint_path, OrtCheckpointState** checkpoint_state);
  ORT_API2_STATUS(SaveCheckpoint, OrtCheckpointState* checkpoint_state, const ORTCHAR_T* checkpoint_path,
                  const bool include_optimizer_state);
  ORT_API2_STATUS(CreateTrainingSession, const OrtEnv* env, const OrtSessionOptions* options,
                  OrtCheckpointState* checkpoint_state, const ORTCHAR_T* train_model_path,
                  const ORTCHAR_T* eval_model_path, const ORTCHAR_T* optimizer_model_path, OrtTrainingSession** out);
  ORT_API2_STATUS(CreateTrainingSessionFromBuffer, const OrtEnv* env, const OrtSessionOptions* options,
                  OrtCheckpointState* checkpoint_state, const void* train_model_data, size_t train_data_length,
                  const void* eval_model_data, size_t eval_data_length, const void* optim_model_data,
                  size_t optim_data_length, OrtTrainingSession** out);
  ORT_API2_STATUS(TrainingSessionGetTrainingModelOutputCount, const OrtTrainingSession* sess, size_t* out);
  ORT_API2_STATUS(TrainingSessionGetEvalModelOutputCount, const OrtTrainingSession* sess, size_t* out);
  ORT_API2_STATUS(TrainingSessionGetTrainingModelOutputName, const OrtTrainingSession* sess, size_t index,
                  OrtAllocator* allocator, char** output);
  ORT_API2_STATUS(TrainingSessionGetEvalModelOutputName, const OrtTrainingSession* sess, size_t index,
                  OrtAllocator* allocator, char** output);
  ORT_API2_STATUS(LazyResetGrad, OrtTrainingSession* session);
  ORT_API2_STATUS(TrainStep, OrtTrainingSession* sess, const OrtRunOptions* run_options, size_t inputs_len,
                  const OrtValue* const* inputs, size_t outputs_len, OrtValue** outputs);
  ORT_API2_STATUS(EvalStep, const OrtTrainingSession* sess, const OrtRunOptions* run_options, size_t inputs_len,
                  const OrtValue* const* inputs, size_t outputs_len, OrtValue** outputs);
  ORT_API2_STATUS(SetLearningRate, OrtTrainingSession* sess, float learning_rate);
  ORT_API2_STATUS(GetLearningRate, OrtTrainingSession* sess, float* learning_rate);
  ORT_API2_STATUS(OptimizerStep, OrtTrainingSession* sess, const OrtRunOptions* run_options);
  ORT_API2_STATUS(RegisterLinearLRScheduler, OrtTrainingSession* sess, const int64_t warmup_step_count,
                  const int64_t total_step_count, const float initial_lr);
  ORT_API2_STATUS(SchedulerStep, OrtTrainingSession* sess);
  ORT_API2_STATUS(GetParametersSize, OrtTrainingSession* sess, size_t* out, bool trainable_only);
  ORT_API2_STATUS(CopyParametersToBuffer, OrtTrainingSession* sess, OrtValue* parameters_buffer, bool trainable_only);
  ORT_API2_STATUS(CopyBufferToParameters, OrtTrainingSession* sess, OrtValue* parameters_buffer, bool trainable_only);
  ORT_CLASS_RELEASE(TrainingSession);
  ORT_CLASS_RELEASE(CheckpointState);
  ORT_API2_STATUS(ExportModelForInferencing, OrtTrainingSession* sess, const ORTCHAR_T* inference_model_path,
                  size_t graph_outputs_len, const char* const* graph_output_names);
  ORT_API2_STATUS(SetSeed, const int64_t seed);
  ORT_API2_STATUS(TrainingSessionGetTrainingModelInputCount, const OrtTrainingSession* sess, size_t* out);
  ORT_API2_STATUS(TrainingSessionGetEvalModelInputCount, const OrtTrainingSession* sess, size_t* out);
  ORT_API2_STATUS(TrainingSessionGetTrainingModelInputName, const OrtTrainingSession* sess, size_t index,
                  OrtAllocator* allocator, char** output);
  ORT_API2_STATUS(TrainingSessionGetEvalModelInputName, const OrtTrainingSession* sess, size_t index,
                  OrtAllocator* allocator, char** output);
  ORT_API2_STATUS(AddProperty, OrtCheckpointState* checkpoint_state, const char* property_name,
                  enum OrtPropertyType property_type, void* property_value);
  ORT_API2_STATUS(GetProperty, const OrtCheckpointState* checkpoint_state, const char* property_name,
                  OrtAllocator* allocator, enum OrtPropertyType* property_type, void** property_value);
  ORT_API2_STATUS(LoadCheckpointFromBuffer, const void* checkpoint_buffer, const size_t num_bytes,
                  OrtCheckpointState** checkpoint_state);
  ORT_API2_STATUS(GetParameterTypeAndShape, const OrtCheckpointState* checkpoint_state, const char* parameter_name,
                  OrtTensorTypeAndShapeInfo** parameter_type_and_shape);
  ORT_API2_STATUS(UpdateParameter, OrtCheckpointState* checkpoint_state, const char* parameter_name,
                  OrtValue* parameter);
  ORT_API2_STATUS(GetParameter, const OrtCheckpointState* checkpoint_state, const char* parameter_name,
                  OrtAllocator* allocator, OrtValue** parameter);
};

#ifdef __cplusplus
}
#endif
