#include "capi/compile.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "capi/allocator.h"
#include "capi/env.h"
#include "capi/guard.h"
#include "capi/model_editor.h"
#include "capi/not_implemented.h"
#include "capi/options.h"

// One input, and one output of three kinds: what is set last counts.
struct OrtModelCompilationOptions {
  OrtSessionOptions session;
  std::string input_path;
  const void* input_data = nullptr;  // the client's
  size_t input_size = 0;
  const OrtModel* input_model = nullptr;  // the client's
  std::string output_path;
  OrtAllocator* allocator = nullptr;
  void** output_data = nullptr;
  size_t* output_size = nullptr;
  OrtWriteBufferFunc write = nullptr;
  void* write_state = nullptr;
  uint32_t flags = 0;
  std::string data_name;                   // of the file of external data
  OrtAllocator* data_allocator = nullptr;  // of its content, if that goes to memory
  void** data = nullptr;
  size_t* data_size = nullptr;

  void forget_input() {
    input_path.clear();
    input_data = nullptr;
    input_model = nullptr;
  }
  void forget_output() {
    output_path.clear();
    allocator = nullptr;
    output_data = nullptr;
    output_size = nullptr;
    write = nullptr;
  }
};

namespace tessera::capi {
namespace {

using Options = OrtModelCompilationOptions;

Status create(const OrtEnv* env, const OrtSessionOptions* session, Options** out) {
  TRY(not_null({{"env", env}, {"session_options", session}, {"out", out}}));
  auto made = std::make_unique<Options>();
  made->session = *session;
  *out = made.release();
  return {};
}

void release(Options* options) { delete options; }

Status set_input_path(Options* options, const ORTCHAR_T* path) {
  TRY(not_null({{"model_compile_options", options}, {"input_model_path", path}}));
  if (!*path) return invalid("input_model_path is empty");
  options->forget_input();
  options->input_path = path;
  return {};
}

Status set_input_buffer(Options* options, const void* data, size_t size) {
  TRY(not_null({{"model_compile_options", options}, {"input_model_data", data}}));
  if (size == 0) return invalid("the model has 0 bytes");
  options->forget_input();
  options->input_data = data;
  options->input_size = size;
  return {};
}

// Looked at when the model is compiled.
Status set_input_model(Options* options, const OrtModel* model) {
  TRY(not_null({{"model_compile_options", options}, {"model", model}}));
  options->forget_input();
  options->input_model = model;
  return {};
}

Status set_output_path(Options* options, const ORTCHAR_T* path) {
  TRY(not_null({{"model_compile_options", options}, {"output_model_path", path}}));
  if (!*path) return invalid("output_model_path is empty");
  options->forget_output();
  options->output_path = path;
  return {};
}

Status set_output_buffer(Options* options, OrtAllocator* allocator, void** data, size_t* size) {
  TRY(not_null({{"model_compile_options", options},
                {"allocator", allocator},
                {"output_model_buffer_ptr", data},
                {"output_model_buffer_size_ptr", size}}));
  options->forget_output();
  options->allocator = allocator;
  options->output_data = data;
  options->output_size = size;
  return {};
}

Status set_output_function(Options* options, OrtWriteBufferFunc write, void* state) {
  TRY(not_null({{"model_compile_options", options}}));
  if (!write) return invalid("write_func is null");
  options->forget_output();
  options->write = write;
  options->write_state = state;
  return {};
}

Status set_data(Options& options, const std::string& name, size_t smallest) {
  if (name.empty()) return invalid("the file of external data has an empty name");
  TRY(options.session.options.set("session.optimized_model_external_initializers_file_name", name));
  TRY(options.session.options.set("session.optimized_model_external_initializers_min_size_in_bytes",
                                  std::to_string(smallest)));
  options.data_name = name;
  return {};
}

Status set_external_file(Options* options, const ORTCHAR_T* path, size_t smallest) {
  TRY(not_null({{"model_compile_options", options}, {"external_initializers_file_path", path}}));
  TRY(set_data(*options, path, smallest));
  options->data_allocator = nullptr;
  return {};
}

// The content of the file goes to memory, as the model does.
Status set_external_buffer(Options* options, const ORTCHAR_T* name, size_t smallest, OrtAllocator* allocator,
                           void** data, size_t* size) {
  TRY(not_null({{"model_compile_options", options},
                {"logical_file_name", name},
                {"allocator", allocator},
                {"output_buffer", data},
                {"output_buffer_size", size}}));
  if (std::filesystem::path(name).filename() != name)
    return invalid("logical_file_name is {}, wanted a name without folders", quote(name));
  TRY(set_data(*options, name, smallest));
  options->data_allocator = allocator;
  options->data = data;
  options->data_size = size;
  return {};
}

// Weights are written at multiples of 64 bytes, large ones at pages.
Status set_alignment(Options* options, size_t alignment, size_t) {
  TRY(not_null({{"model_compile_options", options}}));
  if (alignment == 0 || (alignment & (alignment - 1)) || alignment > kAlignment)
    return invalid("alignment {}, wanted a power of two up to {}", alignment, kAlignment);
  return {};
}

Status set_location_function(Options* options, OrtGetInitializerLocationFunc, void*) {
  TRY(not_null({{"model_compile_options", options}}));
  return tessera::not_implemented(
      "places for single initializers cannot be chosen; put them in one file with "
      "ModelCompilationOptions_SetOutputModelExternalInitializersFile");
}

Status set_level(Options* options, GraphOptimizationLevel level) {
  TRY(not_null({{"model_compile_options", options}}));
  return from_ort(OrtGetApiBase()->GetApi(ORT_API_VERSION)->SetSessionGraphOptimizationLevel(&options->session, level));
}

// What providers compile is part of no model here, so there is nothing to place.
Status set_embed_mode(Options* options, bool) { return not_null({{"model_compile_options", options}}); }
Status set_binary_information(Options* options, const ORTCHAR_T* folder, const ORTCHAR_T* name) {
  return not_null({{"model_compile_options", options}, {"output_directory", folder}, {"model_name", name}});
}
Status set_data_function(Options* options, OrtWriteNamedBufferFunc, void*) {
  return not_null({{"model_compile_options", options}});
}

Status set_weightless(Options* options, bool weightless) {
  TRY(not_null({{"model_compile_options", options}}));
  if (!weightless) return {};
  return tessera::not_implemented(
      "models without weights are made for providers of other devices; keep weights out of the model with "
      "ModelCompilationOptions_SetOutputModelExternalInitializersFile");
}

constexpr uint32_t kKnownFlags =
    OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED | OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS;
Status set_flags(Options* options, uint32_t flags) {
  TRY(not_null({{"model_compile_options", options}}));
  if (flags & ~kKnownFlags) return invalid("flags are {}, wanted bits of {}", flags, kKnownFlags);
  options->flags = flags;
  return {};
}

OrtStatus* open_input(const OrtEnv* env, const Options& options, const OrtSessionOptions& session, OrtSession** out) {
  const OrtApi& api = *OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (options.input_model) return model_editor_api()->CreateSessionFromModel(env, options.input_model, &session, out);
  if (options.input_data) return api.CreateSessionFromArray(env, options.input_data, options.input_size, &session, out);
  return api.CreateSession(env, options.input_path.c_str(), &session, out);
}

// Loads the input with the wish to keep the optimised model at `path`.
Status write_model(const OrtEnv* env, const Options& options, const std::string& path) {
  OrtSessionOptions session = options.session;
  session.options.optimized_model_path = path;
  OrtSession* made = nullptr;
  OrtStatus* status = open_input(env, options, session, &made);
  OrtGetApiBase()->GetApi(ORT_API_VERSION)->ReleaseSession(made);
  return from_ort(status);
}

Status give_memory(OrtAllocator* allocator, const Bytes& bytes, void** data, size_t* size) {
  TRY_ASSIGN(memory, allocate_with(allocator, bytes.size()));
  if (bytes.size()) std::memcpy(memory, bytes.data(), bytes.size());
  *data = memory;
  *size = bytes.size();
  return {};
}

// Reads what was written to `folder`, and gives it to the client.
Status give_files(const Options& options, const std::string& folder) {
  TRY_ASSIGN(model, map_file(folder + "/model.onnx"));
  void* data = nullptr;
  size_t size = 0;
  if (options.data_allocator && std::filesystem::exists(folder + "/" + options.data_name)) {
    TRY_ASSIGN(file, map_file(folder + "/" + options.data_name));
    TRY(give_memory(options.data_allocator, *file, &data, &size));
  }
  Status status = options.write ? from_ort(options.write(options.write_state, model->data(), model->size()))
                                : give_memory(options.allocator, *model, options.output_data, options.output_size);
  if (!status.ok() && data) options.data_allocator->Free(options.data_allocator, data);
  if (status.ok() && options.data_allocator) {
    *options.data = data;
    *options.data_size = size;
  }
  return status;
}

Status compile_to_memory(const OrtEnv* env, const Options& options) {
  if (!options.data_name.empty() && !options.data_allocator)
    return invalid(
        "a model in memory has no folder for {}; use ModelCompilationOptions_SetOutputModelPath, or "
        "ModelCompilationOptions_SetOutputModelExternalInitializersBuffer",
        quote(options.data_name));
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-XXXXXX").string();
  if (!mkdtemp(folder.data())) return error(Code::fail, "no temporary folder can be made at {}", quote(folder));
  Status status = write_model(env, options, folder + "/model.onnx");
  if (status.ok()) status = give_files(options, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

Status compile_to_file(const OrtEnv* env, const Options& options, const std::string& path) {
  if (options.data_allocator)
    return invalid("the model goes to a file and its external data to memory; wanted both in files or both in memory");
  if (options.flags & OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS && std::filesystem::exists(path))
    return error(Code::fail, "the output {} is there already; remove it, or leave the flag out", quote(path));
  return write_model(env, options, path);
}

Status compile(const OrtEnv* env, const Options* options) {
  TRY(not_null({{"env", env}, {"model_options", options}}));
  if (options->input_path.empty() && !options->input_data && !options->input_model)
    return invalid("no input model was set");
  if (options->flags & OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED)
    return error(
        Code::fail,
        "no node was compiled: the CPU runs every node as it is; leave the flag out to get the optimised model");
  if (options->output_data || options->write) return compile_to_memory(env, *options);
  if (!options->output_path.empty()) return compile_to_file(env, *options, options->output_path);
  if (options->input_path.empty()) return invalid("no output was set for a model from memory");
  const std::filesystem::path input = options->input_path;
  return compile_to_file(env, *options, (input.parent_path() / (input.stem().string() + "_ctx.onnx")).string());
}

OrtCompileApi make_table() {
  OrtCompileApi table = not_implemented_table<OrtCompileApi>;
  table.CreateModelCompilationOptionsFromSessionOptions = slot<create>;
  table.ReleaseModelCompilationOptions = release;
  table.ModelCompilationOptions_SetInputModelPath = slot<set_input_path>;
  table.ModelCompilationOptions_SetInputModelFromBuffer = slot<set_input_buffer>;
  table.ModelCompilationOptions_SetOutputModelPath = slot<set_output_path>;
  table.ModelCompilationOptions_SetOutputModelExternalInitializersFile = slot<set_external_file>;
  table.ModelCompilationOptions_SetOutputModelBuffer = slot<set_output_buffer>;
  table.ModelCompilationOptions_SetOutputModelWriteFunc = slot<set_output_function>;
  table.ModelCompilationOptions_SetGraphOptimizationLevel = slot<set_level>;
  table.ModelCompilationOptions_SetEpContextEmbedMode = slot<set_embed_mode>;
  table.ModelCompilationOptions_SetFlags = slot<set_flags>;
  table.ModelCompilationOptions_SetInputModel = slot<set_input_model>;
  table.ModelCompilationOptions_SetEpContextBinaryInformation = slot<set_binary_information>;
  table.ModelCompilationOptions_SetEpContextDataWriteFunc = slot<set_data_function>;
  table.ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc = slot<set_location_function>;
  table.ModelCompilationOptions_SetWeightlessEnabled = slot<set_weightless>;
  table.ModelCompilationOptions_SetOutputModelExternalInitializersBuffer = slot<set_external_buffer>;
  table.ModelCompilationOptions_SetOutputModelExternalInitializersAlignment = slot<set_alignment>;
  table.CompileModel = slot<compile>;
  return table;
}

}  // namespace

const OrtCompileApi* compile_api() noexcept {
  static const OrtCompileApi table = make_table();
  return &table;
}

}  // namespace tessera::capi
