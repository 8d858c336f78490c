#include "trim_prove.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "common/compare.h"
#include "common/load.h"
#include "common/random.h"
#include "formats/onnx/writer.h"
#include "session/session.h"
#include "tessera/c_api.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// What one run of the other library needs; everything is released at its end.
class OtherSession {
 public:
  explicit OtherSession(const OrtApi& api) : c_(api) {}
  ~OtherSession() {
    for (OrtValue* v : values_) c_.ReleaseValue(v);
    c_.ReleaseMemoryInfo(memory_);
    c_.ReleaseSession(session_);
    c_.ReleaseSessionOptions(options_);
    c_.ReleaseEnv(env_);
  }

  Status open(const std::string& path) {
    TRY(ok(c_.CreateEnv(ORT_LOGGING_LEVEL_ERROR, "trim", &env_)));
    TRY(ok(c_.CreateSessionOptions(&options_)));
    TRY(ok(c_.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_)));
    if (!is_text_model(path)) return ok(c_.CreateSession(env_, path.c_str(), options_, &session_));
    TRY_ASSIGN(model, load_model_file(path));
    TRY_ASSIGN(bytes, onnx::write_model(model));
    return ok(c_.CreateSessionFromArray(env_, bytes.data(), bytes.size(), options_, &session_));
  }

  // An output that is no tensor comes back empty.
  Result<std::vector<Value>> run(const std::vector<std::string>& names, const std::vector<Value>& inputs,
                                 const std::vector<ValueSpec>& outputs) {
    std::vector<const char*> in_names, out_names;
    std::vector<const OrtValue*> in;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].tensor()) return not_implemented("input {} is no tensor", quote(names[i]));
      TRY_ASSIGN(value, give(*inputs[i].tensor()));
      in_names.push_back(names[i].c_str());
      in.push_back(value);
    }
    for (const ValueSpec& s : outputs) out_names.push_back(s.name.c_str());
    std::vector<OrtValue*> out(outputs.size(), nullptr);
    TRY(ok(c_.Run(session_, nullptr, in_names.data(), in.data(), in.size(), out_names.data(), out.size(), out.data())));
    values_.insert(values_.end(), out.begin(), out.end());
    std::vector<Value> answers;
    for (OrtValue* v : out) {
      TRY_ASSIGN(value, take(v));
      answers.push_back(std::move(value));
    }
    return answers;
  }

 private:
  Status ok(OrtStatus* status) const {
    if (!status) return {};
    Status out = error(Code::fail, "{}", c_.GetErrorMessage(status));
    c_.ReleaseStatus(status);
    return out;
  }

  Result<OrtValue*> give(const Tensor& t) {
    const auto dims = t.shape().dims();
    const auto type = static_cast<ONNXTensorElementDataType>(t.dtype());
    OrtValue* out = nullptr;
    if (t.dtype() != DType::string) {
      TRY(ok(c_.CreateTensorWithDataAsOrtValue(memory_, const_cast<void*>(t.data()), static_cast<size_t>(t.bytes()),
                                               dims.data(), dims.size(), type, &out)));
      values_.push_back(out);
      return out;
    }
    OrtAllocator* allocator = nullptr;
    TRY(ok(c_.GetAllocatorWithDefaultOptions(&allocator)));
    TRY(ok(c_.CreateTensorAsOrtValue(allocator, dims.data(), dims.size(), type, &out)));
    values_.push_back(out);
    std::vector<const char*> texts;
    for (const std::string& s : t.values<std::string>()) texts.push_back(s.c_str());
    TRY(ok(c_.FillStringTensor(out, texts.data(), texts.size())));
    return out;
  }

  Result<Value> take(OrtValue* v) {
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    TRY(ok(c_.GetValueType(v, &kind)));
    if (kind != ONNX_TYPE_TENSOR) return Value();
    OrtTensorTypeAndShapeInfo* info = nullptr;
    TRY(ok(c_.GetTensorTypeAndShape(v, &info)));
    size_t rank = 0;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    Status s = ok(c_.GetDimensionsCount(info, &rank));
    std::vector<int64_t> dims(rank);
    if (s.ok()) s = ok(c_.GetDimensions(info, dims.data(), rank));
    if (s.ok()) s = ok(c_.GetTensorElementType(info, &type));
    c_.ReleaseTensorTypeAndShapeInfo(info);
    TRY(std::move(s));
    TRY_ASSIGN(out, Tensor::allocate(static_cast<DType>(type), Shape(dims)));
    TRY(copy(v, out));
    return Value(std::move(out));
  }

  Status copy(OrtValue* v, Tensor& out) {
    if (out.dtype() != DType::string) {
      void* data = nullptr;
      TRY(ok(c_.GetTensorMutableData(v, &data)));
      if (out.bytes() > 0) std::memcpy(out.mutable_data(), data, static_cast<size_t>(out.bytes()));
      return {};
    }
    auto* texts = static_cast<std::string*>(out.mutable_data());
    for (int64_t i = 0; i < out.count(); ++i) {
      size_t length = 0;
      TRY(ok(c_.GetStringTensorElementLength(v, static_cast<size_t>(i), &length)));
      texts[i].resize(length);
      TRY(ok(c_.GetStringTensorElement(v, length, static_cast<size_t>(i), texts[i].data())));
    }
    return {};
  }

  const OrtApi& c_;
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* options_ = nullptr;
  OrtSession* session_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
  std::vector<OrtValue*> values_;
};

fs::path set_of(const std::string& model, int k) { return fs::path(folder_of(model)) / format("test_data_set_{}", k); }

// From a set of test data, or random ones where it is not there.
Result<std::vector<Value>> inputs_of(const fs::path& set, const Session& session) {
  const bool given = fs::exists(set);
  std::vector<Value> out;
  for (size_t i = 0; i < session.inputs().size(); ++i) {
    const Fact& fact = session.inputs()[i].fact;
    TRY_ASSIGN(value, given ? load_value((set / format("input_{}.pb", i)).string(), fact)
                            : random_value(fact, {}, static_cast<uint64_t>(i)));
    out.push_back(std::move(value));
  }
  return out;
}

Status compare(const std::vector<Value>& got, const std::vector<Value>& want, const std::vector<ValueSpec>& outputs) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (!want[i].tensor()) continue;
    const std::string why = difference(got[i], want[i], {1e-3, 1e-5});
    if (!why.empty())
      return error(Code::fail, "output {} differs from the full library's: {}", quote(outputs[i].name), why);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<OtherLibrary>> OtherLibrary::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return error(Code::fail, "cannot open {}: {}", quote(path), dlerror());
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  const OrtApi* api = base ? base()->GetApi(ORT_API_VERSION) : nullptr;
  if (!api) return error(Code::fail, "{} has no C interface of version {}", quote(path), ORT_API_VERSION);
  return std::unique_ptr<OtherLibrary>(new OtherLibrary(handle, api));
}

// Threads of the library may outlive its sessions, so it stays mapped.
OtherLibrary::~OtherLibrary() = default;

Result<int> OtherLibrary::prove(const std::string& model) const {
  SessionOptions options;
  options.pack_file = "off";
  TRY_ASSIGN(session, open_session(model, options));
  OtherSession other(*api_);
  TRY(other.open(model));
  std::vector<std::string> names;
  for (const ValueSpec& s : session->inputs()) names.push_back(s.name);
  int runs = 0;
  do {
    TRY_ASSIGN(inputs, inputs_of(set_of(model, runs), *session));
    std::vector<Value> want(session->outputs().size());
    TRY(session->run(inputs, want));
    TRY_ASSIGN(got, other.run(names, inputs, session->outputs()));
    TRY(compare(got, want, session->outputs()));
  } while (fs::exists(set_of(model, ++runs)));
  return runs;
}

}  // namespace tessera::cli
