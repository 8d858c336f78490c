// What tests of the model editor share: its parts, made in one line each.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "c_libraries.h"

namespace client {

class EditorTest : public LibraryTest {
 protected:
  OrtTypeInfo* tensor_type(const std::vector<int64_t>& dims, std::vector<const char*> names = {},
                           ONNXTensorElementDataType type = kType<float>) const {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    good(c().CreateTensorTypeAndShapeInfo(&info));
    good(c().SetTensorElementType(info, type));
    good(c().SetDimensions(info, dims.data(), dims.size()));
    if (!names.empty()) good(c().SetSymbolicDimensions(info, names.data(), names.size()));
    OrtTypeInfo* made = nullptr;
    good(editor().CreateTensorTypeInfo(info, &made));
    c().ReleaseTensorTypeAndShapeInfo(info);
    return made;
  }
  OrtValueInfo* value(const char* name, const std::vector<int64_t>& dims, std::vector<const char*> names = {}) const {
    OrtTypeInfo* type = tensor_type(dims, std::move(names));
    OrtValueInfo* made = nullptr;
    good(editor().CreateValueInfo(name, type, &made));
    c().ReleaseTypeInfo(type);
    return made;
  }
  OrtNode* node(const char* op, const char* name, std::vector<const char*> in, std::vector<const char*> out,
                std::vector<OrtOpAttr*> attributes = {}) const {
    OrtNode* made = nullptr;
    good(editor().CreateNode(op, "", name, in.data(), in.size(), out.data(), out.size(), attributes.data(),
                             attributes.size(), &made));
    return made;
  }
  OrtGraph* graph(std::vector<OrtValueInfo*> in, std::vector<OrtValueInfo*> out) const {
    OrtGraph* made = nullptr;
    good(editor().CreateGraph(&made));
    if (!in.empty()) good(editor().SetGraphInputs(made, in.data(), in.size()));
    if (!out.empty()) good(editor().SetGraphOutputs(made, out.data(), out.size()));
    return made;
  }
  OrtModel* model(OrtGraph* graph, const std::vector<std::pair<const char*, int>>& opsets = {{"", 18}}) const {
    std::vector<const char*> domains;
    std::vector<int> versions;
    for (const auto& [domain, version] : opsets) {
      domains.push_back(domain);
      versions.push_back(version);
    }
    OrtModel* made = nullptr;
    good(editor().CreateModel(domains.data(), versions.data(), domains.size(), &made));
    if (graph) good(editor().AddGraphToModel(made, graph));
    return made;
  }
  OrtValue* owned_tensor(const std::vector<int64_t>& dims, const std::vector<float>& numbers) const {
    OrtAllocator* a = allocator(c());
    OrtValue* v = nullptr;
    good(c().CreateTensorAsOrtValue(a, dims.data(), dims.size(), kType<float>, &v));
    void* data = nullptr;
    good(c().GetTensorMutableData(v, &data));
    std::copy(numbers.begin(), numbers.end(), static_cast<float*>(data));
    return v;
  }
  OrtValue* borrowed_tensor(const std::vector<int64_t>& dims, std::vector<float>& numbers) const {
    return tensor(dims, numbers, c()).release();
  }
  Owned<OrtSessionOptions> default_options() const {
    OrtSessionOptions* o = nullptr;
    good(c().CreateSessionOptions(&o));
    good(c().SetIntraOpNumThreads(o, 1));
    return own(o, c());
  }
  Owned<OrtSession> session(OrtModel* model) const {
    OrtSession* made = nullptr;
    const auto o = default_options();
    good(editor().CreateSessionFromModel(lib().env, model, o.get(), &made));
    c().ReleaseModel(model);
    return own(made, c());
  }
  std::vector<float> run(OrtSession* s, const char* in, std::vector<int64_t> dims, std::vector<float> numbers,
                         const char* out) const {
    const auto x = tensor(std::move(dims), numbers, c());
    OrtValue* y = nullptr;
    good(client::run(s, {in}, {x.get()}, {out}, &y, nullptr, c()));
    if (!y) return {};
    std::vector<float> result = values(y, c());
    c().ReleaseValue(y);
    return result;
  }
  // y = Relu(x + w), w of `w` floats from the client or of the library.
  OrtGraph* add_relu_graph(OrtValue* w, bool external, int64_t columns) const {
    OrtGraph* g = graph({value("x", {-1, columns}, {"n", ""})}, {value("y", {-1, columns}, {"n", ""})});
    good(editor().AddInitializerToGraph(g, "w", w, external));
    good(editor().AddNodeToGraph(g, node("Relu", "relu", {"sum"}, {"y"})));  // any order
    good(editor().AddNodeToGraph(g, node("Add", "add", {"x", "w"}, {"sum"})));
    return g;
  }
};

}  // namespace client
