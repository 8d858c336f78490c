// labels: fast
// What inference finds out about shapes: in bodies, out of them, and in whole transformers with dynamic axes.
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "ops/resolve.h"
#include "passes/infer.h"
#include "session/session.h"

namespace tessera {
namespace {

Model inferred(std::string_view graph) {
  Result<Model> m = parse_text("<ir_version: 10, opset_import: [\"\" : 18]>\n" + std::string(graph));
  EXPECT_TRUE(m.ok()) << m.status().message();
  if (!m.ok()) return {};
  Status s = resolve(*m->graph, {});
  if (s.ok()) s = infer(*m->graph);
  EXPECT_TRUE(s.ok()) << s.message();
  return std::move(*m);
}

bool is_unknown(std::string_view text) {
  return text.find("unknown_") != text.npos || text.find("...") != text.npos || text == "?";
}

// The fact of a value of the graph, or of a body in it. Dimensions that nobody knows are "_".
std::string fact_of(const ir::Graph& graph, std::string_view name) {
  if (const ir::ValueId id = graph.find(name); id != ir::kNone) {
    std::string text = graph.value(id).fact.str();
    for (size_t at; (at = text.find("unknown_")) != text.npos;) {
      const size_t end = text.find_first_not_of("0123456789", at + 8);
      text.replace(at, end - at, "_");
    }
    return text;
  }
  std::string found;
  for (const ir::Node& n : graph.nodes())
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
      if (found.empty()) found = fact_of(*sub, name);
    });
  return found;
}

TEST(Shapes, QuestionMarksAreDifferentDimensions) {
  Model m;
  m.ir_version = 10;
  m.opsets = {{"", 18}};
  ir::GraphBuilder g;
  const Dim any = g.dims().symbol("?"), name = g.dims().symbol("unk__1");
  ASSERT_TRUE(g.input("x", Fact::tensor(DType::f32, std::vector<Dim>{any, any, name, name})).ok());
  g.output("x", {});
  m.graph = g.finish();
  auto bytes = onnx::write_model(m);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto session = Session::from_bytes(borrow_bytes(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<Dim>& dims = *(*session)->inputs()[0].fact.shape;
  EXPECT_FALSE(dims[0] == dims[1]);
  EXPECT_TRUE(dims[2] == dims[3]);
  EXPECT_EQ(dims[2].str(), "unk__1");
}

TEST(Shapes, LoopKeepsWhatItsBodyKeeps) {
  const Model m = inferred(R"(g (int64 n, float[batch,8] x, float[batch,k] grows) => (last, more, all) {
    last, more, all = Loop <body = b (int64 i, bool c, a, z) => (again, a2, z2, y) {
      again = Identity (c)
      a2 = Relu (a)
      z2 = Concat <axis = 1> (z, a)
      y = Transpose (a2)
    }> (n, , x, grows)
  })");
  EXPECT_EQ(fact_of(*m.graph, "a2"), "float[batch,8]");
  EXPECT_EQ(fact_of(*m.graph, "z"), "float[batch,_]");
  EXPECT_EQ(fact_of(*m.graph, "z2"), "float[batch,8+_]");
  EXPECT_EQ(fact_of(*m.graph, "last"), "float[batch,8]");
  EXPECT_EQ(fact_of(*m.graph, "more"), "float[batch,_]");
  EXPECT_EQ(fact_of(*m.graph, "all"), "float[_,8,batch]");
}

TEST(Shapes, LoopGivesUpARankThatChanges) {
  const Model m = inferred(R"(g (int64 n, float[a] x, float[b] w) => (last, same) {
    last, same = Loop <body = b (int64 i, bool c, v, u) => (again, v2, u2) {
      again = Identity (c)
      axis = Constant <value_ints = [0]> ()
      v2 = Unsqueeze (v, axis)
      u2 = Exp (u)
    }> (n, , x, w)
  })");
  EXPECT_EQ(fact_of(*m.graph, "v2"), "float[...]");
  EXPECT_EQ(fact_of(*m.graph, "last"), "float[...]");
  EXPECT_EQ(fact_of(*m.graph, "same"), "float[b]");
}

TEST(Shapes, LoopsInLoops) {
  const Model m = inferred(R"(g (int64 n, float[a,3] x, float[b,3] w) => (last) {
    last = Loop <body = outer (int64 i, bool c, v) => (again, v2) {
      again = Identity (c)
      v2 = Loop <body = inner (int64 j, bool d, u) => (more, u2) {
        more = Identity (d)
        u2 = Concat <axis = 0> (u, w)
      }> (n, , v)
    }> (n, , x)
  })");
  EXPECT_EQ(fact_of(*m.graph, "u"), "float[_,3]");
  EXPECT_EQ(fact_of(*m.graph, "u2"), "float[b+_,3]");
  EXPECT_EQ(fact_of(*m.graph, "last"), "float[_,3]");
}

TEST(Shapes, ScanTakesAxesAwayAndPutsThemBack) {
  const Model m = inferred(R"(g (float[batch,h] state, float[batch,time,f] x, float[f,h] w) => (last, all) {
    last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], body = b (s, e) => (s2, y) {
      p = MatMul (e, w)
      s2 = Add (s, p)
      y = Relu (s2)
    }> (state, x)
  })");
  EXPECT_EQ(fact_of(*m.graph, "e"), "float[batch,f]");
  EXPECT_EQ(fact_of(*m.graph, "s2"), "float[batch,h]");
  EXPECT_EQ(fact_of(*m.graph, "last"), "float[batch,h]");
  EXPECT_EQ(fact_of(*m.graph, "all"), "float[batch,time,h]");
}

TEST(Shapes, BranchesOfAnIfThatAgree) {
  const Model m = inferred(R"(g (bool c, float[batch,n] x, float[batch,k] z) => (same, other) {
    same, other = If (c) <then_branch = t () => (a, b) { a = Relu (x) b = Relu (x) },
                          else_branch = e () => (p, q) { p = Neg (x) q = Neg (z) }>
  })");
  EXPECT_EQ(fact_of(*m.graph, "same"), "float[batch,n]");
  EXPECT_EQ(fact_of(*m.graph, "other"), "float[batch,_]");
}

int count_unknown(const ir::Graph& g) {
  int count = 0;
  for (const ir::Node& n : g.nodes())
    for (const ir::ValueId v : n.outputs)
      if (!n.dead && v != ir::kNone && is_unknown(g.value(v).fact.str())) {
        ADD_FAILURE() << n.op_type << " " << g.value(v).name << " is " << g.value(v).fact.str();
        ++count;
      }
  return count;
}

// Exported with dynamic axes: every shape in them follows from the batch, the sequence and the cache.
TEST(Shapes, TransformersAreFullyInferred) {
  int models = 0;
  for (const auto& e : std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/tests/models/shapes")) {
    SCOPED_TRACE(e.path().filename().string());
    for (const int level : {0, 99}) {
      SessionOptions options;
      options.optimization_level = level;
      auto session = Session::open(e.path().string(), options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      EXPECT_EQ(count_unknown(*(*session)->loaded().model.graph), 0);
    }
    ++models;
  }
  EXPECT_EQ(models, 4);
}

}  // namespace
}  // namespace tessera
