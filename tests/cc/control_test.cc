// labels: fast
// Bodies, sequences, optionals and trees given as tensors: what the text form of operator tests cannot say.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "formats/onnx/writer.h"
#include "session/session.h"

namespace tessera {
namespace {

using Names = std::vector<std::string_view>;

// A graph under construction, and the model around it.
class Net {
 public:
  explicit Net(int opset = 21) : opset_(opset) {}

  Net& in(std::string_view name, Fact fact) { return check(g_.input(name, std::move(fact))); }
  Net& out(std::string_view name, Fact fact = {}) {
    g_.output(name, std::move(fact));
    return *this;
  }
  template <class T>
  Net& constant(std::string_view name, Shape shape, std::vector<T> values) {
    Result<Tensor> t = tensor(std::move(shape), std::move(values));
    return check(g_.initializer(name, Weight::from(*t)));
  }
  Net& op(const char* type, Names in, Names out, std::vector<ir::Attribute> attributes = {}, const char* domain = "") {
    ir::Node n;
    n.op_type = type;
    n.domain = domain;
    n.attributes = std::move(attributes);
    return check(g_.node(std::move(n), in, out));
  }
  std::shared_ptr<ir::Graph> graph() { return g_.finish(); }

  Result<std::shared_ptr<Session>> open() {
    Model m;
    m.ir_version = 10;
    m.opsets = {{"", opset_}, {"ai.onnx.ml", 5}};
    m.graph = graph();
    TRY_ASSIGN(bytes, onnx::write_model(m));
    TRY_ASSIGN(storage, allocate_bytes(bytes.size()));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(storage->data()));
    return Session::from_bytes(storage);
  }
  Result<std::vector<Value>> run(std::vector<Value> inputs) {
    TRY_ASSIGN(session, open());
    std::vector<Value> outputs(session->outputs().size());
    TRY(session->run(inputs, outputs));
    return outputs;
  }

  template <class T>
  static Result<Tensor> tensor(Shape shape, std::vector<T> values) {
    return Tensor::of<T>(std::move(shape), values);
  }

 private:
  Net& check(Status s) {
    EXPECT_TRUE(s.ok()) << s.message();
    return *this;
  }
  ir::GraphBuilder g_;
  int opset_;
};

ir::Attribute body(std::string name, Net& net) {
  return {std::move(name), ir::AttrType::g, std::vector<std::shared_ptr<ir::Graph>>{net.graph()}, {}, {}};
}
Fact floats(std::vector<Dim> dims) { return Fact::tensor(DType::f32, std::move(dims)); }
template <class T>
Value of(Shape shape, std::vector<T> values) {
  return Value(*Net::tensor(std::move(shape), std::move(values)));
}
Value yes() {
  Result<Tensor> t = Tensor::scalar(true);
  return Value(*t);
}
const Fact kInt = Fact::tensor(DType::i64, std::vector<Dim>{}),
           kBool = Fact::tensor(DType::boolean, std::vector<Dim>{});

void expect_floats(const Value& v, Shape shape, std::vector<float> want) {
  ASSERT_TRUE(v.tensor()) << v.describe();
  EXPECT_EQ(v.tensor()->shape().str(), shape.str());
  ASSERT_EQ(v.tensor()->dtype(), DType::f32);
  const auto got = v.tensor()->values<float>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_FLOAT_EQ(got[i], want[i]) << "element " << i;
}
void expect_refused(const Result<std::vector<Value>>& r, std::string_view text) {
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.status().message().find(text), std::string::npos) << r.status().message();
}

// y = x + iterations; yields = every y; body inputs without types.
Net counting_loop(bool with_count = true) {
  Net b;
  b.in("i", {}).in("c", {}).in("a", {}).constant<float>("one", {}, {1}).op("Add", {"a", "one"}, {"y"});
  b.op("Identity", {"c"}, {"again"}).out("again").out("y", floats({2})).out("y");
  Net n;
  n.in("m", kInt).in("x", floats({2})).op("Loop", {with_count ? "m" : "", "", "x"}, {"last", "all"}, {body("body", b)});
  n.out("last", floats({2})).out("all");
  return n;
}

TEST(Loop, CountsAndStacks) {
  auto r = counting_loop().run({of<int64_t>({}, {11}), of<float>({2}, {0, 10})});
  ASSERT_TRUE(r.ok()) << r.status().message();
  expect_floats((*r)[0], {2}, {11, 21});
  ASSERT_EQ((*r)[1].tensor()->shape().str(), "[11,2]");
  EXPECT_EQ((*r)[1].tensor()->values<float>()[20], 11);
}

TEST(Loop, ZeroIterationsKeepShapes) {
  for (const int64_t m : {int64_t{0}, int64_t{-5}}) {
    auto r = counting_loop().run({of<int64_t>({}, {m}), of<float>({2}, {3, 4})});
    ASSERT_TRUE(r.ok()) << r.status().message();
    expect_floats((*r)[0], {2}, {3, 4});
    expect_floats((*r)[1], {0, 2}, {});
  }
}

TEST(Loop, WithoutEndIsCancelled) {
  auto session = counting_loop(false).open();
  ASSERT_TRUE(session.ok()) << session.status().message();
  RunOptions options;
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    options.cancel = true;
  });
  std::vector<Value> in{of<int64_t>({}, {1}), of<float>({2}, {0, 0})}, out(2);
  const Status status = (*session)->run(in, out, &options);
  stop.join();
  EXPECT_EQ(status.code(), Code::canceled) << status.message();
}

TEST(Loop, ArityIsCheckedAtLoad) {
  Net b;
  b.in("i", kInt).in("c", kBool).op("Identity", {"c"}, {"again"}).out("again");
  Net n;
  n.in("m", kInt).in("x", floats({2})).op("Loop", {"m", "", "x"}, {"y"}, {body("body", b)}).out("y");
  expect_refused(n.run({of<int64_t>({}, {1}), of<float>({2}, {0, 0})}), "'body' has 2 inputs, wanted 3");
}

TEST(Loop, YieldsOfDifferentShapesAreRefused) {
  Net grow;
  grow.in("i", kInt)
      .in("c", kBool)
      .in("a", Fact::tensor(DType::f32))
      .op("Concat", {"a", "a"}, {"y"}, {ir::Attribute::integer("axis", 0)});
  grow.op("Identity", {"c"}, {"again"}).out("again").out("y").out("y");
  Net n;
  n.in("m", kInt)
      .in("x", floats({1}))
      .op("Loop", {"m", "", "x"}, {"last", "all"}, {body("body", grow)})
      .out("last")
      .out("all");
  expect_refused(n.run({of<int64_t>({}, {2}), of<float>({1}, {0})}), "like the first");
}

TEST(If, TakesOneBranchAndAnyShape) {
  for (const bool which : {false, true}) {
    Net yes_branch, no_branch, n;
    yes_branch.op("Concat", {"w", "w"}, {"a"}, {ir::Attribute::integer("axis", 0)}).out("a");
    // The branch that is not taken would fail.
    no_branch.constant<int64_t>("shape", {1}, {1}).op("Reshape", {"x", "shape"}, {"b"}).out("b");
    n.in("c", kBool).in("x", floats({2})).op("Add", {"x", "x"}, {"w"});
    n.op("If", {"c"}, {"y"}, {body("else_branch", no_branch), body("then_branch", yes_branch)}).out("y");
    Result<Tensor> c = Tensor::scalar(which);
    auto r = n.run({Value(*c), of<float>({2}, {1, 2})});
    if (!which) {
      expect_refused(r, "1");
      continue;
    }
    ASSERT_TRUE(r.ok()) << r.status().message();
    expect_floats((*r)[0], {4}, {2, 4, 2, 4});
  }
}

TEST(If, BranchesOfDifferentTypesAreRefused) {
  Net yes_branch, no_branch, n;
  yes_branch.constant<float>("a", {}, {1}).out("a");
  no_branch.constant<int64_t>("b", {}, {1}).out("b");
  n.in("c", kBool).op("If", {"c"}, {"y"}, {body("then_branch", yes_branch), body("else_branch", no_branch)}).out("y");
  Result<Tensor> c = Tensor::scalar(false);
  expect_refused(n.run({Value(*c)}), "wanted tensor(float)");
}

// If in Loop in Scan, reading values of every level.
TEST(Bodies, Nest) {
  Net add, sub;
  add.op("Add", {"a", "x"}, {"p"}).out("p");
  sub.op("Sub", {"a", "k2"}, {"q"}).out("q");
  Net loop;
  loop.in("i", kInt).in("c", kBool).in("a", floats({1})).op("Identity", {"c"}, {"again"});
  loop.constant<int64_t>("zero", {}, {0}).op("Equal", {"i", "zero"}, {"first"});
  loop.op("If", {"first"}, {"b"}, {body("then_branch", add), body("else_branch", sub)}).out("again").out("b");
  Net scan;
  scan.in("s", floats({1})).in("x", floats({1})).op("Loop", {"m", "", "s"}, {"t"}, {body("body", loop)});
  scan.op("Mul", {"t", "x"}, {"y"}).out("t").out("y");
  Net n;
  n.in("m", kInt)
      .in("s0", floats({1}))
      .in("xs", floats({3, 1}))
      .constant<float>("k", {1}, {0.5f})
      .op("Add", {"k", "k"}, {"k2"});
  n.op("Scan", {"s0", "xs"}, {"s", "ys"}, {ir::Attribute::integer("num_scan_inputs", 1), body("body", scan)})
      .out("s")
      .out("ys");
  // Each step adds x once, then subtracts 1 twice.
  auto r = n.run({of<int64_t>({}, {3}), of<float>({1}, {0}), of<float>({3, 1}, {5, 7, 9})});
  ASSERT_TRUE(r.ok()) << r.status().message();
  expect_floats((*r)[0], {1}, {15});
  expect_floats((*r)[1], {3, 1}, {15, 56, 135});
}

TEST(Scan, AxesAndDirections) {
  Net b;
  b.in("s", floats({2}))
      .in("x", floats({2}))
      .op("Add", {"s", "x"}, {"t"})
      .op("Identity", {"t"}, {"y"})
      .out("t")
      .out("y");
  Net n;
  n.in("s0", floats({2})).in("xs", floats({2, 3}));
  n.op("Scan", {"s0", "xs"}, {"s", "ys"},
       {ir::Attribute::integer("num_scan_inputs", 1), body("body", b), ir::Attribute::integers("scan_input_axes", {-1}),
        ir::Attribute::integers("scan_input_directions", {1}), ir::Attribute::integers("scan_output_axes", {1}),
        ir::Attribute::integers("scan_output_directions", {1})});
  n.out("s").out("ys");
  auto r = n.run({of<float>({2}, {0, 0}), of<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(r.ok()) << r.status().message();
  expect_floats((*r)[0], {2}, {6, 15});
  expect_floats((*r)[1], {2, 3}, {6, 5, 3, 15, 11, 6});
}

TEST(Scan, BatchesOfDifferentLength) {
  Net b(8);
  b.in("s", floats({1}))
      .in("x", floats({1}))
      .op("Add", {"s", "x"}, {"t"})
      .op("Identity", {"t"}, {"y"})
      .out("t")
      .out("y");
  const auto net = [&](std::shared_ptr<ir::Graph> g, int64_t reverse = 0) {
    Net n(8);
    n.in("l", Fact::tensor(DType::i64, std::vector<Dim>{2})).in("s0", floats({2, 1})).in("xs", floats({2, 3, 1}));
    n.op("Scan", {"l", "s0", "xs"}, {"s", "ys"},
         {ir::Attribute::integer("num_scan_inputs", 1),
          ir::Attribute::integers("directions", {reverse}),
          {"body", ir::AttrType::g, std::vector<std::shared_ptr<ir::Graph>>{std::move(g)}, {}, {}}});
    return std::move(n.out("s").out("ys"));
  };
  const std::shared_ptr<ir::Graph> g = b.graph();
  const Value s0 = of<float>({2, 1}, {10, 20}), xs = of<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  auto r = net(g).run({of<int64_t>({2}, {3, 1}), s0, xs});
  ASSERT_TRUE(r.ok()) << r.status().message();
  expect_floats((*r)[0], {2, 1}, {16, 24});
  expect_floats((*r)[1], {2, 3, 1}, {11, 13, 16, 24, 0, 0});
  auto back = net(g, 1).run({of<int64_t>({2}, {2, 3}), s0, xs});
  ASSERT_TRUE(back.ok()) << back.status().message();
  expect_floats((*back)[1], {2, 3, 1}, {12, 13, 0, 26, 31, 35});
  expect_refused(net(g).run({of<int64_t>({2}, {3, 4}), s0, xs}), "from 0 to 3");
}

TEST(Sequence, PositionsInsertEraseConcat) {
  const auto at = [](int64_t insert, int64_t erase) {
    Net n;
    n.in("a", floats({1}))
        .in("b", floats({2}))
        .constant<int64_t>("i", {}, {insert})
        .constant<int64_t>("e", {}, {erase});
    n.op("SequenceConstruct", {"a", "a"}, {"s"})
        .op("SequenceInsert", {"s", "b", "i"}, {"t"})
        .op("SequenceErase", {"t", "e"}, {"u"});
    n.op("ConcatFromSequence", {"u"}, {"y"}, {ir::Attribute::integer("axis", 0)})
        .op("SequenceLength", {"s"}, {"n"})
        .out("y")
        .out("n");
    return n.run({of<float>({1}, {1}), of<float>({2}, {2, 3})});
  };
  auto r = at(-1, 0);
  ASSERT_TRUE(r.ok()) << r.status().message();
  expect_floats((*r)[0], {3}, {2, 3, 1});
  EXPECT_EQ((*r)[1].tensor()->values<int64_t>()[0], 2);  // the sequence inserted into is still as it was
  auto end = at(2, -2);
  ASSERT_TRUE(end.ok()) << end.status().message();
  expect_floats((*end)[0], {3}, {1, 2, 3});
  expect_refused(at(3, 0), "a sequence of 2 elements");
  expect_refused(at(-3, 0), "a sequence of 2 elements");
  expect_refused(at(0, 3), "a sequence of 3 elements");
}

TEST(Sequence, ElementsOfAnotherTypeAreRefused) {
  Net n;
  n.in("s", Fact::sequence(Fact::tensor(DType::f32)))
      .constant<int64_t>("i", {}, {0})
      .op("SequenceAt", {"s", "i"}, {"t"});
  n.op("Relu", {"t"}, {"y"}).out("y");
  auto s = std::make_shared<Sequence>();
  s->items.push_back(of<int64_t>({1}, {7}));
  expect_refused(n.run({Value(s)}), "wanted tensor(float)");
}

TEST(Sequence, NoTensorKernelTakesOne) {
  Net n;
  n.in("a", floats({1})).op("SequenceConstruct", {"a"}, {"s"}).op("Add", {"s", "s"}, {"y"}).out("y");
  expect_refused(n.run({of<float>({1}, {1})}), "no kernel");
}

TEST(Optional, EmptyAndFull) {
  Net empty;
  empty.op("Optional", {}, {"o"}, {{"type", ir::AttrType::type_proto, std::vector<Fact>{floats({2})}, {}, {}}});
  empty.op("OptionalHasElement", {"o"}, {"h"}).out("h");
  auto r = empty.run({});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_FALSE((*r)[0].tensor()->values<bool>()[0]);
  Net get;
  get.op("Optional", {}, {"o"}, {{"type", ir::AttrType::type_proto, std::vector<Fact>{floats({2})}, {}, {}}});
  get.op("OptionalGetElement", {"o"}, {"y"}).out("y");
  expect_refused(get.run({}), "empty optional");
  Net full;
  full.in("x", floats({2}))
      .op("Optional", {"x"}, {"o"})
      .op("OptionalGetElement", {"o"}, {"e"})
      .op("Relu", {"e"}, {"y"})
      .out("y");
  auto y = full.run({of<float>({2}, {-1, 1})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  expect_floats((*y)[0], {2}, {0, 1});
}

TEST(Bodies, WhatTheyPassOnIsTheCallersOwn) {
  Net yes_branch, no_branch, n;
  yes_branch.constant<float>("w", {2}, {1, 2}).out("w");
  no_branch.op("Identity", {"x"}, {"b"}).out("b");
  n.in("c", kBool)
      .in("x", floats({2}))
      .op("If", {"c"}, {"y"}, {body("then_branch", yes_branch), body("else_branch", no_branch)})
      .out("y");
  auto session = n.open();
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (int round = 0; round < 2; ++round) {
    std::vector<Value> in{yes(), of<float>({2}, {5, 6})}, out(1);
    ASSERT_TRUE((*session)->run(in, out).ok());
    expect_floats(out[0], {2}, {1, 2});
    static_cast<float*>(out[0].tensor()->mutable_data())[0] = 99;  // the model must not notice
  }
}

TEST(TreeEnsemble, Members) {
  const auto lists = [](std::vector<float> members, int64_t root) {
    const auto tensor_of = [](const char* name, auto values) {
      return ir::Attribute::tensor(name, *Net::tensor({static_cast<int64_t>(values.size())}, values));
    };
    Net n;
    n.in("x", floats({4, 1}));
    n.op("TreeEnsemble", {"x"}, {"y"},
         {ir::Attribute::integer("n_targets", 2), ir::Attribute::integers("tree_roots", {root}),
          ir::Attribute::integers("nodes_featureids", {0}), tensor_of("nodes_modes", std::vector<uint8_t>{6}),
          tensor_of("nodes_splits", std::vector<float>{0}), ir::Attribute::integers("nodes_truenodeids", {0}),
          ir::Attribute::integers("nodes_falsenodeids", {1}), ir::Attribute::integers("nodes_trueleafs", {1}),
          ir::Attribute::integers("nodes_falseleafs", {1}), ir::Attribute::integers("leaf_targetids", {0, 1}),
          tensor_of("leaf_weights", std::vector<float>{5, 7}), tensor_of("membership_values", members)},
         "ai.onnx.ml");
    n.out("y");
    return n.run({of<float>({4, 1}, {3, 1, 2, NAN})});
  };
  auto r = lists({2, 3, NAN}, 0);
  ASSERT_TRUE(r.ok()) << r.status().message();
  expect_floats((*r)[0], {4, 2}, {5, 0, 0, 7, 5, 0, 0, 7});
  expect_refused(lists({}, 0), "sets of members");
  expect_refused(lists({2, 3, NAN}, 4), "node 4");
}

}  // namespace
}  // namespace tessera
