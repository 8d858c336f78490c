// labels: data robust
// The textual syntax: printing and parsing are inverse, and any text is answered, never crashed on.
#include "ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "formats/onnx/reader.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "<ir_version: 10, opset_import: [\"\" : 17, \"ai.onnx.ml\" : 3]>\n";

std::string with_header(std::string_view rest) { return std::string(kHeader) + std::string(rest); }

Model parsed(const std::string& text) {
  Result<Model> m = parse_text(text);
  EXPECT_TRUE(m.ok()) << m.status().message() << "\n" << text.substr(0, 2000);
  return m.ok() ? std::move(*m) : Model{};
}

// print -> parse -> print changes nothing.
void expect_fixed_point(const Model& model) {
  ASSERT_TRUE(model.graph);
  const std::string once = to_text(model);
  const Result<Model> again = parse_text(once);
  ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << once.substr(0, 2000);
  EXPECT_EQ(to_text(*again), once);
}

const ir::Attribute& attribute(const Model& m, std::string_view name) {
  static const ir::Attribute* const none = new ir::Attribute;
  for (const ir::Node& n : m.graph->nodes())
    if (const ir::Attribute* a = n.find(name)) return *a;
  ADD_FAILURE() << "no attribute " << name;
  return *none;
}

std::string error_of(std::string_view text) {
  const Result<Model> m = parse_text(text);
  EXPECT_FALSE(m.ok()) << text;
  return m.status().message();
}

TEST(Text, SparseInitializers) {
  const Model m = parsed(with_header(
      "g (float[N,3] x) => (float[N,4] y) <sparse_tensor(float[3,4]) w = {float[2] {1, 2}, int64[2] {0, 5}}>\n"
      "{ y = MatMul (x, w) }"));
  expect_fixed_point(m);
  ASSERT_TRUE(m.graph->weights()[0].sparse);
  EXPECT_EQ(m.graph->weights()[0].tensor()->values<float>()[5], 2);
}

TEST(Text, TheStandardsExample) {
  const Model m = parsed(R"(
    <
      ir_version: 7,
      opset_import: [ "" : 10 ]
    >
    agraph (float[N, 128] X, float[128, 10] W, float[10] B) => (float[N, 10] C)
    {
        T = MatMul(X, W)   # a comment
        S = Add(T, B)
        C = Softmax(S)
    })");
  EXPECT_EQ(m.ir_version, 7);
  EXPECT_EQ(m.opset(""), 10);
  EXPECT_EQ(m.graph->name(), "agraph");
  ASSERT_EQ(m.graph->nodes().size(), 3u);
  EXPECT_EQ(m.graph->node(0).version, 10);
  EXPECT_EQ(m.graph->value(m.graph->inputs()[0]).fact.str(), "float[N,128]");
  EXPECT_EQ(to_text(m), R"(<
  ir_version: 7,
  opset_import: ["" : 10]
>
agraph (float[N,128] X, float[128,10] W, float[10] B) => (float[N,10] C) {
  T = MatMul (X, W)
  S = Add (T, B)
  C = Softmax (S)
}
)");
  expect_fixed_point(m);
}

TEST(Text, AttributesOfEveryKind) {
  const Model m = parsed(with_header(R"(
    g (float[2] x) => (y) {
      y = custom.Op <i = -3, f = 2.5, f_from_int: float = 1, s = "a \"quoted\" \\ text", is = [1, -2], fs = [1, 0.5],
          fs2: floats = [1, 2], ss = ["a", ""], none: ints = [], big = 9223372036854775807, t = float[3] {1, -inf, nan},
          scalar = int64 {7}, named = float[1] name = {1}, empty = float[0,3] {}, words = string[2] {"x", "y z"},
          ts = [int32[1] {4}, int8 {-5}], tp = seq(map(int64, float[N])), tps = [float, optional(int32[?,2])],
          sp = sparse_tensor(float[3,4]) {float[2] {1, 2}, int64[2] {0, 5}}, small = nan, low = -inf,
          g = body (float b) => (c) { c = Identity(b) }, gs = [one () => () {}, two () => () {}]> (x)
    }
    <domain: "custom", opset_import: ["" : 17]> Op (x) => (y) { y = Identity(x) })"));
  EXPECT_EQ(std::get<int64_t>(attribute(m, "i").value), -3);
  EXPECT_EQ(std::get<float>(attribute(m, "f").value), 2.5f);
  EXPECT_EQ(attribute(m, "f_from_int").type, ir::AttrType::f);
  EXPECT_EQ(std::get<std::string>(attribute(m, "s").value), "a \"quoted\" \\ text");
  EXPECT_EQ(std::get<std::vector<int64_t>>(attribute(m, "is").value), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(std::get<std::vector<float>>(attribute(m, "fs").value), (std::vector<float>{1, 0.5}));
  EXPECT_EQ(std::get<std::vector<float>>(attribute(m, "fs2").value), (std::vector<float>{1, 2}));
  EXPECT_EQ(std::get<std::vector<std::string>>(attribute(m, "ss").value), (std::vector<std::string>{"a", ""}));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(attribute(m, "none").value).empty());
  EXPECT_EQ(std::get<int64_t>(attribute(m, "big").value), INT64_MAX);
  const Tensor t = *std::get<std::vector<Weight>>(attribute(m, "t").value)[0].tensor();
  EXPECT_EQ(t.values<float>()[1], -INFINITY);
  EXPECT_TRUE(std::isnan(t.values<float>()[2]));
  EXPECT_EQ(std::get<std::vector<Weight>>(attribute(m, "scalar").value)[0].shape.rank(), 0);
  EXPECT_EQ(std::get<std::vector<Weight>>(attribute(m, "ts").value).size(), 2u);
  EXPECT_EQ(attribute(m, "ts").type, ir::AttrType::tensors);
  EXPECT_EQ(std::get<std::vector<Fact>>(attribute(m, "tp").value)[0].str(), "seq(map(int64,float[N]))");
  EXPECT_EQ(attribute(m, "tps").type, ir::AttrType::type_protos);
  EXPECT_EQ(std::get<std::vector<SparseWeight>>(attribute(m, "sp").value)[0].shape, (Shape{3, 4}));
  EXPECT_TRUE(std::isnan(std::get<float>(attribute(m, "small").value)));
  EXPECT_EQ(attribute(m, "g").type, ir::AttrType::g);
  EXPECT_EQ(std::get<std::vector<std::shared_ptr<ir::Graph>>>(attribute(m, "gs").value).size(), 2u);
  expect_fixed_point(m);
}

TEST(Text, ConstantsOfEveryType) {
  const Model m = parsed(with_header(R"(
    g () => (y) <
      float[2] a = {0.1, 1e-45}, double[2] b = {0.1, 5e-324}, int8[2] c = {-128, 127}, uint8[1] d = {255},
      int16[1] e = {-32768}, uint16[1] f = {65535}, int32[1] g = {-2147483648}, uint32[1] h = {4294967295},
      int64[1] i = {-9223372036854775808}, uint64[1] j = {18446744073709551615}, bool[2] k = {0, 1},
      float16[2] l = {15360, 31744}, bfloat16[1] m = {16256}, float8e4m3fn[1] n = {56}, float8e8m0[1] o = {127},
      complex64[2] p = {1, 2, 3, 4}, complex128 q = {1, -0.5}, int4[3] r = {33, 15}, uint2[5] s = {228, 1},
      float4e2m1[2] t = {18}, string[2] u = {"", "two
lines"}, float[0] v = {}, float w = {-0}
    > { y = Identity (a) })"));
  const auto value = [&](std::string_view name) { return *m.graph->weight_of(m.graph->find(name))->tensor(); };
  EXPECT_EQ(value("a").values<float>()[1], std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(value("b").values<double>()[1], std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(value("h").values<uint32_t>()[0], UINT32_MAX);
  EXPECT_EQ(value("j").values<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(value("u").values<std::string>()[1], "two\nlines");
  EXPECT_TRUE(std::signbit(value("w").values<float>()[0]));
  expect_fixed_point(m);
}

TEST(Text, NamesThatNeedQuotes) {
  const Model m = parsed(with_header(R"(
    "my graph" (float["a+b", "", 3] "x/y:0", float[2] "float") => (float[] "Infinity") <float[1] "nan" = {1}> {
      ["node 1"] "", "o.1" = "my-domain.x"."Odd Op":"v 1" <"odd attribute" = 1, k = "then-branch" () => () { }> ("float", "", "nan")
      [] "Infinity" = Identity(,"o.1")
    }
    <domain: "my-domain.x", overload: "v 1", opset_import: ["" : 17]> "Odd Op" <"odd attribute", k> (a, b, c) => (d, e) {
      d = Identity(a)
      e = Identity(a)
    })"));
  ASSERT_TRUE(m.graph);
  EXPECT_EQ(m.graph->name(), "my graph");
  EXPECT_EQ(m.graph->node(0).domain, "my-domain.x");
  EXPECT_EQ(m.graph->node(0).op_type, "Odd Op");
  EXPECT_EQ(m.graph->node(0).overload, "v 1");
  EXPECT_EQ(m.graph->node(0).outputs[0], ir::kNone);
  EXPECT_EQ(m.graph->node(0).inputs[1], ir::kNone);
  EXPECT_EQ(m.graph->node(1).inputs[0], ir::kNone);
  expect_fixed_point(m);
}

TEST(Text, ScopesAndFunctions) {
  const Model m = parsed(with_header(R"(
    g (bool c, float[N] x, float[2] d = {1, 2}) => (float[N] y) <float[N] t> {
      t = Relu(x)
      y = If (c) <then_branch = a () => (float[N] p) { p = com.f.Double <k = 3.0> (t) },
                  else_branch = b () => (float[N] q) <float[2] w = {1, 2}> { q = Add(t, w) }>
    }
    <domain: "com.f", opset_import: ["" : 17]> Double <k, scale: float = 2> (X) => (Y) {
      s = Constant <value_float: float = @scale> ()
      Y = Mul(X, s)
    })"));
  ASSERT_EQ(m.functions.size(), 1u);
  EXPECT_EQ(m.functions[0].attribute_names, std::vector<std::string>{"k"});
  EXPECT_EQ(m.functions[0].attribute_defaults[0].name, "scale");
  EXPECT_EQ(m.functions[0].body->node(0).attributes[0].ref, "scale");
  EXPECT_EQ(m.graph->value(m.graph->find("d")).source, ir::Source::initializer);
  EXPECT_TRUE(m.graph->value(m.graph->find("d")).is_input);
  expect_fixed_point(m);
}

TEST(Text, ExternalDataKeepsItsPlace) {
  const Model m = parsed(with_header(
      R"(g () => (y) <float[2] w = ["location": "w.bin", "offset": "4096", "length": "8"]> { y = Identity(w) })"));
  EXPECT_EQ(m.graph->weights()[0].location, "w.bin");
  EXPECT_EQ(m.graph->weights()[0].location_offset, 4096u);
  EXPECT_FALSE(m.graph->weights()[0].tensor().ok());
  EXPECT_EQ(to_text(parsed(to_text(m))), to_text(m));
}

TEST(Text, GraphOnItsOwn) {
  const auto g =
      parse_graph_text("g (float[?] x) => (y) { y = Relu(x) }", std::vector{std::pair<std::string, int64_t>("", 14)});
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ((*g)->node(0).version, 14);
  EXPECT_EQ(to_text(**g), "g (float[?] x) => (y) {\n  y = Relu (x)\n}\n");
  EXPECT_FALSE(parse_graph_text("g () => () { } more").ok());
}

TEST(Text, LongConstantsAreCutOnRequest) {
  const Model m = parsed(with_header("g () => (y) <int64[4] w = {1, 2, 3, 4}> { y = Identity(w) }"));
  TextOptions options;
  options.most_elements = 2;
  const std::string text = to_text(m, options);
  EXPECT_NE(text.find("w = {1, 2, ...}"), text.npos) << text;
  EXPECT_NE(error_of(text).find("got '.'"), std::string::npos) << error_of(text);
  options.most_elements = 4;
  EXPECT_EQ(to_text(m, options), to_text(m));
}

TEST(Text, ErrorsSayWhereAndWhatWasWanted) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "line 1, column 1: got the end of the text, wanted '<'"},
      {"<ir_version: 10, opset: 1>", "line 1, column 18: got 'opset', wanted ir_version,"},
      {"<ir_version: 10>\ng (float[2 x) => () {}", "line 2, column 12: got 'x', wanted ',' or ']'"},
      {"<ir_version: 10> g () => () { y Relu(x) }", "column 33: got 'Relu', wanted ',' or '='"},
      {"<ir_version: 10> g () => () { ; }", "column 31: got ';', wanted a node or '}'"},
      {"<ir_version: 99> g () => () { }", "got ir_version 99, wanted ir_version 1 to 14"},
      {"<ir_version: 10> g () = () { }", "column 23: got '=', wanted '=>'"},
      {"<ir_version: 10> g () => (float[2] y) <float[2] y = {1}> { }", "got 1 values, wanted 2"},
      {"<ir_version: 10> g () => () <float[1] y = {1, 2}> { }", "got '2', wanted '}' after 1 values"},
      {"<ir_version: 10> g () => () <float[N] y = {1}> { }", "got float[N], wanted a tensor type whose dimensions"},
      {"<ir_version: 10> g () => () <uint8[1] y = {256}> { }", "got '256', wanted 8 bits"},
      {"<ir_version: 10> g () => () <int64[1] y = {1.5}> { }", "got '1.5', wanted an integer of 64 bits"},
      {"<ir_version: 10> g () => () <float[1] y = {1e99}> { }", "got '1e99', wanted a number"},
      {"<ir_version: 10> g () => () <float[9999999999,9999999999] y = {1}> { }", "wanted a shape whose bytes"},
      {"<ir_version: 10> g (float x) => (y) { y = Relu(x) }", "its domain '' is not imported"},
      {"<ir_version: 10, opset_import: [\"\": 1]> g () => (y) { y = Relu(x) }", "input 'x' is defined nowhere"},
      {"<ir_version: 10, opset_import: [\"\": 1, \"\": 2]> g () => () { }", "wanted one version, 1"},
      {"<ir_version: 10, opset_import: [\"\": 1]> g (float x) => () { x = Relu(x) }", "line 1, column"},
      {"<ir_version: 10> g () => () { = Op <a = [1, \"x\"]> () }", "got a value of type string, wanted a list of one"},
      {"<ir_version: 10> g () => () { = Op <a = []> () }", "got an empty list, wanted its type"},
      {"<ir_version: 10> g () => () { = Op <a: int = 1.5> () }", "got a value of type float, wanted int"},
      {"<ir_version: 10> g () => () { = Op <a = 1, a = 2> () }", "got attribute 'a' again"},
      {"<ir_version: 10> g () => () { = Op <a = \"x> () }", "got a quoted text without end"},
      {"<ir_version: 10> g () => () { = Op <a = 9223372036854775808> () }", "wanted an integer of 64 bits"},
      {"<ir_version: 10> g (tensor x) => () { }", "got 'x', wanted"},
      {"<ir_version: 10> g (seq(nothing) x) => () { }", "got 'nothing', wanted a type"},
  };
  for (const auto& [text, wanted] : cases)
    EXPECT_NE(error_of(text).find(wanted), std::string::npos) << text << "\n" << error_of(text);
}

TEST(Text, DepthIsLimited) {
  const auto repeat = [](std::string_view s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  const auto types = [&](int n) {
    return with_header("g (" + repeat("seq(", n) + "float" + repeat(")", n) + " x) => () { }");
  };
  EXPECT_TRUE(parse_text(types(64)).ok());
  EXPECT_NE(error_of(types(65)).find("at most 64 levels"), std::string::npos);
  EXPECT_FALSE(parse_text(types(200000)).ok());
  const auto graphs = [&](int n) {
    return with_header("g () => () { " + repeat("= If <then_branch = g () => () { ", n) + repeat("}> ()", n) + "}");
  };
  EXPECT_TRUE(parse_text(graphs(64)).ok());
  EXPECT_NE(error_of(graphs(65)).find("at most 64 levels"), std::string::npos);
  EXPECT_FALSE(parse_text(graphs(100000)).ok());
}

// Every prefix of a text, and the text with each byte changed, gives a model or a status.
TEST(Text, AnyTextIsAnswered) {
  const std::string text = with_header(R"(g (float[N,2] x) => (y) <float[2] w = {1, 2.5e3}, int4[3] v = {1, 2}> {
      [n] y = a.Op:o <t = float[1] {nan}, s = "\"", g = b () => () { }, r: int = @q, l = [1, 2]> (x, , w) }
      <domain: "a", opset_import: ["": 17]> Op <q: int = 1> (a, b, c) => (d) { d = Identity(a) })");
  ASSERT_TRUE(parse_text(text).ok()) << parse_text(text).status().message();
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(parse_text(std::string_view(text).substr(0, n)).ok()) << n;
    for (const char c : {'\0', '"', '<', '}', '(', ',', '9', '-', 'a', '\xff'}) {
      std::string changed = text;
      changed[n] = c;
      if (const Result<Model> m = parse_text(changed); m.ok()) to_text(*m);
    }
  }
}

// The models of the tree. (Those of the ONNX backend go through tests/compat/text_syntax.py.)
TEST(Text, ModelsOfTheTreeAreFixedPoints) {
  const fs::path models = fs::path(TESSERA_SOURCE_DIR) / "tests/models";
  int count = 0;
  for (const char* folder : {"samples", "demo"})
    for (const auto& e : fs::directory_iterator(models / folder)) {
      if (e.path().extension() != ".onnx" || e.path().stem() == "external") continue;
      SCOPED_TRACE(e.path().string());
      auto bytes = map_file(e.path().string());
      ASSERT_TRUE(bytes.ok());
      ExternalData nothing;
      const Result<Model> model = onnx::read_model(*bytes, nothing);
      ASSERT_TRUE(model.ok()) << model.status().message();
      expect_fixed_point(*model);
      ++count;
    }
  EXPECT_GE(count, 11);
}

}  // namespace
}  // namespace tessera
