// labels: robust
// What the extension table tells of nodes, times and values inside a model.
#include <gtest/gtest.h>

#include "c_client.h"
#include "tessera/extension.h"

namespace {

using namespace client;

const TesseraApi& table() { return *TesseraGetApi(4); }

TEST(Insight, NodesAreListedInAnOrderThatRuns) {
  const auto s = load(tiny::swapping(8, 3));
  char* json = nullptr;
  ok(table().SessionGetNodes(s.get(), allocator(), &json));
  const std::string text = taken(json);
  const size_t first = text.find(R"("inputs":["x","w"],"outputs":["h1"])"), last = text.find(R"("outputs":["y"])");
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_NE(last, std::string::npos) << text;
  EXPECT_LT(first, last);
  EXPECT_NE(text.find(R"("op":"MatMul")"), std::string::npos) << text;
  refused(table().SessionGetNodes(nullptr, allocator(), &json), ORT_INVALID_ARGUMENT, "session");
  refused(table().SessionGetNodes(s.get(), nullptr, &json), ORT_INVALID_ARGUMENT, "allocator");
  refused(table().SessionGetNodes(s.get(), allocator(), nullptr), ORT_INVALID_ARGUMENT, "json");
}

TEST(Insight, ATimedRunTellsOfEveryStep) {
  const auto s = load(tiny::swapping(8, 3));
  std::vector<float> data(8, 1);
  const auto x = tensor({1, 8}, data);
  const char *in[] = {"x"}, *out[] = {"y"};
  const OrtValue* inputs[] = {x.get()};
  OrtValue* y = nullptr;
  char* json = nullptr;
  ok(table().RunTimed(s.get(), nullptr, in, inputs, 1, out, 1, &y, allocator(), &json));
  const std::string text = taken(json);
  EXPECT_EQ(text.rfind(R"([{"name":"model_run","start":0,"duration":)", 0), 0u) << text;
  size_t steps = 0;
  for (size_t at = text.find("\"op\""); at != std::string::npos; at = text.find("\"op\"", at + 1)) ++steps;
  EXPECT_EQ(steps, 3u) << text;
  EXPECT_EQ(values(y), data);
  api().ReleaseValue(y);
  y = nullptr;
  refused(table().RunTimed(s.get(), nullptr, in, inputs, 1, out, 1, &y, allocator(), nullptr), ORT_INVALID_ARGUMENT);
  refused(table().RunTimed(s.get(), nullptr, out, inputs, 1, out, 1, &y, allocator(), &json), ORT_INVALID_ARGUMENT);
  EXPECT_EQ(y, nullptr);
}

TEST(Insight, TappedValuesAreOutputs) {
  const auto o = options();
  ok(api().AddSessionConfigEntry(o.get(), "session.tapped_values", "h2\nh1"));
  const auto s = load(tiny::swapping(8, 3), o.get());
  size_t count = 0;
  ok(api().SessionGetOutputCount(s.get(), &count));
  EXPECT_EQ(count, 3u);
  std::vector<float> data{0, 1, 2, 3, 4, 5, 6, 7};
  const auto x = tensor({1, 8}, data);
  OrtValue* h = nullptr;
  ok(run(s.get(), {"x"}, {x.get()}, {"h2"}, &h));
  EXPECT_EQ(values(h), data);
  api().ReleaseValue(h);

  const auto all = options();
  ok(api().AddSessionConfigEntry(all.get(), "session.tapped_values", "*"));
  ok(api().SessionGetOutputCount(load(tiny::swapping(8, 5), all.get()).get(), &count));
  EXPECT_EQ(count, 5u);
}

TEST(Insight, AValueThatIsNotThereIsRefused) {
  const auto o = options();
  ok(api().AddSessionConfigEntry(o.get(), "session.tapped_values", "h9"));
  const std::string model = tiny::swapping(8, 3);
  OrtSession* s = nullptr;
  refused(api().CreateSessionFromArray(env(), model.data(), model.size(), o.get(), &s), ORT_INVALID_ARGUMENT, "'h9'");
}

}  // namespace
