// labels: robust
// The .ort format: what is written is read back the same; any bytes give a model or a status.
#include "formats/ort/reader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/convert.h"
#include "formats/onnx/writer.h"
#include "formats/ort/flat.h"
#include "formats/ort/schema.h"
#include "formats/ort/writer.h"
#include "ir/text.h"
#include "session/save.h"
#include "session/session.h"
#include "tessera/c_api.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
const std::string kModels = std::string(TESSERA_SOURCE_DIR) + "/tests/models";

BytesPtr bytes_of(std::string_view text) {
  auto copy = allocate_bytes(text.size());
  std::memcpy((*copy)->data(), text.data(), text.size());
  return *copy;
}

Result<Model> read(std::string_view bytes) {
  ExternalData external;
  return ort::read_model(bytes_of(bytes), external, std::make_shared<DimPool>(), &ort::kernel_types);
}

Model model_of(const char* text) {
  auto model = parse_text(text);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

SessionOptions plain() {
  SessionOptions o;
  o.threads = 1;
  o.optimization_level = 0;
  o.max_tensor_bytes = o.max_run_bytes = 64 << 20;
  return o;
}

// Every sample whose resolved graph is still expressible, written as .ort.
struct Sample {
  std::string name, ort;
  std::shared_ptr<Session> session;
};

std::vector<Sample> samples() {
  std::vector<Sample> out;
  std::vector<fs::path> files{kModels + "/demo/digits.onnx"};
  for (const auto& e : fs::directory_iterator(kModels + "/samples"))
    if (e.path().extension() == ".onnx") files.push_back(e.path());
  std::sort(files.begin(), files.end());
  ort::WriteOptions options;
  options.extensions = true;
  for (const fs::path& p : files) {
    auto session = Session::open(p.string(), plain());
    EXPECT_TRUE(session.ok()) << session.status().message();
    auto written = ort::write_model((*session)->model(), options);
    EXPECT_TRUE(written.ok()) << p << ": " << written.status().message();
    if (written.ok()) out.push_back({p.stem().string(), *written, *session});
  }
  return out;
}

// Small files: ours, and those that ONNX Runtime wrote.
std::vector<std::string> small_files() {
  std::vector<std::string> out;
  for (const Sample& s : samples())
    if (s.ort.size() < 20000) out.push_back(s.ort);
  std::vector<fs::path> seeds;
  for (const auto& e : fs::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/fuzz/seeds/ort"))
    seeds.push_back(e.path());
  std::sort(seeds.begin(), seeds.end());
  EXPECT_GE(seeds.size(), 16u);
  for (const fs::path& p : seeds) {
    std::ifstream in(p, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return out;
}

std::vector<Value> inputs_for(const Session& s) {
  std::vector<Value> out;
  for (const ValueSpec& spec : s.inputs()) {
    std::vector<int64_t> dims;
    if (spec.fact.shape)
      for (const Dim& d : *spec.fact.shape) dims.push_back(d.known() && d.value() < 64 ? d.value() : 2);
    auto t = Tensor::allocate(spec.fact.dtype == DType::undefined ? DType::f32 : spec.fact.dtype, Shape(dims));
    if (!t.ok() || t->count() > 1 << 20) return {};
    if (t->dtype() != DType::string && !kComplex.has(t->dtype())) {
      const std::vector<int64_t> ones(static_cast<size_t>(t->count()), 1);
      encode(t->dtype(), t->mutable_data(), 0, t->count(), ones.data());
    }
    out.push_back(*t);
  }
  return out;
}

TEST(OrtFormat, WhatIsWrittenIsReadBackTheSame) {
  const auto all = samples();
  EXPECT_GE(all.size(), 10u);
  for (const Sample& s : all) {
    SCOPED_TRACE(s.name);
    const auto first = read(s.ort);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ort::WriteOptions options;
    options.extensions = true;
    const auto again = ort::write_model(*first, options);
    ASSERT_TRUE(again.ok()) << again.status().message();
    const auto second = read(*again);
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_EQ(to_text(*first), to_text(*second));
    EXPECT_EQ(first->metadata, s.session->model().metadata);
    EXPECT_EQ(first->opsets, s.session->model().opsets);
  }
}

TEST(OrtFormat, RunsAsTheOnnxFileDoes) {
  for (const Sample& s : samples()) {
    SCOPED_TRACE(s.name);
    auto session = Session::from_bytes(bytes_of(s.ort), plain());
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_EQ((*session)->inputs().size(), s.session->inputs().size());
    const auto inputs = inputs_for(*s.session);
    std::vector<Value> want(s.session->outputs().size()), got(want.size());
    ASSERT_TRUE(s.session->run(inputs, want).ok());
    ASSERT_TRUE((*session)->run(inputs, got).ok());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].describe(), want[i].describe());
      if (const Tensor* t = want[i].tensor(); t && t->dtype() != DType::string) {
        EXPECT_EQ(std::memcmp(t->data(), got[i].tensor()->data(), static_cast<size_t>(t->bytes())), 0);
      }
    }
  }
}

TEST(OrtFormat, TheFormatIsFoundByContentUnlessSaid) {
  const auto all = samples();
  const BytesPtr bytes = bytes_of(all[0].ort);
  SessionOptions options = plain();
  ASSERT_TRUE(options.set("session.load_model_format", "ORT").ok());
  EXPECT_TRUE(Session::from_bytes(bytes, options).ok());
  ASSERT_TRUE(options.set("session.load_model_format", "ONNX").ok());
  EXPECT_FALSE(Session::from_bytes(bytes, options).ok());
  ASSERT_TRUE(options.set("session.load_model_format", "JPEG").ok());
  const auto refused = Session::from_bytes(bytes, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("wanted ONNX or ORT"), std::string::npos);
}

TEST(OrtFormat, WeightsAreAlignedAndUsedInPlace) {
  for (const Sample& s : samples()) {
    SCOPED_TRACE(s.name);
    const BytesPtr bytes = bytes_of(s.ort);
    ExternalData external;
    const auto model = ort::read_model(bytes, external);
    ASSERT_TRUE(model.ok());
    for (const Weight& w : model->graph->weights())
      if (w.range.length > 0) {
        EXPECT_EQ(w.range.source, bytes);
        EXPECT_EQ(w.range.offset % 64, 0u);
      }
  }
}

TEST(OrtFormat, ANodeMayHaveThousandsOfInputs) {
  std::string text = "<ir_version: 8, opset_import: [\"\" : 17]>\ng (float[1] x) => (float[3000] y) <float[1] ";
  std::string nodes, arguments;
  for (int i = 0; i < 3000; ++i) {
    const std::string name = format("a{}", i), comma = i ? ", " : "";
    text += (i ? ", float[1] " : "") + name;
    nodes += format("{} = Neg (x)\n", name);
    arguments += comma + name;
  }
  const auto written =
      ort::write_model(model_of((text + "> {" + nodes + "y = Concat <axis = 0> (" + arguments + ")}").c_str()));
  ASSERT_TRUE(written.ok()) << written.status().message();
  const auto model = read(*written);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph->nodes().size(), 3001u);
}

// The minimal library as a client opens it. It has no signatures to compare a file with.
class Minimal {
 public:
  Minimal() {
    void* library = dlopen(TESSERA_BINARY_DIR "/lib/libtessera_minimal.so", RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
    c_ = base()->GetApi(ORT_API_VERSION);
    EXPECT_EQ(c_->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "ort", &env_), nullptr);
    EXPECT_EQ(c_->CreateSessionOptions(&options_), nullptr);
    EXPECT_EQ(c_->SetIntraOpNumThreads(options_, 1), nullptr);
    for (const char* key : {"session.max_tensor_bytes", "session.max_run_bytes"})
      EXPECT_EQ(c_->AddSessionConfigEntry(options_, key, "67108864"), nullptr);
    EXPECT_EQ(c_->GetAllocatorWithDefaultOptions(&allocator_), nullptr);
  }
  ~Minimal() {
    c_->ReleaseSessionOptions(options_);
    c_->ReleaseEnv(env_);
  }

  // The number of the model's inputs, or -1 where it is refused; runs it on zeros if asked.
  int open(std::string_view bytes, bool run) {
    OrtSession* session = nullptr;
    if (failed(c_->CreateSessionFromArray(env_, bytes.data(), bytes.size(), options_, &session))) return -1;
    size_t inputs = 0;
    EXPECT_FALSE(failed(c_->SessionGetInputCount(session, &inputs)));
    if (run) run_on_zeros(session, inputs);
    c_->ReleaseSession(session);
    return static_cast<int>(inputs);
  }
  const std::string& message() const { return message_; }

 private:
  bool failed(OrtStatus* status) {
    if (!status) return false;
    message_ = c_->GetErrorMessage(status);
    EXPECT_FALSE(message_.empty());
    c_->ReleaseStatus(status);
    return true;
  }

  // Null where the input is no tensor, or a large one.
  OrtValue* zeros_for(OrtSession* session, size_t i) {
    OrtTypeInfo* info = nullptr;
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    if (failed(c_->SessionGetInputTypeInfo(session, i, &info))) return nullptr;
    OrtValue* out = nullptr;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t rank = 0;
    if (!failed(c_->CastTypeInfoToTensorInfo(info, &tensor)) && tensor &&
        !failed(c_->GetDimensionsCount(tensor, &rank)) && !failed(c_->GetTensorElementType(tensor, &type))) {
      std::vector<int64_t> dims(rank);
      EXPECT_FALSE(failed(c_->GetDimensions(tensor, dims.data(), rank)));
      for (int64_t& d : dims) d = d < 0 || d >= 8 ? 2 : d;
      if (rank <= 8 && failed(c_->CreateTensorAsOrtValue(allocator_, dims.data(), rank, type, &out))) out = nullptr;
      void* data = nullptr;
      size_t bytes = 0;
      if (out && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING && !failed(c_->GetTensorMutableData(out, &data)) &&
          !failed(c_->GetTensorSizeInBytes(out, &bytes)) && bytes)
        std::memset(data, 0, bytes);
    }
    c_->ReleaseTypeInfo(info);
    return out;
  }

  void run_on_zeros(OrtSession* session, size_t inputs) {
    size_t outputs = 0;
    EXPECT_FALSE(failed(c_->SessionGetOutputCount(session, &outputs)));
    std::vector<char*> names(inputs + outputs, nullptr);
    std::vector<OrtValue*> in, out(outputs, nullptr);
    bool whole = true;
    for (size_t i = 0; i < inputs; ++i) {
      whole = !failed(c_->SessionGetInputName(session, i, allocator_, &names[i])) && whole;
      in.push_back(zeros_for(session, i));
      whole = whole && in.back();
    }
    for (size_t i = 0; i < outputs; ++i)
      whole = !failed(c_->SessionGetOutputName(session, i, allocator_, &names[inputs + i])) && whole;
    if (whole)
      failed(c_->Run(session, nullptr, names.data(), in.data(), inputs, names.data() + inputs, outputs, out.data()));
    for (const auto* list : {&in, &out})
      for (OrtValue* v : *list) c_->ReleaseValue(v);
    for (char* name : names)
      if (name) allocator_->Free(allocator_, name);
  }

  const OrtApi* c_ = nullptr;
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* options_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  std::string message_;
};

TEST(OrtFormat, TheMinimalLibraryReadsIt) {
  Minimal minimal;
  for (const Sample& s : samples())
    EXPECT_EQ(minimal.open(s.ort, true), static_cast<int>(s.session->inputs().size())) << s.name << minimal.message();
}

TEST(OrtFormat, TheMinimalLibraryNamesWhatItLacks) {
  Minimal minimal;
  auto written = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
g (float[2] x) => (float[2] y) <float[2] t> { t = other.Strange (x) y = Absurd (t) })"));
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(minimal.open(*written, false), -1);
  EXPECT_EQ(minimal.message(),
            "this library was built without other:Strange, ai.onnx:Absurd; add that to its list of operators, or run "
            "`tessera trim` with this model");
}

TEST(OrtFormat, TheMinimalLibraryCountsArguments) {
  Minimal minimal;
  for (const char* node : {"Add (x)", "Gather (x)", "Conv (x, \"\")", "Relu (x, x)", "tessera.ConvRelu (x)"}) {
    const std::string text = std::string(R"(<ir_version: 8, opset_import: ["" : 17, "tessera" : 1]>
g (float[1,2,3,3] x) => (float[N] y) { y = )") +
                             node + " }";
    const auto written = ort::write_model(model_of(text.c_str()));
    ASSERT_TRUE(written.ok()) << written.status().message();
    EXPECT_EQ(minimal.open(*written, true), -1) << node;
  }
}

// --- bytes that lie

// Where a text of the file lies; each is stored once.
size_t place_of(const std::string& file, const std::string& text) {
  std::string stored(4, '\0');
  const auto length = static_cast<uint32_t>(text.size());
  std::memcpy(stored.data(), &length, 4);
  return file.find(stored + text + '\0');
}

const char* const kWhere = R"(<ir_version: 8, opset_import: ["" : 17]>
g (bool[2] c, float[2] a, float[2] b) => (float[2] y) { y = Where (c, a, b) })";

TEST(OrtFormat, ATableThatLiesIsRefused) {
  const auto written = ort::write_model(model_of(kWhere));
  ASSERT_TRUE(written.ok()) << written.status().message();
  ASSERT_TRUE(read(*written).ok());
  // The condition's type variable gets another name, so its places are those of nobody.
  std::string lie = *written;
  const size_t at = place_of(lie, "B");
  ASSERT_NE(at, std::string::npos);
  lie[at + 4] = 'Q';
  const auto refused = read(lie);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::invalid_graph);
  EXPECT_NE(refused.status().message().find("':Where:16': the file says other types"), std::string::npos)
      << refused.status().message();
}

// Overwrites a number at a place found in the file, and says how the file is refused then.
template <class T>
std::string refusal(std::string file, uint64_t at, T number) {
  std::memcpy(file.data() + at, &number, sizeof(T));
  const auto model = read(file);
  return model.ok() ? "accepted" : model.status().message();
}

// ONNX Runtime's own operators get arguments without getting a version, so what a file says of them may be older.
TEST(OrtFormat, TypesOfForeignOperatorsMustHoldAtEveryNode) {
  const auto written = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[1,1,4,4] x, float[1,4] r, int32[1] b) => (float[1,1,2,2] y) <int32[2] size = {2, 2}> {
  y = com.microsoft.CropAndResize (x, r, b, size) })"));
  ASSERT_TRUE(written.ok()) << written.status().message();
  ASSERT_TRUE(read(*written).ok());
  flat::File file(*written);
  const flat::Table table = file.root().table(ort::session::kernel_type_str_resolver);
  const flat::Table op = table.list<flat::Table>(ort::resolver::op_kernel_type_str_args)[0];
  EXPECT_EQ(op.text(ort::resolver_op::op_id), "com.microsoft:CropAndResize:1");
  const auto types = op.list<flat::Table>(ort::resolver_op::kernel_type_str_args);
  const auto index_of = [&](size_t type, size_t place) {
    return types[type].list<flat::Table>(ort::resolver_type::args)[place].at(ort::resolver_arg::index);
  };
  EXPECT_EQ(refusal(*written, index_of(0, 1), 7), "accepted");  // of a version with more arguments
  EXPECT_NE(refusal(*written, index_of(0, 1), 2).find("an argument has two types"), std::string::npos);
  EXPECT_NE(refusal(*written, index_of(0, 1), 0).find("an argument has two types"), std::string::npos);
  // T1 with the input that is of T2, and the other way round.
  std::string lie = *written;
  const uint32_t one = 1, two = 2;
  std::memcpy(lie.data() + index_of(0, 1), &two, 4);
  std::memcpy(lie.data() + index_of(1, 0), &one, 4);
  const auto refused = read(lie);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("are alike, they are float and int32"), std::string::npos)
      << refused.status().message();
}

TEST(OrtFormat, EveryPositionInTheTableMatters) {
  const auto written = ort::write_model(model_of(kWhere));
  ASSERT_TRUE(written.ok());
  // Change, one at a time, the index of every argument that the table names.
  flat::File file(*written);
  int changed = 0;
  const flat::Table table = file.root().table(ort::session::kernel_type_str_resolver);
  for (const flat::Table op : table.list<flat::Table>(ort::resolver::op_kernel_type_str_args))
    for (const flat::Table type : op.list<flat::Table>(ort::resolver_op::kernel_type_str_args))
      for (const flat::Table arg : type.list<flat::Table>(ort::resolver_type::args)) {
        std::string lie = *written;
        lie[static_cast<size_t>(arg.at(ort::resolver_arg::index))] ^= 5;
        EXPECT_FALSE(read(lie).ok());
        ++changed;
      }
  EXPECT_EQ(changed, 4);
}

TEST(OrtFormat, NumbersThatContradictEachOtherAreRefused) {
  const auto written = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] t> { t = Add (x, w) y = Neg (t) })"));
  ASSERT_TRUE(written.ok()) << written.status().message();
  flat::File file(*written);
  const flat::Table g = file.root().table(ort::session::model).table(ort::model::graph);
  const flat::Table weight = g.list<flat::Table>(ort::graph::initializers)[0];
  const flat::Table neg = g.list<flat::Table>(ort::graph::nodes)[1];
  const uint64_t dims = weight.list<int64_t>(ort::tensor::dims).at();
  EXPECT_EQ(refusal(*written, dims, int64_t{3}), "tensor 'w': float[3] wants 12 bytes, its raw_data has 8");
  EXPECT_EQ(refusal(*written, dims, int64_t{-1}).substr(0, 11), "tensor 'w':");
  EXPECT_EQ(refusal(*written, dims, INT64_MAX).substr(0, 11), "tensor 'w':");
  EXPECT_EQ(refusal(*written, weight.at(ort::tensor::data_type), 77),
            "tensor 'w': element type 77 is not one of ONNX's");
  EXPECT_EQ(refusal(*written, neg.at(ort::node::index), 0), "two nodes have the number 0");
  EXPECT_EQ(refusal(*written, neg.at(ort::node::index), 1 << 30), "node number 1073741824 is not below 2");
  EXPECT_EQ(refusal(*written, neg.at(ort::node::since_version), 6),
            "node 'Neg': version 6 of the operator is not that of operator set 17");
  EXPECT_EQ(refusal(*written, g.at(ort::graph::max_node_index), 1), "node number 1 is not below 1");
  const uint64_t edge =
      g.list<flat::Table>(ort::graph::node_edges)[1].list<ort::EdgeEnd>(ort::node_edge::input_edges).at();
  EXPECT_EQ(refusal(*written, edge, 9), "an edge leads to a node that does not exist");
  EXPECT_EQ(refusal(*written, edge + 4, 1), "an edge joins what has different names");
  EXPECT_EQ(refusal(*written, edge + 8, -1), "an edge joins what has different names");
}

// A client of ONNX Runtime carries such a file, made by hand.
TEST(OrtFormat, ANodeMayBeNewerThanTheImportedSet) {
  const auto written = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 12]>
g (float[2] x) => (float[2] y) { y = Identity (x) })"));
  ASSERT_TRUE(written.ok()) << written.status().message();
  flat::File file(*written);
  const flat::Table g = file.root().table(ort::session::model).table(ort::model::graph);
  const uint64_t at = g.list<flat::Table>(ort::graph::nodes)[0].at(ort::node::since_version);
  EXPECT_EQ(refusal(*written, at, 21), "accepted");
  EXPECT_EQ(refusal(*written, at, 20), "node 'Identity': version 20 of the operator is not that of operator set 12");
  // The table's version may lie between two of the operator, its type variable be called as in another one.
  std::string other = *written;
  const size_t id = place_of(other, ":Identity:1"), variable = place_of(other, "T");
  ASSERT_NE(id, std::string::npos);
  ASSERT_NE(variable, std::string::npos);
  other[id + 4 + 10] = '9';
  other[variable + 4] = 'V';
  EXPECT_TRUE(read(other).ok());
}

// Two lists that point to each other would be read for ever.
TEST(OrtFormat, NestingWithoutEndIsRefused) {
  const auto written = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 17]>
g (bool c, float[2] x) => (float[2] y) {
  y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }>
})"));
  ASSERT_TRUE(written.ok()) << written.status().message();
  flat::File file(*written);
  const flat::Table g = file.root().table(ort::session::model).table(ort::model::graph);
  const flat::Table node = g.list<flat::Table>(ort::graph::nodes)[0];
  const auto attributes = node.list<flat::Table>(ort::node::attributes);
  // The subgraph's list of nodes becomes its parent's: offsets lead forward, so only a wrapped one could lead back.
  const flat::Table sub = attributes[0].table(ort::attribute::g);
  const uint64_t from = sub.at(ort::graph::nodes), to = g.list<flat::Table>(ort::graph::nodes).at() - 4;
  EXPECT_NE(refusal(*written, from, static_cast<uint32_t>(to - from)).find("damaged"), std::string::npos);
}

TEST(OrtFormat, AWrongVersionIsRefused) {
  const auto written = ort::write_model(model_of(kWhere));
  ASSERT_TRUE(written.ok());
  for (const char version : {'3', '7', 'x'}) {
    std::string other = *written;
    other[place_of(other, "6") + 4] = version;
    const auto refused = read(other);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("wanted 4 to 6"), std::string::npos);
  }
  for (const char version : {'4', '5', '6'}) {
    std::string old = *written;
    old[place_of(old, "6") + 4] = version;
    EXPECT_TRUE(Session::from_bytes(bytes_of(old), plain()).ok());
  }
}

// Before version 5 there was no table, but a list of hashes that nobody needs.
TEST(OrtFormat, AFileWithoutATableIsRead) {
  auto written = ort::write_model(model_of(kWhere));
  ASSERT_TRUE(written.ok());
  uint32_t root = 0;
  int32_t to_layout = 0;
  std::memcpy(&root, written->data(), 4);
  std::memcpy(&to_layout, written->data() + root, 4);
  const size_t layout = static_cast<size_t>(static_cast<int64_t>(root) - to_layout);
  std::memset(written->data() + layout + 4 + 2 * ort::session::kernel_type_str_resolver, 0, 2);
  (*written)[place_of(*written, "6") + 4] = '4';
  flat::File file(*written);
  EXPECT_FALSE(file.root().has(ort::session::kernel_type_str_resolver));
  EXPECT_TRUE(Session::from_bytes(bytes_of(*written), plain()).ok());
}

TEST(OrtFormat, WhatOnnxRuntimeCannotReadNeedsPermission) {
  const Model model = model_of(R"(<ir_version: 10, opset_import: ["" : 21]>
g (int4[2] x) => (float[2] y) { y = Cast <to = 1> (x) })");
  const auto refused = ort::write_model(model);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("int4"), std::string::npos) << refused.status().message();
  ort::WriteOptions options;
  options.extensions = true;
  const auto written = ort::write_model(model, options);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_TRUE(Session::from_bytes(bytes_of(*written), plain()).ok());
}

// Weights of four bits with blocks of scales: stored as they are, fused when the file is opened, packed beside it.
TEST(OrtFormat, QuantizedWeightsAreFusedAndPacked) {
  const fs::path folder = fs::path(TESSERA_BINARY_DIR) / "ort_format_int4";
  fs::create_directories(folder);
  const std::string path = (folder / "int4.ort").string();
  std::string codes, scales;
  for (int i = 0; i < 64 * 32 / 2; ++i) codes += format("{}{}", i ? "," : "", i * 37 % 256);
  for (int i = 0; i < 2 * 32; ++i) scales += format("{}0.0{}", i ? "," : "", 11 + i % 80);
  const std::string text = R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[M,64] x) => (float[M,32] y) <int4[64,32] w = {)" +
                           codes + "}, float[2,32] s = {" + scales + R"(}, float[64,32] d> {
  d = DequantizeLinear <axis = 0, block_size = 32> (w, s)
  y = MatMul (x, d) })";
  const Model model = model_of(text.c_str());
  ASSERT_FALSE(ort::save_model(model, path).ok());
  EXPECT_FALSE(fs::exists(path));
  ort::WriteOptions options;
  options.extensions = true;
  ASSERT_TRUE(ort::save_model(model, path, options).ok());
  const auto onnx = onnx::write_model(model);
  ASSERT_TRUE(onnx.ok());
  SessionOptions usual;
  usual.threads = 1;
  auto want = Session::from_bytes(bytes_of(*onnx), usual), cold = Session::open(path, usual);
  ASSERT_TRUE(want.ok() && cold.ok()) << cold.status().message();
  ASSERT_TRUE(save_packs(**cold, path + ".pack").ok());
  auto warm = Session::open(path, usual);
  ASSERT_TRUE(warm.ok()) << warm.status().message();
  EXPECT_EQ((*warm)->loaded().rewrites.at("dequantize_matmul"), 1);
  std::vector<float> elements(3 * 64);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i % 13) - 6;
  const std::vector<Value> inputs = {*Tensor::of<float>(Shape{3, 64}, elements)};
  std::vector<Value> outputs[3] = {std::vector<Value>(1), std::vector<Value>(1), std::vector<Value>(1)};
  ASSERT_TRUE((*want)->run(inputs, outputs[0]).ok());
  ASSERT_TRUE((*cold)->run(inputs, outputs[1]).ok());
  ASSERT_TRUE((*warm)->run(inputs, outputs[2]).ok());
  EXPECT_EQ((*warm)->memory().counters.packs_mapped + (*warm)->memory().counters.packs_shared, 1);
  EXPECT_EQ((*warm)->memory().counters.packs_stale, 0);
  for (const int i : {1, 2})
    EXPECT_EQ(std::memcmp(outputs[i][0].tensor()->data(), outputs[0][0].tensor()->data(), 3 * 32 * sizeof(float)), 0);
  fs::remove_all(folder);
}

TEST(OrtFormat, UnknownTypesCannotBeWritten) {
  const auto refused = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { t = Relu (x) y = Neg (t) })"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("'t': its type is not known"), std::string::npos);
}

TEST(OrtFormat, ConstantsBecomeInitializersAndUnreadOnesGo) {
  const auto written = ort::write_model(model_of(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float[2] unread = {1, 2}> { k = Constant <value_floats = [3.0, 4.0]> () y = Add (x, k) })"));
  ASSERT_TRUE(written.ok()) << written.status().message();
  const auto model = read(*written);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->graph->nodes().size(), 1u);
  ASSERT_EQ(model->graph->weights().size(), 1u);
  EXPECT_NE(model->graph->find("k"), ir::kNone);
}

TEST(OrtFormat, ExternalDataLiesBesideTheModel) {
  const fs::path folder = fs::path(TESSERA_BINARY_DIR) / "ort_format_test";
  fs::create_directories(folder);
  auto session = Session::open(kModels + "/demo/digits.onnx", plain());
  ASSERT_TRUE(session.ok());
  ort::WriteOptions options;
  options.external_file = "digits.bin";
  EXPECT_FALSE(ort::save_model((*session)->model(), (folder / "digits.ort").string(), options).ok());
  options.extensions = true;
  const Status saved = ort::save_model((*session)->model(), (folder / "digits.ort").string(), options);
  ASSERT_TRUE(saved.ok()) << saved.message();
  EXPECT_LT(fs::file_size(folder / "digits.ort"), 65536u);
  auto opened = Session::open((folder / "digits.ort").string(), plain());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->memory().weight_bytes, (*session)->memory().weight_bytes);
  fs::resize_file(folder / "digits.bin", 100);
  const auto cut = Session::open((folder / "digits.ort").string(), plain());
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.status().message().find("'digits.bin' has 100 bytes"), std::string::npos) << cut.status().message();
  fs::remove_all(folder);
}

// A file of some size whose weights lie at its end: opening it reads none of them.
TEST(OrtFormat, OpeningALargeFileTouchesNoWeights) {
  const fs::path path = fs::path(TESSERA_BINARY_DIR) / "ort_format_large.ort";
  {
    ir::GraphBuilder builder;
    auto weight = Tensor::allocate(DType::f32, Shape{4096, 4096});
    ASSERT_TRUE(weight.ok());
    std::memset(weight->mutable_data(), 0, static_cast<size_t>(weight->bytes()));
    const Fact matrix = Fact::tensor(DType::f32, std::vector<Dim>{4096, 4096});
    ASSERT_TRUE(builder.input("x", matrix).ok());
    ASSERT_TRUE(builder.initializer("w", Weight::from(*weight)).ok());
    ir::Node n;
    n.op_type = "Add";
    n.version = 17;
    const std::string_view in[] = {"x", "w"}, out[] = {"y"};
    builder.output("y", matrix);
    ASSERT_TRUE(builder.node(std::move(n), in, out).ok());
    Model model;
    model.ir_version = 8;
    model.opsets = {{"", 17}};
    model.graph = builder.finish();
    const Status saved = ort::save_model(model, path.string());
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  auto session = Session::open(path.string(), plain());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ((*session)->memory().counters.bytes_copied, 0);
  EXPECT_EQ((*session)->memory().weight_bytes, 64 << 20);
  const auto& weight = (*session)->model().graph->weights()[0];
  EXPECT_EQ(weight.range.source->origin(), Bytes::Origin::mapped);
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  int64_t resident = -1;
  for (bool here = false; std::getline(smaps, line);) {
    if (line.find(path.filename().string()) != line.npos) here = true;
    if (here && line.rfind("Rss:", 0) == 0) {
      resident = std::atoll(line.c_str() + 4);
      break;
    }
  }
  EXPECT_LE(resident, 1024);
  fs::remove(path);
}

// --- damage

bool loads(std::string_view bytes, bool run) {
  auto session = Session::from_bytes(borrow_bytes(bytes.data(), bytes.size()), plain());
  if (!session.ok()) {
    EXPECT_FALSE(session.status().message().empty());
    EXPECT_LT(session.status().message().size(), 4000u);  // two shapes of 64 dimensions
    return false;
  }
  for (const ir::Node& n : (*session)->model().graph->nodes())
    if (n.op_type == "Loop") run = false;  // for as long as a damaged number says
  if (!run) return true;
  const auto inputs = inputs_for(**session);
  std::vector<Value> outputs((*session)->outputs().size());
  const Status s = (*session)->run(inputs, outputs);
  EXPECT_TRUE(s.ok() || !s.message().empty());
  return true;
}

TEST(OrtFormat, EveryTruncation) {
  size_t total = 0;
  for (const std::string& file : small_files()) {
    EXPECT_TRUE(loads(file, true));
    for (size_t n = 0; n < file.size(); ++n) {
      const std::vector<char> prefix(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
      loads({prefix.data(), prefix.size()}, false);
    }
    total += file.size();
  }
  std::printf("%zu truncations\n", total);
}

// TESSERA_MUTATIONS=1000000 TESSERA_SEED=2 ort_format_test --gtest_filter=*.RandomMutations
int number_in(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

void mutate(std::string& bytes, std::mt19937& random) {
  for (unsigned k = 0, edits = 1 + random() % 4; k < edits; ++k) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); break;
      case 2: {  // an offset or a number of another size
        const uint32_t odd[] = {0, 1, 4, 0x7fffffff, 0x80000000, 0xffffffff, static_cast<uint32_t>(random() % 4096)};
        if (at + 4 <= bytes.size()) std::memcpy(bytes.data() + at / 4 * 4, &odd[random() % 7], 4);
        break;
      }
      default: {
        const size_t other = random() % bytes.size();
        bytes[at] = bytes[other];
      }
    }
  }
}

// Tries so many mutations of the small files, and says how many were still models.
template <class Try>
void try_mutations(int total, Try&& loads_still) {
  std::mt19937 random(static_cast<unsigned>(number_in("TESSERA_SEED", 11)));
  const std::vector<std::string> contents = small_files();
  int loaded = 0;
  for (int i = 0; i < total; ++i) {
    if (i > 0 && i % 100000 == 0) {
      std::printf("%d of %d mutations, %d still loaded\n", i, total, loaded);
      std::fflush(stdout);
    }
    std::string bytes = contents[static_cast<size_t>(i) % contents.size()];
    mutate(bytes, random);
    loaded += loads_still(bytes);
  }
  std::printf("%d of %d mutated models still loaded\n", loaded, total);
}

TEST(OrtFormat, RandomMutations) {
  try_mutations(number_in("TESSERA_MUTATIONS", 50000), [](const std::string& bytes) { return loads(bytes, true); });
}

TEST(OrtFormat, RandomMutationsInTheMinimalLibrary) {
  Minimal minimal;
  try_mutations(number_in("TESSERA_MUTATIONS", 50000) / 2,
                [&](const std::string& bytes) { return minimal.open(bytes, bytes.find("Loop") == bytes.npos) >= 0; });
}

}  // namespace
}  // namespace tessera
