// labels: data
// Reading and writing .onnx keeps everything: what we know, and the fields we do not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <protozero/pbf_writer.hpp>

#include "formats/onnx/fields.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/writer.h"

namespace tessera {
namespace {

Result<Model> read(const std::string& bytes) {
  ExternalData external;
  auto copy = allocate_bytes(bytes.size());
  std::memcpy((*copy)->data(), bytes.data(), bytes.size());
  return onnx::read_model(*copy, external);
}

TEST(RoundTrip, SampleModelsReachAFixedPoint) {
  int count = 0;
  for (const auto& e : std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/tests/models/samples")) {
    if (e.path().extension() != ".onnx" || e.path().stem() == "external") continue;
    SCOPED_TRACE(e.path().stem());
    std::ifstream in(e.path(), std::ios::binary);
    const auto first = read({std::istreambuf_iterator<char>(in), {}});
    ASSERT_TRUE(first.ok()) << first.status().message();
    const auto written = onnx::write_model(*first);
    ASSERT_TRUE(written.ok()) << written.status().message();
    const auto second = read(*written);
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_EQ(*onnx::write_model(*second), *written);
    EXPECT_EQ(second->graph->nodes().size(), first->graph->nodes().size());
    EXPECT_EQ(second->metadata, first->metadata);
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(RoundTrip, SparseInitializersStaySparse) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/tests/models/samples/sparse.onnx", std::ios::binary);
  const auto first = read({std::istreambuf_iterator<char>(in), {}});
  ASSERT_TRUE(first.ok()) << first.status().message();
  const auto again = read(*onnx::write_model(*first));
  ASSERT_TRUE(again.ok()) << again.status().message();
  ASSERT_EQ(again->graph->weights().size(), 1u);
  const Weight &was = first->graph->weights()[0], &is = again->graph->weights()[0];
  ASSERT_TRUE(was.sparse && is.sparse);
  EXPECT_EQ(is.sparse->values.shape.str(), "[2]");
  const auto a = was.tensor(), b = is.tensor();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_TRUE(std::ranges::equal(a->values<float>(), b->values<float>()));
}

// A model in which every message has a field of number 900 that no version of ONNX knows.
// Tools of ONNX Runtime write models that do not import its own domain, or import a set as version 0 beside another.
TEST(Reader, TakesImportsAsOnnxRuntimesToolsLeaveThem) {
  using protozero::pbf_writer;
  const auto model_with = [](const std::string& domain, std::initializer_list<int64_t> versions) {
    std::string bytes;
    pbf_writer model(bytes);
    model.add_int64(onnx::model::ir_version, 10);
    {
      pbf_writer graph(model, onnx::model::graph);
      pbf_writer node(graph, onnx::graph::node);
      node.add_string(onnx::node::output, "y");
      node.add_string(onnx::node::op_type, "Anything");
      node.add_string(onnx::node::domain, domain);
    }
    for (const int64_t v : versions) pbf_writer(model, onnx::model::opset_import).add_int64(onnx::opset::version, v);
    return read(bytes);
  };
  const auto own = model_with("com.microsoft", {17});
  ASSERT_TRUE(own.ok()) << own.status().message();
  EXPECT_EQ(own->graph->node(0).version, 1);
  EXPECT_FALSE(model_with("somewhere", {17}).ok());
  const auto zero = model_with("", {0, 7});
  ASSERT_TRUE(zero.ok()) << zero.status().message();
  EXPECT_EQ(zero->graph->node(0).version, 7);
  EXPECT_FALSE(model_with("", {0}).ok());
}

TEST(RoundTrip, UnknownFieldsSurvive) {
  using protozero::pbf_writer;
  constexpr uint32_t kStrange = 900;
  std::string bytes;
  pbf_writer model(bytes);
  model.add_int64(onnx::model::ir_version, 10);
  {
    pbf_writer graph(model, onnx::model::graph);
    {
      pbf_writer node(graph, onnx::graph::node);
      node.add_string(onnx::node::input, "x");
      node.add_string(onnx::node::output, "y");
      node.add_string(onnx::node::op_type, "Softmax");
      {
        pbf_writer attribute(node, onnx::node::attribute);
        attribute.add_string(onnx::attribute::name, "axis");
        attribute.add_int64(onnx::attribute::i, 0);
        attribute.add_int32(onnx::attribute::type, 2);
        attribute.add_string(kStrange, "in the attribute");
      }
      node.add_string(kStrange, "in the node");
    }
    for (const auto field : {onnx::graph::input, onnx::graph::output}) {
      pbf_writer info(graph, field);
      info.add_string(onnx::value_info::name, field == onnx::graph::input ? "x" : "y");
      pbf_writer type(info, onnx::value_info::type);
      pbf_writer tensor(type, onnx::type::tensor_type);
      tensor.add_int32(onnx::tensor_type::elem_type, 1);
      tensor.commit();
      type.commit();
      info.add_string(kStrange, "in the value");
    }
    graph.add_fixed64(kStrange, 77);
  }
  {
    pbf_writer opset(model, onnx::model::opset_import);
    opset.add_int64(onnx::opset::version, 21);
  }
  model.add_string(kStrange, "in the model");
  const auto read_back = read(bytes);
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  const auto written = onnx::write_model(*read_back);
  ASSERT_TRUE(written.ok());
  for (const char* text : {"in the attribute", "in the node", "in the value", "in the model"})
    EXPECT_NE(written->find(text), std::string::npos) << text;
  EXPECT_EQ(read_back->graph->unknown().size(), 2u + 8u);
  const auto again = read(*written);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->graph->unknown(), read_back->graph->unknown());
}

}  // namespace
}  // namespace tessera
