#include "capi/compile.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "capi/allocator.h"
#include "capi/env.h"
#include "capi/guard.h"
#include "capi/not_implemented.h"
#include "capi/options.h"

// One input, and one output of three kinds: what is set last counts.
struct OrtModelCompilationOptions {
  OrtSessionOptions session;
  std::string input_path;
  const void* input_data = nullptr;  // the client's
  size_t input_size = 0;
  std::string output_path;
  OrtAllocator* allocator = nullptr;
  void** output_data = nullptr;
  size_t* output_size = nullptr;
  OrtWriteBufferFunc write = nullptr;
  void* write_state = nullptr;

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
  options->input_path = path;
  options->input_data = nullptr;
  return {};
}

Status set_input_buffer(Options* options, const void* data, size_t size) {
  TRY(not_null({{"model_compile_options", options}, {"input_model_data", data}}));
  if (size == 0) return invalid("the model has 0 bytes");
  options->input_path.clear();
  options->input_data = data;
  options->input_size = size;
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

Status set_external_file(Options* options, const ORTCHAR_T* path, size_t smallest) {
  TRY(not_null({{"model_compile_options", options}, {"external_initializers_file_path", path}}));
  TRY(options->session.options.set("session.optimized_model_external_initializers_file_name", path));
  return options->session.options.set("session.optimized_model_external_initializers_min_size_in_bytes",
                                      std::to_string(smallest));
}

Status set_level(Options* options, GraphOptimizationLevel level) {
  TRY(not_null({{"model_compile_options", options}}));
  return from_ort(OrtGetApiBase()->GetApi(ORT_API_VERSION)->SetSessionGraphOptimizationLevel(&options->session, level));
}

// What other devices compile is part of no model here.
Status set_embed_mode(Options* options, bool) { return not_null({{"model_compile_options", options}}); }

// The flags of OrtCompileApiFlags that change what happens here.
constexpr uint32_t kErrorIfOutputExists = 1u << 1;
Status set_flags(Options* options, uint32_t flags) {
  TRY(not_null({{"model_compile_options", options}}));
  if (flags & kErrorIfOutputExists && !options->output_path.empty() && std::filesystem::exists(options->output_path))
    return invalid("{} is there already", quote(options->output_path));
  return {};
}

// Loads the input with the wish to keep the optimised model at `path`.
Status write_model(const OrtEnv* env, const Options& options, const std::string& path) {
  OrtSessionOptions session = options.session;
  session.options.optimized_model_path = path;
  const OrtApi& api = *OrtGetApiBase()->GetApi(ORT_API_VERSION);
  OrtSession* made = nullptr;
  OrtStatus* status = options.input_data
                          ? api.CreateSessionFromArray(env, options.input_data, options.input_size, &session, &made)
                          : api.CreateSession(env, options.input_path.c_str(), &session, &made);
  api.ReleaseSession(made);
  return from_ort(status);
}

Status give_bytes(const Options& options, const Bytes& bytes) {
  if (options.write) return from_ort(options.write(options.write_state, bytes.data(), bytes.size()));
  TRY_ASSIGN(memory, allocate_with(options.allocator, bytes.size()));
  if (bytes.size()) std::memcpy(memory, bytes.data(), bytes.size());
  *options.output_data = memory;
  *options.output_size = bytes.size();
  return {};
}

Status compile_to_memory(const OrtEnv* env, const Options& options) {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-XXXXXX").string();
  if (!mkdtemp(folder.data())) return error(Code::fail, "no temporary folder can be made at {}", quote(folder));
  const std::string path = folder + "/model.onnx";
  Status status = write_model(env, options, path);
  if (status.ok()) {
    auto file = map_file(path);
    status = file.ok() ? give_bytes(options, **file) : file.take_status();
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

Status compile(const OrtEnv* env, const Options* options) {
  TRY(not_null({{"env", env}, {"model_options", options}}));
  if (options->input_path.empty() && !options->input_data) return invalid("no input model was set");
  if (options->output_data || options->write) return compile_to_memory(env, *options);
  if (!options->output_path.empty()) return write_model(env, *options, options->output_path);
  if (options->input_path.empty()) return invalid("no output was set for a model from memory");
  const std::filesystem::path input = options->input_path;
  return write_model(env, *options, (input.parent_path() / (input.stem().string() + "_ctx.onnx")).string());
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
  table.CompileModel = slot<compile>;
  return table;
}

}  // namespace

const OrtCompileApi* compile_api() noexcept {
  static const OrtCompileApi table = make_table();
  return &table;
}

}  // namespace tessera::capi
