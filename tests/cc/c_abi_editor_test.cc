// labels: robust
// OrtModelEditorApi: models put together or extended by a program.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "c_editor.h"

namespace {

using namespace client;

TEST_P(EditorTest, RunsAModelWithAnOwnedInitializer) {
  OrtGraph* g = add_relu_graph(owned_tensor({3}, {1, -2, 3}), false, 3);
  const auto s = session(model(g));
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(run(s.get(), "x", {2, 3}, kX, "y"), kSum);
}

TEST_P(EditorTest, UsesBorrowedInitializersInPlace) {
  std::vector<float> w(600, 1);
  OrtGraph* g = add_relu_graph(borrowed_tensor({600}, w), true, 600);
  const auto s = session(model(g));
  ASSERT_NE(s, nullptr);
  const std::vector<float> x(600, 2);
  EXPECT_EQ(run(s.get(), "x", {1, 600}, x, "y"), std::vector<float>(600, 3));
  if (!lib().ours) return;
  w[0] = 5;
  EXPECT_EQ(run(s.get(), "x", {1, 600}, x, "y")[0], 7);
}

TEST_P(EditorTest, CopiesBorrowedInitializersThatAreNotMarkedAsExternal) {
  std::vector<float> w(600, 1);
  OrtGraph* g = add_relu_graph(borrowed_tensor({600}, w), false, 600);
  const auto s = session(model(g));
  ASSERT_NE(s, nullptr);
  std::fill(w.begin(), w.end(), 9.0f);
  EXPECT_EQ(run(s.get(), "x", {1, 600}, std::vector<float>(600, 2), "y"), std::vector<float>(600, 3));
}

TEST_P(EditorTest, TakesAttributes) {
  OrtOpAttr* axis = nullptr;
  const int64_t one = 1;
  good(c().CreateOpAttr("axis", &one, 1, ORT_OP_ATTR_INT, &axis));
  OrtGraph* g = graph({value("x", {2, 2})}, {value("y", {2, 4})});
  good(editor().AddNodeToGraph(g, node("Concat", "join", {"x", "x"}, {"y"}, {axis})));  // the attribute is the node's
  const auto s = session(model(g));
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(run(s.get(), "x", {2, 2}, {1, 2, 3, 4}, "y"), (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST_P(EditorTest, DescribesTheSession) {
  OrtGraph* g = add_relu_graph(owned_tensor({3}, {1, -2, 3}), false, 3);
  const auto s = session(model(g, {{"", 18}, {"com.microsoft", 1}}));
  ASSERT_NE(s, nullptr);
  OrtTypeInfo* made = nullptr;
  good(c().SessionGetInputTypeInfo(s.get(), 0, &made));
  const auto type = own(made, c());
  const OrtTensorTypeAndShapeInfo* shape = nullptr;
  good(c().CastTypeInfoToTensorInfo(type.get(), &shape));
  const char* names[2] = {};
  good(c().GetSymbolicDimensions(shape, names, 2));
  EXPECT_STREQ(names[0], "n");
  int opset = 0;
  good(editor().SessionGetOpsetForDomain(s.get(), "", &opset));
  EXPECT_EQ(opset, 18);
  good(editor().SessionGetOpsetForDomain(s.get(), "com.microsoft", &opset));
  EXPECT_EQ(opset, 1);
  bad(editor().SessionGetOpsetForDomain(s.get(), "nobody", &opset), ORT_FAIL, "nobody");
}

TEST_P(EditorTest, RefusesWhatIsNoModel) {
  const auto o = default_options();
  OrtSession* s = nullptr;
  OrtStatus* status = nullptr;
  if (lib().ours) {
    OrtModel* empty = model(nullptr);
    bad(editor().CreateSessionFromModel(lib().env, empty, o.get(), &s), ORT_INVALID_ARGUMENT, "AddGraphToModel");
    c().ReleaseModel(empty);
  }

  OrtGraph* g = graph({value("x", {2})}, {value("y", {2})});
  good(editor().AddNodeToGraph(g, node("NoSuchOperator", "n", {"x"}, {"y"})));
  OrtModel* unknown = model(g);
  status = editor().CreateSessionFromModel(lib().env, unknown, o.get(), &s);
  refused(status);
  c().ReleaseModel(unknown);

  g = graph({value("x", {2})}, {value("y", {2})});
  good(editor().AddNodeToGraph(g, node("Relu", "n", {"nobody"}, {"y"})));
  OrtModel* dangling = model(g);
  status = editor().CreateSessionFromModel(lib().env, dangling, o.get(), &s);
  refused(status);
  c().ReleaseModel(dangling);
  EXPECT_EQ(s, nullptr);
}

TEST_P(EditorTest, RefusedPartsStayWithTheClient) {
  OrtGraph* g = graph({}, {});
  OrtValue* w = owned_tensor({3}, {1, 2, 3});
  good(editor().AddInitializerToGraph(g, "w", w, false));
  bad(editor().AddInitializerToGraph(g, "again", w, false), ORT_INVALID_ARGUMENT, "already");
  OrtValue* second = owned_tensor({3}, {1, 2, 3});
  bad(editor().AddInitializerToGraph(g, "w", second, false), ORT_INVALID_ARGUMENT, "twice");
  c().ReleaseValue(second);
  std::vector<float> few = {1, 2, 3};
  OrtValue* small = borrowed_tensor({3}, few);
  bad(editor().AddInitializerToGraph(g, "small", small, true), ORT_INVALID_ARGUMENT, "data_is_external");
  c().ReleaseValue(small);

  OrtNode* n = node("Relu", "n", {"w"}, {"y"});
  good(editor().AddNodeToGraph(g, n));
  bad(editor().AddNodeToGraph(g, n), ORT_INVALID_ARGUMENT, "already");
  OrtValueInfo* infos[] = {value("x", {2}), nullptr};
  bad(editor().SetGraphInputs(g, infos, 2), ORT_INVALID_ARGUMENT, "null");
  ASSERT_NE(infos[0], nullptr);
  good(editor().SetGraphInputs(g, infos, 1));
  EXPECT_EQ(infos[0], nullptr);

  OrtModel* m = model(g);
  OrtGraph* more = graph({}, {});
  bad(editor().AddGraphToModel(m, more), ORT_INVALID_ARGUMENT, "already");
  c().ReleaseGraph(more);
  c().ReleaseModel(m);
}

class ExtendTest : public EditorTest {
 protected:
  Owned<OrtSession> edited() const {
    const std::string bytes = tiny::add_relu();
    const auto o = default_options();
    OrtSession* s = nullptr;
    good(editor().CreateModelEditorSessionFromArray(lib().env, bytes.data(), bytes.size(), o.get(), &s));
    return own(s, c());
  }
  int opset(OrtSession* s) const {
    int version = 0;
    good(editor().SessionGetOpsetForDomain(s, "", &version));
    return version;
  }
  void finish(OrtSession* s) const {
    const auto o = default_options();
    good(editor().FinalizeModelEditorSession(s, o.get(), nullptr));
  }
};

TEST_P(ExtendTest, AddsANodeBehind) {
  const auto s = edited();
  ASSERT_NE(s, nullptr);
  OrtGraph* g = graph({}, {value("negative", {-1, 3})});
  good(editor().AddNodeToGraph(g, node("Neg", "neg", {"sum"}, {"negative"})));
  OrtModel* m = model(g, {{"", opset(s.get())}});
  good(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());
  size_t outputs = 0;
  good(c().SessionGetOutputCount(s.get(), &outputs));
  EXPECT_EQ(outputs, 1u);
  EXPECT_EQ(run(s.get(), "x", {2, 3}, kX, "negative"), (std::vector<float>{-2, 0, -6, -5, -3, -9}));
}

TEST_P(ExtendTest, AddsANodeInFrontWithItsOwnWeight) {
  const auto s = edited();
  ASSERT_NE(s, nullptr);
  OrtGraph* g = graph({value("raw", {-1, 3})}, {});
  good(editor().AddInitializerToGraph(g, "scale", owned_tensor({1}, {2}), false));
  good(editor().AddNodeToGraph(g, node("Mul", "mul", {"raw", "scale"}, {"x"})));
  OrtModel* m = model(g, {});
  good(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());
  EXPECT_EQ(run(s.get(), "raw", {1, 3}, {1, 2, 3}, "sum"), (std::vector<float>{3, 2, 9}));
}

TEST_P(ExtendTest, CannotRunBeforeItIsFinished) {
  const auto s = edited();
  ASSERT_NE(s, nullptr);
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data, c());
  OrtValue* y = nullptr;
  bad(client::run(s.get(), {"x"}, {x.get()}, {"sum"}, &y, nullptr, c()), ORT_FAIL, "FinalizeModelEditorSession");
  size_t inputs = 0;
  good(c().SessionGetInputCount(s.get(), &inputs));
  EXPECT_EQ(inputs, 1u);
}

TEST_P(ExtendTest, RefusesOtherVersionsAndSessionsThatAreDone) {
  const auto s = edited();
  ASSERT_NE(s, nullptr);
  OrtModel* m = model(graph({}, {}), {{"", opset(s.get()) + 1}});
  refused(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());
  m = model(graph({}, {}), {});
  refused(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());  // again: nothing happens
  EXPECT_EQ(run(s.get(), "x", {2, 3}, kX, "sum"), kSum);
}

TEST_P(ExtendTest, ReadsAFile) {
  const std::string path = testing::TempDir() + "/tessera_edited.onnx";
  std::ofstream(path, std::ios::binary) << tiny::add_relu();
  const auto o = default_options();
  OrtSession* made = nullptr;
  good(editor().CreateModelEditorSession(lib().env, path.c_str(), o.get(), &made));
  const auto s = own(made, c());
  std::remove(path.c_str());
  OrtGraph* g = graph({}, {value("twice", {-1, 3})});
  good(editor().AddNodeToGraph(g, node("Add", "twice", {"sum", "sum"}, {"twice"})));
  OrtModel* m = model(g, {});
  good(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());
  EXPECT_EQ(run(s.get(), "x", {1, 3}, {1, 2, 3}, "twice"), (std::vector<float>{4, 0, 12}));
  bad(editor().CreateModelEditorSession(lib().env, "/nowhere/model.onnx", o.get(), &made), ORT_NO_SUCHFILE, "nowhere");
}

// y = c ? x + w : x - w, where both branches take x and w from outside.
std::string branching() {
  const auto branch = [](const char* op) {
    return tiny::Message()
        .message(1, tiny::node(op, {"x", "w"}, {std::string(op) + "_out"}))
        .text(2, op)
        .message(12, tiny::value(std::string(op) + "_out", tiny::kFloat, {"n", 3}));
  };
  const auto attribute = [&](const char* name, const char* op) {
    return tiny::Message().text(1, name).message(6, branch(op)).number(20, 5);
  };
  tiny::Message node = tiny::node("If", {"c"}, {"y"});
  node.message(5, attribute("then_branch", "Add")).message(5, attribute("else_branch", "Sub"));
  constexpr int kBool = 9;
  return tiny::model({.nodes = {node},
                      .weights = {tiny::weight("w", {3}, {1, -2, 3})},
                      .inputs = {tiny::value("c", kBool, {}), tiny::value("x", tiny::kFloat, {"n", 3})},
                      .outputs = {tiny::value("y", tiny::kFloat, {"n", 3})}});
}

TEST_P(ExtendTest, KeepsWhatSubgraphsTakeFromOutside) {
  const std::string bytes = branching();
  const auto o = default_options();
  OrtSession* made = nullptr;
  good(editor().CreateModelEditorSessionFromArray(lib().env, bytes.data(), bytes.size(), o.get(), &made));
  const auto s = own(made, c());
  OrtGraph* g = graph({value("c", {}), value("raw", {-1, 3})}, {value("z", {-1, 3})});
  OrtTypeInfo* flag = tensor_type({}, {}, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL);
  OrtValueInfo* inputs[2] = {nullptr, value("raw", {-1, 3})};
  good(editor().CreateValueInfo("c", flag, &inputs[0]));
  c().ReleaseTypeInfo(flag);
  good(editor().SetGraphInputs(g, inputs, 2));  // instead of the first ones
  good(editor().AddNodeToGraph(g, node("Abs", "before", {"raw"}, {"x"})));
  good(editor().AddNodeToGraph(g, node("Neg", "behind", {"y"}, {"z"})));
  OrtModel* m = model(g, {});
  good(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());
  for (const bool yes : {true, false}) {
    std::vector<float> data = {-1, 2, -3};
    const auto x = tensor({1, 3}, data, c());
    OrtValue *flag_value = nullptr, *z = nullptr;
    good(c().CreateTensorAsOrtValue(allocator(c()), nullptr, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, &flag_value));
    const auto owned_flag = own(flag_value, c());
    void* at = nullptr;
    good(c().GetTensorMutableData(flag_value, &at));
    *static_cast<bool*>(at) = yes;
    good(client::run(s.get(), {"c", "raw"}, {flag_value, x.get()}, {"z"}, &z, nullptr, c()));
    ASSERT_NE(z, nullptr);
    EXPECT_EQ(values(z, c()), yes ? (std::vector<float>{-2, 0, -6}) : (std::vector<float>{0, -4, 0}));
    c().ReleaseValue(z);
  }
}

TEST_P(ExtendTest, FindsExternalDataBesideTheModel) {
  const std::string folder = testing::TempDir(), path = folder + "/tessera_edited_outside.onnx";
  const float w[] = {1, -2, 3};
  std::ofstream(folder + "/tessera_edited.bin", std::ios::binary).write(reinterpret_cast<const char*>(w), sizeof w);
  std::ofstream(path, std::ios::binary) << tiny::add_relu("tessera_edited.bin");
  const auto o = default_options();
  OrtSession* made = nullptr;
  good(editor().CreateModelEditorSession(lib().env, path.c_str(), o.get(), &made));
  const auto s = own(made, c());
  OrtModel* m = model(graph({}, {}), {});
  good(editor().ApplyModelToModelEditorSession(s.get(), m));
  c().ReleaseModel(m);
  finish(s.get());
  EXPECT_EQ(run(s.get(), "x", {2, 3}, kX, "sum"), kSum);
  std::remove(path.c_str());
  std::remove((folder + "/tessera_edited.bin").c_str());
}

INSTANTIATE_TEST_SUITE_P(Libraries, EditorTest, testing::Range<size_t>(0, libraries().size()), library_name);
INSTANTIATE_TEST_SUITE_P(Libraries, ExtendTest, testing::Range<size_t>(0, libraries().size()), library_name);

}  // namespace
