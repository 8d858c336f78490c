#include "other_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "capi/value.h"

namespace tessera::testing {

OtherLibrary::OtherLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Base = const OrtApiBase*();
  Base* base = library ? reinterpret_cast<Base*>(dlsym(library, "OrtGetApiBase")) : nullptr;
  if (!base) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), dlerror());
    std::exit(2);
  }
  api_ = base()->GetApi(ORT_API_VERSION);
  api_->ReleaseStatus(api_->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &env_));
}

// The handles of one run, released at its end.
class OtherLibrary::Run {
 public:
  explicit Run(const OtherLibrary& library) : c_(*library.api_), env_(library.env_) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    for (auto it = releases_.rbegin(); it != releases_.rend(); ++it) (*it)();
  }

  Result<std::vector<Value>> run(const std::string& model, const std::vector<Value>& inputs) {
    OrtSessionOptions* options = nullptr;
    TRY(kept(c_.CreateSessionOptions(&options), c_.ReleaseSessionOptions, options));
    TRY(from(c_.SetIntraOpNumThreads(options, 1)));
    TRY(kept(c_.CreateSessionFromArray(env_, model.data(), model.size(), options, &session_), c_.ReleaseSession,
             session_));
    TRY(from(c_.GetAllocatorWithDefaultOptions(&allocator_)));
    size_t in_count = 0, out_count = 0;
    TRY(from(c_.SessionGetInputCount(session_, &in_count)));
    TRY(from(c_.SessionGetOutputCount(session_, &out_count)));
    if (in_count != inputs.size()) return invalid("the session has {} inputs, wanted {}", in_count, inputs.size());
    std::vector<const char*> in_names(in_count), out_names(out_count);
    std::vector<const OrtValue*> given(in_count);
    std::vector<OrtValue*> got(out_count, nullptr);
    for (size_t i = 0; i < in_count; ++i) {
      TRY_ASSIGN(name, name_of(c_.SessionGetInputName, i));
      TRY_ASSIGN(value, give(*inputs[i].tensor()));
      in_names[i] = name;
      given[i] = value;
    }
    for (size_t i = 0; i < out_count; ++i) {
      TRY_ASSIGN(name, name_of(c_.SessionGetOutputName, i));
      out_names[i] = name;
    }
    TRY(from(
        c_.Run(session_, nullptr, in_names.data(), given.data(), in_count, out_names.data(), out_count, got.data())));
    for (OrtValue* v : got) releases_.push_back([this, v] { c_.ReleaseValue(v); });
    std::vector<Value> out;
    for (OrtValue* v : got) {
      TRY_ASSIGN(value, take(v));
      out.push_back(std::move(value));
    }
    return out;
  }

 private:
  Status from(OrtStatus* status) {
    if (!status) return {};
    Status out(static_cast<Code>(c_.GetErrorCode(status)), c_.GetErrorMessage(status));
    c_.ReleaseStatus(status);
    return out;
  }
  template <class T>
  Status kept(OrtStatus* status, void (*release)(T*), T*& handle) {
    TRY(from(status));
    releases_.push_back([release, made = handle] { release(made); });
    return {};
  }

  using NameFn = OrtStatus*(const OrtSession*, size_t, OrtAllocator*, char**);
  Result<const char*> name_of(NameFn* get, size_t index) {
    char* name = nullptr;
    TRY(from(get(session_, index, allocator_, &name)));
    releases_.push_back([this, name] { c_.ReleaseStatus(c_.AllocatorFree(allocator_, name)); });
    return static_cast<const char*>(name);
  }

  static Status not_sayable(DType type) {
    return error(Code::not_implemented, "{} {}", OtherLibrary::kNoSuchType, tessera::name_of(type));
  }

  Result<OrtValue*> give(const Tensor& t) {
    const auto dims = t.shape().dims();
    const ONNXTensorElementDataType type = capi::onnx_of_dtype(t.dtype());
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) return not_sayable(t.dtype());
    OrtValue* v = nullptr;
    TRY(kept(c_.CreateTensorAsOrtValue(allocator_, dims.data(), dims.size(), type, &v), c_.ReleaseValue, v));
    if (t.dtype() == DType::string) {
      std::vector<const char*> texts;
      for (const std::string& s : t.values<std::string>()) texts.push_back(s.c_str());
      if (!texts.empty()) TRY(from(c_.FillStringTensor(v, texts.data(), texts.size())));
      return v;
    }
    void* data = nullptr;
    TRY(from(c_.GetTensorMutableData(v, &data)));
    if (t.bytes()) std::memcpy(data, t.data(), static_cast<size_t>(t.bytes()));
    return v;
  }

  Result<Value> take(OrtValue* v) {
    int tensor = 0;
    TRY(from(c_.IsTensor(v, &tensor)));
    if (!tensor) return invalid("an output is no tensor");
    OrtTensorTypeAndShapeInfo* info = nullptr;
    TRY(kept(c_.GetTensorTypeAndShape(v, &info), c_.ReleaseTensorTypeAndShapeInfo, info));
    size_t rank = 0;
    TRY(from(c_.GetDimensionsCount(info, &rank)));
    std::vector<int64_t> dims(rank);
    TRY(from(c_.GetDimensions(info, dims.data(), rank)));
    ONNXTensorElementDataType type{};
    TRY(from(c_.GetTensorElementType(info, &type)));
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) return not_sayable(DType::undefined);
    TRY_ASSIGN(shape, Shape::checked(dims));
    TRY_ASSIGN(out, Tensor::allocate(capi::dtype_of_onnx(type), shape));
    if (out.dtype() == DType::string) {
      for (int64_t i = 0; i < out.count(); ++i) {
        auto& text = static_cast<std::string*>(out.mutable_data())[i];
        size_t size = 0;
        TRY(from(c_.GetStringTensorElementLength(v, static_cast<size_t>(i), &size)));
        text.resize(size);
        TRY(from(c_.GetStringTensorElement(v, size, static_cast<size_t>(i), text.data())));
      }
      return Value(std::move(out));
    }
    void* data = nullptr;
    TRY(from(c_.GetTensorMutableData(v, &data)));
    if (out.bytes()) std::memcpy(out.mutable_data(), data, static_cast<size_t>(out.bytes()));
    return Value(std::move(out));
  }

  const OrtApi& c_;
  OrtEnv* env_;
  OrtSession* session_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  std::vector<std::function<void()>> releases_;
};

Result<std::vector<Value>> OtherLibrary::run(const std::string& model, const std::vector<Value>& inputs) const {
  return Run(*this).run(model, inputs);
}

}  // namespace tessera::testing
