// A program on the C++ wrapper of ONNX Runtime's own headers: sessions, bindings, custom operators in both forms, the
// model editor and sparse tensors. Like client.c it prints the same with every library of this ABI.
#include <onnxruntime_cxx_api.h>
#include <onnxruntime_lite_custom_op.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

Ort::Env& environment() {
  static Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "client");
  return env;
}

Ort::MemoryInfo host() { return Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault); }

Ort::SessionOptions options() {
  Ort::SessionOptions o;
  o.SetIntraOpNumThreads(1);
  return o;
}

void print(const char* title, const Ort::Value& value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  std::printf("%s:", title);
  for (const int64_t d : info.GetShape()) std::printf(" [%lld]", static_cast<long long>(d));
  const float* data = value.GetTensorData<float>();
  for (size_t i = 0; i < info.GetElementCount(); ++i) std::printf(" %g", data[i]);
  std::printf("\n");
}

std::vector<float> numbers() { return {1, -2, 3, -4, 5, -6}; }

void run_and_print(const char* title, Ort::Session& session, const char* in, const char* out) {
  std::vector<float> data = numbers();
  const std::array<int64_t, 2> shape = {2, 3};
  const Ort::Value x = Ort::Value::CreateTensor<float>(host(), data.data(), data.size(), shape.data(), shape.size());
  const auto y = session.Run(Ort::RunOptions{nullptr}, &in, &x, 1, &out, 1);
  print(title, y.at(0));
}

void plain(const std::string& folder) {
  Ort::Session session(environment(), (folder + "/plain.onnx").c_str(), options());
  Ort::AllocatorWithDefaultOptions allocator;
  std::printf("input %s of %zu\n", session.GetInputNameAllocated(0, allocator).get(), session.GetInputCount());
  run_and_print("plain", session, "x", "y");
  Ort::IoBinding binding(session);
  std::vector<float> data = numbers();
  const std::array<int64_t, 2> shape = {2, 3};
  Ort::Value x = Ort::Value::CreateTensor<float>(host(), data.data(), data.size(), shape.data(), shape.size());
  binding.BindInput("x", x);
  binding.BindOutput("y", host());
  session.Run(Ort::RunOptions(), binding);
  print("bound", binding.GetOutputValues().at(0));
  try {
    Ort::Session missing(environment(), "nowhere.onnx", options());
  } catch (const Ort::Exception& e) {
    std::printf("no such file: %d\n", static_cast<int>(e.GetOrtErrorCode()));
  }
}

// Twice, in the lite form, with its shape inference.
void twice(const Ort::Custom::Tensor<float>& x, Ort::Custom::Tensor<float>& y) {
  float* to = y.Allocate(x.Shape());
  for (int64_t i = 0; i < x.NumberOfElement(); ++i) to[i] = 2 * x.Data()[i];
}
Ort::Status twice_shape(Ort::ShapeInferContext& context) {
  return context.SetOutputShape(0, context.GetInputShape(0), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
}

// Scale, as a struct of the lite form, with an attribute.
struct Scale {
  Scale(const OrtApi*, const OrtKernelInfo* info) { factor = Ort::ConstKernelInfo(info).GetAttribute<float>("factor"); }
  void Compute(const Ort::Custom::Tensor<float>& x, Ort::Custom::Tensor<float>& y) {
    float* to = y.Allocate(x.Shape());
    for (int64_t i = 0; i < x.NumberOfElement(); ++i) to[i] = factor * x.Data()[i];
  }
  float factor = 0;
};

// Negate, in the form of classes.
struct NegateKernel {
  void Compute(OrtKernelContext* raw) {
    Ort::KernelContext context(raw);
    const auto x = context.GetInput(0);
    const auto shape = x.GetTensorTypeAndShapeInfo().GetShape();
    auto y = context.GetOutput(0, shape);
    const size_t count = x.GetTensorTypeAndShapeInfo().GetElementCount();
    for (size_t i = 0; i < count; ++i) y.GetTensorMutableData<float>()[i] = -x.GetTensorData<float>()[i];
  }
};
struct Negate : Ort::CustomOpBase<Negate, NegateKernel> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new NegateKernel; }
  const char* GetName() const { return "Negate"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  static Ort::Status InferOutputShape(Ort::ShapeInferContext& context) { return twice_shape(context); }
};

void custom(const std::string& folder) {
  const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> lite{
      Ort::Custom::CreateLiteCustomOp("Twice", "CPUExecutionProvider", twice, twice_shape)};
  const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> scale{
      Ort::Custom::CreateLiteCustomOp<Scale>("Scale", "CPUExecutionProvider")};
  const Negate negate;
  Ort::CustomOpDomain domain("client.test");
  domain.Add(lite.get());
  domain.Add(scale.get());
  domain.Add(&negate);
  Ort::SessionOptions o = options();
  o.Add(domain);
  Ort::Session session(environment(), (folder + "/custom.onnx").c_str(), o);
  run_and_print("custom", session, "x", "y");
}

Ort::ValueInfo value(const char* name) {
  const std::vector<int64_t> dims = {-1, 3};
  const std::vector<std::string> symbols = {"n", ""};
  const Ort::TensorTypeAndShapeInfo info(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, dims, &symbols);
  const auto type = Ort::TypeInfo::CreateTensorInfo(info.GetConst());
  return Ort::ValueInfo(name, type.GetConst());
}

void edited() {
  Ort::Graph graph;
  std::vector<Ort::ValueInfo> inputs, outputs;
  inputs.push_back(value("x"));
  outputs.push_back(value("y"));
  graph.SetInputs(inputs);
  graph.SetOutputs(outputs);
  const float alpha = 0.5f;
  std::vector<Ort::OpAttr> attributes;
  attributes.emplace_back("alpha", &alpha, 1, ORT_OP_ATTR_FLOAT);
  Ort::Node node("LeakyRelu", "", "leaky", {"x"}, {"h"}, attributes);
  graph.AddNode(node);
  Ort::AllocatorWithDefaultOptions allocator;
  const std::array<int64_t, 1> shape = {3};
  Ort::Value w = Ort::Value::CreateTensor<float>(allocator, shape.data(), shape.size());
  for (int i = 0; i < 3; ++i) w.GetTensorMutableData<float>()[i] = static_cast<float>(i);
  graph.AddInitializer("w", w, false);
  Ort::Node add("Add", "", "add", {"h", "w"}, {"y"});
  graph.AddNode(add);
  Ort::Model model({{"", 18}});
  model.AddGraph(graph);
  Ort::Session session(environment(), model, options());
  run_and_print("edited", session, "x", "y");
}

void extended(const std::string& folder) {
  Ort::Session session =
      Ort::Session::CreateModelEditorSession(environment(), (folder + "/plain.onnx").c_str(), options());
  std::printf("opset %d\n", session.GetOpset(""));
  Ort::Model model({{"", session.GetOpset("")}});
  Ort::Graph graph;
  std::vector<Ort::ValueInfo> outputs;
  outputs.push_back(value("z"));
  graph.SetOutputs(outputs);
  Ort::Node node("Neg", "", "neg", {"y"}, {"z"});
  graph.AddNode(node);
  model.AddGraph(graph);
  session.FinalizeModelEditorSession(model, options());
  run_and_print("extended", session, "x", "z");
}

void sparse() {
  Ort::AllocatorWithDefaultOptions allocator;
  const std::array<int64_t, 2> dense = {3, 3};
  Ort::Value v = Ort::Value::CreateSparseTensor<float>(allocator, Ort::Value::Shape{dense.data(), dense.size()});
  const std::array<float, 2> data = {1, 2};
  const std::array<int64_t, 1> shape = {2};
  const std::array<int64_t, 2> at = {2, 5};
  v.FillSparseTensorCoo(host(), {shape.data(), shape.size(), {data.data()}}, at.data(), at.size());
  size_t count = 0;
  const int64_t* indices = v.GetSparseTensorIndicesData<int64_t>(ORT_SPARSE_COO_INDICES, count);
  std::printf("sparse: format %d, %zu indices, last %lld\n", static_cast<int>(v.GetSparseFormat()), count,
              static_cast<long long>(indices[count - 1]));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  try {
    plain(arguments[1]);
    custom(arguments[1]);
    edited();
    extended(arguments[1]);
    sparse();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
