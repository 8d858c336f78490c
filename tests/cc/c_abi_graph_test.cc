// labels: robust
// Looking at graphs, nodes and values that were put together with the model editor.
#include <gtest/gtest.h>

#include <string>

#include "c_editor.h"

namespace {

using namespace client;

// y = Relu(x + w), bias: an optional input.
class GraphTest : public EditorTest {
 protected:
  void SetUp() override {
    graph_ = graph({value("x", {-1, 3}, {"n", ""}), value("bias", {3})}, {value("y", {-1, 3}, {"n", ""})});
    good(editor().AddInitializerToGraph(graph_, "w", owned_tensor({3}, {1, -2, 3}), false));
    good(editor().AddInitializerToGraph(graph_, "bias", owned_tensor({3}, {0, 0, 0}), false));
    OrtOpAttr* note = nullptr;
    const float half = 0.5f;
    good(c().CreateOpAttr("alpha", &half, 1, ORT_OP_ATTR_FLOAT, &note));
    first_ = node("Add", "add", {"x", "w"}, {"sum"});
    second_ = node("LeakyRelu", "leaky", {"sum"}, {"y"}, {note});
    good(editor().AddNodeToGraph(graph_, first_));
    good(editor().AddNodeToGraph(graph_, second_));
    model_ = model(graph_, {{"", 17}, {"com.microsoft", 1}});
  }
  void TearDown() override { c().ReleaseModel(model_); }

  const OrtValueInfo* input(const OrtNode* n, size_t index) const {
    size_t count = 0;
    good(c().Node_GetNumInputs(n, &count));
    std::vector<const OrtValueInfo*> all(count);
    good(c().Node_GetInputs(n, all.data(), count));
    return all.at(index);
  }
  std::string name(const OrtValueInfo* v) const {
    const char* text = nullptr;
    good(c().GetValueInfoName(v, &text));
    return text;
  }
  bool is(OrtStatus* (*question)(const OrtValueInfo*, bool*), const OrtValueInfo* v) const {
    bool answer = false;
    good(question(v, &answer));
    return answer;
  }

  OrtGraph* graph_ = nullptr;
  OrtNode *first_ = nullptr, *second_ = nullptr;
  OrtModel* model_ = nullptr;
};

TEST_P(GraphTest, ListsItsParts) {
  size_t inputs = 0, outputs = 0, initializers = 0, nodes = 0, opsets = 0;
  good(c().Graph_GetNumInputs(graph_, &inputs));
  good(c().Graph_GetNumOutputs(graph_, &outputs));
  good(c().Graph_GetNumInitializers(graph_, &initializers));
  good(c().Graph_GetNumNodes(graph_, &nodes));
  good(c().Graph_GetNumOperatorSets(graph_, &opsets));
  ASSERT_EQ(inputs, 2u);
  ASSERT_EQ(outputs, 1u);
  ASSERT_EQ(initializers, 2u);
  ASSERT_EQ(nodes, 2u);
  ASSERT_EQ(opsets, 2u);
  const OrtValueInfo* values[2];
  good(c().Graph_GetInputs(graph_, values, 2));
  EXPECT_EQ(name(values[0]), "x");
  EXPECT_EQ(values[0], input(first_, 0));
  good(c().Graph_GetInitializers(graph_, values, 2));
  EXPECT_EQ(name(values[0]), "w");
  const OrtNode* found[2];
  good(c().Graph_GetNodes(graph_, found, 2));
  EXPECT_EQ(found[1], second_);
  const char* domains[2];
  int64_t versions[2];
  good(c().Graph_GetOperatorSets(graph_, domains, versions, 2));
  EXPECT_STREQ(domains[1], "com.microsoft");
  EXPECT_EQ(versions[0], 17);
  refused(c().Graph_GetNodes(graph_, found, 1));
}

TEST_P(GraphTest, DescribesNodes) {
  const char* text = nullptr;
  good(c().Node_GetOperatorType(second_, &text));
  EXPECT_STREQ(text, "LeakyRelu");
  good(c().Node_GetName(second_, &text));
  EXPECT_STREQ(text, "leaky");
  good(c().Node_GetDomain(second_, &text));
  EXPECT_STREQ(text, "");
  size_t id = 7, count = 7;
  good(c().Node_GetId(second_, &id));
  EXPECT_EQ(id, 1u);
  int since = 0;
  good(c().Node_GetSinceVersion(second_, &since));
  EXPECT_EQ(since, 16);
  good(c().Node_GetNumSubgraphs(second_, &count));
  EXPECT_EQ(count, 0u);
  const OrtGraph* whole = nullptr;
  good(c().Node_GetGraph(second_, &whole));
  EXPECT_EQ(whole, graph_);
  const OrtOpAttr* attribute = nullptr;
  good(c().Node_GetAttributeByName(second_, "alpha", &attribute));
  float alpha = 0;
  size_t size = 0;
  good(c().ReadOpAttr(attribute, ORT_OP_ATTR_FLOAT, &alpha, sizeof alpha, &size));
  EXPECT_EQ(alpha, 0.5f);
  bad(c().Node_GetAttributeByName(second_, "beta", &attribute), ORT_NOT_FOUND, "beta");
  EXPECT_EQ(attribute, nullptr);
}

TEST_P(GraphTest, KnowsWhereValuesComeFromAndGo) {
  const OrtValueInfo* sum = input(second_, 0);
  const OrtNode* producer = nullptr;
  size_t index = 7;
  good(c().ValueInfo_GetValueProducer(sum, &producer, &index));
  EXPECT_EQ(producer, first_);
  EXPECT_EQ(index, 0u);
  size_t count = 0;
  good(c().ValueInfo_GetValueNumConsumers(sum, &count));
  ASSERT_EQ(count, 1u);
  const OrtNode* consumer = nullptr;
  int64_t at = -7;
  good(c().ValueInfo_GetValueConsumers(sum, &consumer, &at, 1));
  EXPECT_EQ(consumer, second_);
  EXPECT_EQ(at, 0);
  good(c().ValueInfo_GetValueProducer(input(first_, 0), &producer, nullptr));
  EXPECT_EQ(producer, nullptr);
}

TEST_P(GraphTest, TellsInputsFromConstants) {
  const OrtValueInfo *x = input(first_, 0), *w = input(first_, 1), *inputs[2];
  good(c().Graph_GetInputs(graph_, inputs, 2));
  EXPECT_TRUE(is(c().ValueInfo_IsRequiredGraphInput, x));
  EXPECT_FALSE(is(c().ValueInfo_IsRequiredGraphInput, inputs[1]));
  EXPECT_TRUE(is(c().ValueInfo_IsOptionalGraphInput, inputs[1]));
  EXPECT_TRUE(is(c().ValueInfo_IsConstantInitializer, w));
  EXPECT_FALSE(is(c().ValueInfo_IsConstantInitializer, inputs[1]));
  EXPECT_FALSE(is(c().ValueInfo_IsGraphOutput, x));
  EXPECT_FALSE(is(c().ValueInfo_IsFromOuterScope, x));
  const OrtValue* tensor = nullptr;
  good(c().ValueInfo_GetInitializerValue(w, &tensor));
  EXPECT_EQ(values(const_cast<OrtValue*>(tensor)), (std::vector<float>{1, -2, 3}));
  good(c().ValueInfo_GetInitializerValue(x, &tensor));
  EXPECT_EQ(tensor, nullptr);
  OrtExternalInitializerInfo* place = nullptr;
  good(c().ValueInfo_GetExternalInitializerInfo(w, &place));
  EXPECT_EQ(place, nullptr);
}

TEST_P(GraphTest, ShowsAPart) {
  OrtGraph* view = nullptr;
  const OrtNode* part[] = {second_};
  good(c().Graph_GetGraphView(graph_, part, 1, &view));
  size_t count = 0;
  good(c().Graph_GetNumInputs(view, &count));
  ASSERT_EQ(count, 1u);
  const OrtValueInfo* values[1];
  good(c().Graph_GetInputs(view, values, 1));
  EXPECT_EQ(name(values[0]), "sum");
  good(c().Graph_GetNumInitializers(view, &count));
  EXPECT_EQ(count, 0u);
  refused(editor().AddNodeToGraph(view, second_));
  c().ReleaseGraph(view);
}

TEST_P(GraphTest, PlacesInFiles) {
  OrtExternalInitializerInfo* place = nullptr;
  good(c().CreateExternalInitializerInfo("weights.bin", 128, 64, &place));
  EXPECT_STREQ(c().ExternalInitializerInfo_GetFilePath(place), "weights.bin");
  EXPECT_EQ(c().ExternalInitializerInfo_GetFileOffset(place), 128);
  EXPECT_EQ(c().ExternalInitializerInfo_GetByteSize(place), 64u);
  c().ReleaseExternalInitializerInfo(place);
  refused(c().CreateExternalInitializerInfo("weights.bin", -1, 64, &place));
}

// Others refuse to look at what the editor made.
INSTANTIATE_TEST_SUITE_P(Libraries, GraphTest, testing::Values<size_t>(0), library_name);

}  // namespace
