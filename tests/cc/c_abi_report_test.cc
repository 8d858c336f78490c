// labels: robust
// What a session reports beside its results: which provider runs which node, the times of a single run, and what a
// model says about the providers it was compiled for.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "c_libraries.h"

namespace {

using namespace client;
namespace fs = std::filesystem;

class ReportTest : public LibraryTest {
 protected:
  Owned<OrtSession> session(std::initializer_list<std::pair<const char*, const char*>> config = {}) const {
    OrtSessionOptions* o = nullptr;
    good(c().CreateSessionOptions(&o));
    good(c().SetSessionGraphOptimizationLevel(o, ORT_DISABLE_ALL));
    for (const auto& [key, value] : config) good(c().AddSessionConfigEntry(o, key, value));
    const std::string model = tiny::add_relu();
    OrtSession* s = nullptr;
    good(c().CreateSessionFromArray(lib().env, model.data(), model.size(), o, &s));
    c().ReleaseSessionOptions(o);
    return own(s, c());
  }
};

TEST_P(ReportTest, SaysWhichProviderRunsWhichNode) {
  const auto s = session({{"session.record_ep_graph_assignment_info", "1"}});
  const OrtEpAssignedSubgraph* const* parts = nullptr;
  size_t count = 0;
  good(c().Session_GetEpGraphAssignmentInfo(s.get(), &parts, &count));
  ASSERT_EQ(count, 2u);
  std::vector<std::string> seen;
  for (size_t i = 0; i < count; ++i) {
    const char* text = nullptr;
    good(c().EpAssignedSubgraph_GetEpName(parts[i], &text));
    EXPECT_STREQ(text, "CPUExecutionProvider");
    const OrtEpAssignedNode* const* nodes = nullptr;
    size_t node_count = 0;
    good(c().EpAssignedSubgraph_GetNodes(parts[i], &nodes, &node_count));
    ASSERT_EQ(node_count, 1u);
    good(c().EpAssignedNode_GetOperatorType(nodes[0], &text));
    std::string line = text;
    good(c().EpAssignedNode_GetName(nodes[0], &text));
    line += std::string(" ") + text;
    good(c().EpAssignedNode_GetDomain(nodes[0], &text));
    seen.push_back(line + " " + text);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"Add to sum ", "Relu to positive "}));
}

TEST_P(ReportTest, RecordsNothingUnasked) {
  const auto s = session();
  const OrtEpAssignedSubgraph* const* parts = nullptr;
  size_t count = 0;
  bad(c().Session_GetEpGraphAssignmentInfo(s.get(), &parts, &count), ORT_FAIL,
      "session.record_ep_graph_assignment_info");
}

TEST_P(ReportTest, WritesTheTimesOfOneRun) {
  const auto s = session();
  const fs::path folder = fs::path(testing::TempDir()) / (std::string("tessera_run_profile_") + lib().name);
  fs::remove_all(folder);
  fs::create_directory(folder);
  OrtRunOptions* made = nullptr;
  good(c().CreateRunOptions(&made));
  const auto o = own(made, c());
  good(c().RunOptionsEnableProfiling(o.get(), (folder / "one").c_str()));
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data, c());
  OrtValue* y = nullptr;
  good(run(s.get(), {"x"}, {x.get()}, {"sum"}, &y, o.get(), c()));
  c().ReleaseValue(y);
  good(c().RunOptionsDisableProfiling(o.get()));
  y = nullptr;
  good(run(s.get(), {"x"}, {x.get()}, {"sum"}, &y, o.get(), c()));
  c().ReleaseValue(y);
  std::vector<fs::path> files(fs::directory_iterator(folder), {});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].filename().string().rfind("one", 0), 0u);
  EXPECT_EQ(files[0].extension(), ".json");
  std::ifstream file(files[0]);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(text.find("Add"), std::string::npos) << text;
  fs::remove_all(folder);
}

TEST_P(ReportTest, FindsNoCompatibilityInAPlainModel) {
  const std::string model = tiny::add_relu();
  char* text = nullptr;
  good(c().GetCompatibilityInfoFromModelBytes(model.data(), model.size(), "SomeProvider", allocator(c()), &text));
  EXPECT_EQ(text, nullptr);
  refused(c().GetCompatibilityInfoFromModelBytes("abc", 3, "SomeProvider", allocator(c()), &text));
  refused(c().GetCompatibilityInfoFromModelBytes(model.data(), model.size(), "", allocator(c()), &text));
  refused(c().GetCompatibilityInfoFromModel("/nowhere/model.onnx", "SomeProvider", allocator(c()), &text));
  std::string told = model;
  told +=
      tiny::Message().message(14, tiny::Message().text(1, "ep_compatibility_info.SomeProvider").text(2, "v7")).bytes();
  good(c().GetCompatibilityInfoFromModelBytes(told.data(), told.size(), "SomeProvider", allocator(c()), &text));
  ASSERT_NE(text, nullptr);
  EXPECT_STREQ(text, "v7");
  good(c().AllocatorFree(allocator(c()), text));
}

TEST_P(ReportTest, AttributesAreNumbersAndTexts) {
  std::vector<float> data = {1};
  const auto x = tensor({1}, data, c());
  OrtOpAttr* a = nullptr;
  OrtStatus* status = c().CreateOpAttr("value", x.get(), 1, ORT_OP_ATTR_TENSOR, &a);
  ASSERT_NE(status, nullptr);
  bad(status, c().GetErrorCode(status), "AddInitializerToGraph");
  EXPECT_EQ(a, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Libraries, ReportTest, testing::Range<size_t>(0, libraries().size()), library_name);

}  // namespace
