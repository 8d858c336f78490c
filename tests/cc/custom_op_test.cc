// labels: robust threads
// Custom operators: those of a library in plain C (tests/libs/custom_ops.c) through the C ABI, those that throw, and
// those of the C++ API.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "c_client.h"
#include "tessera/op.h"

namespace {

using namespace client;
using tiny::kFloat;
using tiny::kInt64;
using tiny::kString;
using tiny::Message;
using tiny::value;

constexpr char kLibrary[] = TESSERA_BINARY_DIR "/lib/libtest_custom_ops.so";

Message attribute(std::string_view name, int type) {
  return Message().text(1, name).number(20, static_cast<uint64_t>(type));
}
Message integer(std::string_view name, int64_t v) { return attribute(name, 2).number(3, static_cast<uint64_t>(v)); }
Message text(std::string_view name, std::string_view v) { return attribute(name, 3).text(4, v); }
Message integers(std::string_view name, const std::vector<int64_t>& v) {
  Message m = attribute(name, 7);
  for (const int64_t i : v) m.number(8, static_cast<uint64_t>(i));
  return m;
}
std::string raw(float v) { return std::string(reinterpret_cast<const char*>(&v), sizeof v); }
// Wire type 5, 32 bits.
std::string fixed(int field, float v) { return static_cast<char>(field << 3 | 5) + raw(v); }

// A node of the tests' domain.
Message node(std::string_view op, const std::vector<std::string>& in, const std::vector<std::string>& out,
             const std::vector<Message>& attributes = {}, std::string_view domain = "test.ops") {
  Message m = tiny::node(op, in, out);
  for (const Message& a : attributes) m.message(5, a);
  return m.text(7, domain);
}
std::string custom_model(const tiny::Graph& graph, int version = 1, std::string_view domain = "test.ops") {
  const Message import = Message().text(1, domain).number(2, static_cast<uint64_t>(version));
  return tiny::model(graph) + Message().message(8, import).bytes();
}
// y = op(x), both float[n,3].
std::string unary(std::string_view op, const std::vector<Message>& attributes = {}, int version = 1) {
  return custom_model({.nodes = {node(op, {"x"}, {"y"}, attributes)},
                       .inputs = {value("x", kFloat, {"n", 3})},
                       .outputs = {value("y", kFloat, {"n", 3})}},
                      version);
}

Owned<OrtSessionOptions> with_library() {
  auto o = options();
  ok(api().RegisterCustomOpsLibrary_V2(o.get(), kLibrary));
  return o;
}

std::vector<float> run_unary(OrtSession* s, std::vector<float> data = kX) {
  const auto x = tensor({static_cast<int64_t>(data.size()) / 3, 3}, data);
  OrtValue* y = nullptr;
  ok(run(s, {"x"}, {x.get()}, {"y"}, &y));
  if (!y) return {};
  const auto owned = own(y);
  return values(y);
}

std::vector<std::string> strings_of(const OrtValue* v) {
  size_t n = 1;
  for (const int64_t d : shape_of(v)) n *= static_cast<size_t>(d);
  std::vector<std::string> out(n);
  for (size_t i = 0; i < n; ++i) {
    size_t length = 0;
    ok(api().GetStringTensorElementLength(v, i, &length));
    out[i].resize(length);
    ok(api().GetStringTensorElement(v, length, i, out[i].data()));
  }
  return out;
}

// Output `index` as "[n,6]".
std::string output_shape(const OrtSession* s, size_t index = 0) {
  OrtTypeInfo* made = nullptr;
  ok(api().SessionGetOutputTypeInfo(s, index, &made));
  const auto type = own(made);
  const OrtTensorTypeAndShapeInfo* info = nullptr;
  ok(api().CastTypeInfoToTensorInfo(made, &info));
  size_t rank = 0;
  ok(api().GetDimensionsCount(info, &rank));
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank);
  ok(api().GetDimensions(info, dims.data(), rank));
  ok(api().GetSymbolicDimensions(info, names.data(), rank));
  std::string out = "[";
  for (size_t i = 0; i < rank; ++i)
    out += (i ? "," : "") + (dims[i] < 0 ? std::string(names[i]) : std::to_string(dims[i]));
  return out + "]";
}

// --- the library in C

TEST(CustomOp, TheFirstFormOfTheStruct) {
  const auto s = load(unary("Scale"), with_library().get());
  EXPECT_EQ(run_unary(s.get()), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  Message factor = attribute("factor", 1);
  const auto o = with_library();
  const std::string m = custom_model({.nodes = {Message()
                                                    .text(1, "x")
                                                    .text(2, "y")
                                                    .text(4, "Scale")
                                                    .text(5, factor.bytes() + fixed(2, -1.5f))
                                                    .text(7, "test.ops")},
                                      .inputs = {value("x", kFloat, {"n", 3})},
                                      .outputs = {value("y", kFloat, {"n", 3})}});
  EXPECT_EQ(run_unary(load(m, o.get()).get(), {2, 4, 0}), (std::vector<float>{-3, -6, 0}));
}

TEST(CustomOp, AmongOthersInTheMiddleOfAModel) {
  const auto s = load(custom_model({.nodes = {tiny::node("Relu", {"x"}, {"h"}), node("Scale", {"h"}, {"g"}),
                                              tiny::node("Add", {"g", "x"}, {"y"})},
                                    .inputs = {value("x", kFloat, {"n", 3})},
                                    .outputs = {value("y", kFloat, {"n", 3})}}),
                      with_library().get());
  EXPECT_EQ(run_unary(s.get(), {-1, 2, 3}), (std::vector<float>{-1, 6, 9}));
  EXPECT_EQ(run_unary(s.get()), (std::vector<float>{3, 6, 9, 12, 15, 18}));
}

// then: y = SumAll(x, x, x); else: y = Scale(x). Both read x from outside.
TEST(CustomOp, InTheBodyOfAnIf) {
  const auto body = [](const Message& n, std::string_view out) {
    return Message().message(1, n).text(2, "body").message(12, value(out, kFloat, {"n", 3}));
  };
  const Message then = attribute("then_branch", 5).message(6, body(node("SumAll", {"x", "x", "x"}, {"a"}), "a")),
                otherwise = attribute("else_branch", 5).message(6, body(node("Scale", {"x"}, {"b"}), "b"));
  const Message branch = tiny::node("If", {"large"}, {"y"}).message(5, then).message(5, otherwise);
  const auto s = load(custom_model({.nodes = {tiny::node("ReduceMax", {"x"}, {"most"}),
                                              tiny::node("Cast", {"most"}, {"is"}).message(5, integer("to", 9)),
                                              tiny::node("Squeeze", {"is"}, {"large"}), branch},
                                    .inputs = {value("x", kFloat, {"n", 3})},
                                    .outputs = {value("y", kFloat, {"n", 3})}}),
                      with_library().get());
  EXPECT_EQ(run_unary(s.get(), {1, 2, 3}), (std::vector<float>{3, 6, 9}));
  EXPECT_EQ(run_unary(s.get(), {-1, 0, 0}), (std::vector<float>{-2, 0, 0}));
}

TEST(CustomOp, VariadicInputs) {
  const auto of = [](const std::vector<std::string>& in) {
    return custom_model({.nodes = {node("SumAll", in, {"y"})},
                         .inputs = {value("x", kFloat, {"n", 3})},
                         .outputs = {value("y", kFloat, {"n", 3})}});
  };
  const auto o = with_library();
  EXPECT_EQ(run_unary(load(of({"x", "x", "x"}), o.get()).get()), (std::vector<float>{3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(run_unary(load(of({"x", "x", "x", "x", "x"}), o.get()).get(), {1, 2, 3}), (std::vector<float>{5, 10, 15}));
  refused(try_load(of({"x", "x"}), o.get()), ORT_INVALID_GRAPH, "at least 2");
  refused(try_load(of({"", "x", "x"}), o.get()), ORT_INVALID_GRAPH, "input 0 is absent");
}

TEST(CustomOp, OptionalArgumentsAndSeveralOutputs) {
  const auto o = with_library();
  EXPECT_EQ(run_unary(load(unary("Shift"), o.get()).get(), {1, -2, 3}), (std::vector<float>{2, -1, 4}));
  const auto s = load(custom_model({.nodes = {node("Shift", {"x", "b"}, {"y", "sign"})},
                                    .inputs = {value("x", kFloat, {"n"}), value("b", kFloat, {1})},
                                    .outputs = {value("y", kFloat, {"n"}), value("sign", kInt64, {"n"})}}),
                      o.get());
  std::vector<float> data = {1, -2}, by = {10};
  const auto x = tensor({2}, data), b = tensor({1}, by);
  OrtValue* y[2] = {};
  ok(run(s.get(), {"x", "b"}, {x.get(), b.get()}, {"y", "sign"}, y));
  const auto first = own(y[0]), second = own(y[1]);
  EXPECT_EQ(values(y[0]), (std::vector<float>{11, 8}));
  EXPECT_EQ(values<int64_t>(y[1]), (std::vector<int64_t>{0, 1}));
  refused(try_load(custom_model({.nodes = {node("Shift", {"x", "x", "x"}, {"y"})},
                                 .inputs = {value("x", kFloat, {"n"})},
                                 .outputs = {value("y", kFloat, {"n"})}}),
                   o.get()),
          ORT_INVALID_GRAPH, "at most 2");
}

TEST(CustomOp, TellsItsShapeBeforehand) {
  const auto s = load(
      custom_model({.nodes = {node("Repeat", {"x"}, {"h"}, {integer("times", 2)}), tiny::node("Relu", {"h"}, {"y"})},
                    .inputs = {value("x", kFloat, {"n", 3})},
                    .outputs = {value("y", kFloat, {"a", "b"})}}),
      with_library().get());
  EXPECT_EQ(output_shape(s.get()), "[n,6]");
  EXPECT_EQ(run_unary(s.get(), {1, 2, -3}), (std::vector<float>{1, 2, 0, 1, 2, 0}));
  refused(try_load(unary("Repeat"), with_library().get()), ORT_INVALID_ARGUMENT, "times");
  refused(try_load(unary("Repeat", {integer("times", 0)}), with_library().get()), ORT_INVALID_ARGUMENT, "at least 1");
  refused(try_load(unary("Repeat", {text("times", "two")}), with_library().get()), ORT_INVALID_ARGUMENT, "times");
}

TEST(CustomOp, Strings) {
  const auto s = load(custom_model({.nodes = {node("Join", {"x"}, {"y"})},
                                    .inputs = {value("x", kString, {"n"})},
                                    .outputs = {value("y", kString, {1})}}),
                      with_library().get());
  const auto x = new_tensor({3}, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
  const char* texts[] = {"ab", "", "cde"};
  ok(api().FillStringTensor(x.get(), texts, 3));
  OrtValue* y = nullptr;
  ok(run(s.get(), {"x"}, {x.get()}, {"y"}, &y));
  const auto owned = own(y);
  EXPECT_EQ(strings_of(y), std::vector<std::string>{"abcde"});
}

TEST(CustomOp, AnyTypeAndOneNameForSeveral) {
  const auto o = with_library();
  const auto s = load(custom_model({.nodes = {node("Same", {"x"}, {"h"}), tiny::node("Relu", {"h"}, {"y"})},
                                    .inputs = {value("x", kFloat, {"n", 3})},
                                    .outputs = {value("y", kFloat, {"a", "b"})}}),
                      o.get());
  EXPECT_EQ(output_shape(s.get()), "[n,3]");
  EXPECT_EQ(run_unary(s.get(), {1, -2, 3}), (std::vector<float>{1, 0, 3}));
  const auto count = [&](int type) {
    return load(custom_model({.nodes = {node("Count", {"x"}, {"y"})},
                              .inputs = {value("x", type, {"n"})},
                              .outputs = {value("y", kInt64, {})}}),
                o.get());
  };
  std::vector<float> floats = {1, 2, 3};
  std::vector<int64_t> ints = {1, 2};
  OrtValue* y[2] = {};
  ok(run(count(kFloat).get(), {"x"}, {tensor({3}, floats).get()}, {"y"}, &y[0]));
  ok(run(count(kInt64).get(), {"x"}, {tensor({2}, ints).get()}, {"y"}, &y[1]));
  const auto first = own(y[0]), second = own(y[1]);
  EXPECT_EQ(values<int64_t>(y[0]), std::vector<int64_t>{3});
  EXPECT_EQ(values<int64_t>(y[1]), std::vector<int64_t>{-2});
  refused(try_load(custom_model({.nodes = {node("Count", {"x"}, {"y"})},
                                 .inputs = {value("x", kString, {"n"})},
                                 .outputs = {value("y", kInt64, {})}}),
                   o.get()),
          ORT_INVALID_GRAPH, "input 0 is string");
}

TEST(CustomOp, WhatTheClientRefusesNamesTheNode) {
  const auto o = with_library();
  refused(try_load(unary("Fail", {integer("mode", 1)}), o.get()), ORT_NOT_IMPLEMENTED,
          "'to y' (test.ops.Fail): no kernel today");
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data);
  OrtValue* y = nullptr;
  refused(run(load(unary("Fail", {integer("mode", 2)}), o.get()).get(), {"x"}, {x.get()}, {"y"}, &y), ORT_ENGINE_ERROR,
          "'to y' (test.ops.Fail): no results today");
  refused(run(load(unary("Fail", {integer("mode", 3)}), o.get()).get(), {"x"}, {x.get()}, {"y"}, &y), ORT_FAIL,
          "'to y' (test.ops.Fail): the operator did not give output 0");
  EXPECT_EQ(y, nullptr);
}

TEST(CustomOp, CallsAnotherOperator) {
  const auto s = load(unary("Invoke"), with_library().get());
  EXPECT_EQ(run_unary(s.get()), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(run_unary(s.get(), {1, 2, 3}), (std::vector<float>{2, 4, 6}));
}

TEST(CustomOp, KnowsItsNode) {
  const Message w = tiny::weight("w", {2}, {42, 1});
  const Message f = Message().text(1, "f").number(20, 1);
  tiny::Graph g{.weights = {w}, .inputs = {value("x", kFloat, {"n", 3})}, .outputs = {value("y", kString, {1})}};
  Message n = tiny::node("Report", {"x", "w"}, {"y"});
  n.text(5, f.bytes() + fixed(2, 1.5f)).message(5, integer("i", 7)).message(5, text("s", "hello"));
  n.text(5, attribute("floats", 6).bytes() + fixed(7, 1) + fixed(7, 2.5f)).message(5, integers("ints", {1, 2, 3}));
  n.message(5, attribute("t", 4).message(5, tiny::weight("t", {2}, {1.5, 2.5}))).text(7, "test.ops");
  g.nodes = {n};
  const auto s = load(custom_model(g), with_library().get());
  std::vector<float> data = kX;
  OrtValue* y = nullptr;
  ok(run(s.get(), {"x"}, {tensor({2, 3}, data).get()}, {"y"}, &y));
  const auto owned = own(y);
  EXPECT_EQ(
      strings_of(y)[0],
      "string size=6;f=1.5;i=7;s=hello;float count=2;last float=2.5;last int=3;t=2.5;missing=1;inputs=2;outputs=1;"
      "first=x;node=to y;last size=3;first constant=0;second constant=1;constant=42;read ints=24;last read=9;"
      "asked=2;size=5;read=0;behind=33;size=5;wrong type=2;strings=0;size=7;between=0;square=998001;stream=0;"
      "allocator=1;");
}

TEST(CustomOp, Versions) {
  const auto o = with_library();
  EXPECT_EQ(run_unary(load(unary("Since2", {}, 2), o.get()).get()), kX);
  EXPECT_EQ(run_unary(load(unary("Since2", {}, 4), o.get()).get()), kX);
  refused(try_load(unary("Since2", {}, 1), o.get()), ORT_NOT_IMPLEMENTED, "from version 2 on");
  refused(try_load(unary("Nothing"), o.get()), ORT_NOT_IMPLEMENTED, "test.ops.Nothing");
  refused(try_load(unary("Scale")), ORT_NOT_IMPLEMENTED, "test.ops.Scale");
}

TEST(CustomOp, WaysToLoadALibrary) {
  auto o = options();
  void* handle = nullptr;
  ok(api().RegisterCustomOpsLibrary(o.get(), kLibrary, &handle));
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(run_unary(load(unary("Scale"), o.get()).get(), {1, 2, 3}), (std::vector<float>{2, 4, 6}));
  o = nullptr;
  dlclose(handle);

  refused(api().RegisterCustomOpsUsingFunction(options().get(), "RegisterTestOps"), ORT_FAIL, "RegisterTestOps");
  handle = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  o = options();
  ok(api().RegisterCustomOpsUsingFunction(o.get(), "RegisterTestOps"));
  EXPECT_EQ(run_unary(load(unary("Scale"), o.get()).get(), {1, 2, 3}), (std::vector<float>{2, 4, 6}));

  refused(api().RegisterCustomOpsLibrary_V2(o.get(), "/no/such/library.so"), ORT_FAIL, "/no/such/library.so");
  refused(api().RegisterCustomOpsLibrary_V2(o.get(), TESSERA_BINARY_DIR "/lib/libtessera.so"), ORT_FAIL,
          "RegisterCustomOps");
  refused(api().EnableOrtCustomOps(o.get()), ORT_FAIL, "RegisterCustomOpsLibrary_V2");
}

TEST(CustomOp, TheSessionKeepsItsLibrary) {
  auto o = with_library();
  OrtSessionOptions* clone = nullptr;
  ok(api().CloneSessionOptions(o.get(), &clone));
  auto copy = own(clone);
  o = nullptr;
  const auto s = load(unary("Scale"), copy.get());
  copy = nullptr;
  EXPECT_EQ(run_unary(s.get(), {1, 2, 3}), (std::vector<float>{2, 4, 6}));
}

TEST(CustomOp, ManyRunsAtOnce) {
  const auto s = load(custom_model({.nodes = {node("Scale", {"x"}, {"a"}), node("SumAll", {"a", "x", "x"}, {"b"}),
                                              node("Invoke", {"b"}, {"y"})},
                                    .inputs = {value("x", kFloat, {"n", 3})},
                                    .outputs = {value("y", kFloat, {"n", 3})}}),
                      with_library().get());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const float v = static_cast<float>(t * 100 + i);
        wrong += run_unary(s.get(), std::vector<float>(static_cast<size_t>(3 * (1 + i % 4)), v))[0] != 8 * v;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// --- an operator in C++ that throws

struct Throwing : OrtCustomOp {
  Throwing() : OrtCustomOp{} {
    version = ORT_API_VERSION;
    GetName = [](const OrtCustomOp*) { return "Throwing"; };
    GetInputTypeCount = GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
    GetInputType = GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
    CreateKernel = [](const OrtCustomOp* op, const OrtApi*, const OrtKernelInfo*) -> void* {
      if (static_cast<const Throwing*>(op)->at_creation) throw std::runtime_error("thrown at creation");
      return nullptr;
    };
    KernelCompute = [](void*, OrtKernelContext*) { throw std::runtime_error("thrown at run"); };
    KernelDestroy = [](void*) {};
  }
  bool at_creation = false;
};

TEST(CustomOp, ExceptionsBecomeStatuses) {
  Throwing op;
  OrtCustomOpDomain* domain = nullptr;
  ok(api().CreateCustomOpDomain("test.ops", &domain));
  ok(api().CustomOpDomain_Add(domain, &op));
  const auto o = options();
  ok(api().AddCustomOpDomain(o.get(), domain));
  {
    const auto s = load(unary("Throwing"), o.get());
    std::vector<float> data = kX;
    OrtValue* y = nullptr;
    refused(run(s.get(), {"x"}, {tensor({2, 3}, data).get()}, {"y"}, &y), ORT_RUNTIME_EXCEPTION,
            "'to y' (test.ops.Throwing): thrown at run");
  }
  op.at_creation = true;
  refused(try_load(unary("Throwing"), o.get()), ORT_RUNTIME_EXCEPTION,
          "'to y' (test.ops.Throwing): thrown at creation");
  api().ReleaseCustomOpDomain(domain);
}

TEST(CustomOp, RefusesIncompleteStructs) {
  OrtCustomOpDomain* domain = nullptr;
  ok(api().CreateCustomOpDomain("d", &domain));
  Throwing op;
  op.version = ORT_API_VERSION + 1;
  refused(api().CustomOpDomain_Add(domain, &op), ORT_INVALID_ARGUMENT, "version 32");
  op.version = 1;
  op.KernelCompute = nullptr;
  refused(api().CustomOpDomain_Add(domain, &op), ORT_INVALID_ARGUMENT, "KernelCompute");
  op.GetName = nullptr;
  refused(api().CustomOpDomain_Add(domain, &op), ORT_INVALID_ARGUMENT, "GetName");
  refused(api().CustomOpDomain_Add(nullptr, &op), ORT_INVALID_ARGUMENT);
  refused(api().CreateCustomOpDomain(nullptr, &domain), ORT_INVALID_ARGUMENT);
  refused(api().AddCustomOpDomain(options().get(), nullptr), ORT_INVALID_ARGUMENT);
  api().ReleaseCustomOpDomain(domain);
  api().ReleaseCustomOpDomain(nullptr);
}

// --- the C++ API

namespace op = tessera::op;

// y[n, 2 * m - keep] = x[n, m] beside itself; w[m] is added, packed as its double.
struct Beside {
  static constexpr op::About kAbout{"test.ops", "Beside"};
  explicit Beside(const op::Attributes& a)
      : keep(a.get<int64_t>("keep", 0)), mode(a.get("mode", "plain")), list(a.get("list", std::vector<int64_t>{1})) {
    if (mode == "bad") op::refuse("mode is bad");
  }
  void types(op::Types& t) const {
    t.count(1, 2);
    t.expect<float, double>(0);
    t.give(0, t.input(0));
  }
  void shape(op::Shapes& s) const {
    const op::Dims x = s.input(0, 2);
    s.set(0, {x[0], x[1] * 2 - keep});
  }
  static constexpr op::Packing kPacking{1, tessera::ElementType::f32, "doubled"};
  int64_t packed_bytes(const tessera::Shape& w) const noexcept { return w[0] * int64_t{sizeof(float)}; }
  void pack(const tessera::Shape& shape, const void* w, void* out) const noexcept {
    ++packs;
    for (int64_t i = 0; i < shape[0]; ++i) static_cast<float*>(out)[i] = 2 * static_cast<const float*>(w)[i];
  }
  void compute(op::Call& c) const {
    if (mode == "throw") throw std::runtime_error("as asked");
    const auto x = c.input<float>(0);
    const auto y = c.output<float>(0);
    const float* w = c.packed<float>(1);
    const size_t n = static_cast<size_t>(c.shape(0)[0]), m = static_cast<size_t>(c.shape(0)[1]);
    const size_t wide = 2 * m - static_cast<size_t>(keep);
    c.parallel(n, [&](size_t r) noexcept {
      for (size_t i = 0; i < wide; ++i) y[r * wide + i] = x[r * m + i % m] + (w ? w[i % m] : 0);
    });
  }
  static inline std::atomic<int> packs{0};
  int64_t keep;
  std::string mode;
  std::vector<int64_t> list;
};

tessera::Session cpp_session(const std::string& bytes, void (*add)(OrtSessionOptions*)) {
  tessera::Options options;
  options.configure = add;
  return tessera::Session(bytes.data(), bytes.size(), options);
}

std::string error_of(const std::string& bytes, void (*add)(OrtSessionOptions*)) {
  try {
    cpp_session(bytes, add);
    return "";
  } catch (const tessera::Error& e) {
    return e.what();
  }
}

std::vector<float> floats(const tessera::Value& v) {
  const auto view = v.as<float>();
  return {view.begin(), view.end()};
}

std::string beside(const std::vector<Message>& attributes, std::vector<tiny::Dim> dims = {"n", "m"}) {
  return custom_model({.nodes = {node("Beside", {"x"}, {"h"}, attributes), tiny::node("Relu", {"h"}, {"y"})},
                       .inputs = {value("x", kFloat, dims)},
                       .outputs = {value("y", kFloat, {"a", "b"})}});
}

TEST(CppOp, ShapesOverSymbolsAndNumbers) {
  tessera::Session s = cpp_session(beside({integer("keep", 1)}), op::add<Beside>);
  EXPECT_EQ(s.outputs()[0].shape[0], -1);
  EXPECT_NE(s.explain().find("[n,-1+2*m]"), std::string::npos) << s.explain();
  const tessera::Tensor x({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}), narrow({1, 1}, {5.0f});
  EXPECT_EQ(floats(s.run({{"x", x}})["y"]), (std::vector<float>{1, 2, 1, 3, 4, 3}));
  EXPECT_EQ(floats(s.run({{"x", narrow}})["y"]), (std::vector<float>{5}));
  EXPECT_EQ(cpp_session(beside({}, {"n", 4}), op::add<Beside>).outputs()[0].shape[1], 8);
}

TEST(CppOp, ErrorsNameTheNode) {
  EXPECT_EQ(error_of(beside({text("mode", "bad")}), op::add<Beside>), "node 'to h' (test.ops.Beside): mode is bad");
  EXPECT_NE(error_of(beside({integer("mode", 1)}), op::add<Beside>).find("attribute 'mode'"), std::string::npos);
  EXPECT_EQ(error_of(beside({}, {"n"}), op::add<Beside>),
            "node 'to h' (test.ops.Beside): its input 0 has rank 1, wanted rank 2");
  const std::string ints = custom_model({.nodes = {node("Beside", {"x"}, {"y"})},
                                         .inputs = {value("x", kInt64, {2, 2})},
                                         .outputs = {value("y", kInt64, {2, 4})}});
  EXPECT_EQ(error_of(ints, op::add<Beside>),
            "node 'to y' (test.ops.Beside): its input 0 is int64, wanted float or double");
  EXPECT_NE(error_of(beside({}), [](OrtSessionOptions*) {}).find("test.ops.Beside"), std::string::npos);

  tessera::Session s = cpp_session(beside({text("mode", "throw")}), op::add<Beside>);
  const tessera::Tensor x({1, 2}, {1.0f, 2.0f}), empty({1, 0}, std::vector<float>{});
  try {
    s.run({{"x", x}});
    FAIL();
  } catch (const tessera::Error& e) {
    EXPECT_STREQ(e.what(), "node 'to h' (test.ops.Beside): as asked");
  }
  tessera::Session negative = cpp_session(beside({integer("keep", 1)}), op::add<Beside>);
  EXPECT_THROW(negative.run({{"x", empty}}), tessera::Error);
}

TEST(CppOp, PacksAConstantOnceForAllSessions) {
  const std::string m = custom_model({.nodes = {node("Beside", {"x", "w"}, {"y"})},
                                      .weights = {tiny::weight("w", {2}, {10, 20})},
                                      .inputs = {value("x", kFloat, {"n", 2})},
                                      .outputs = {value("y", kFloat, {"n", 4})}});
  const std::string path = testing::TempDir() + "custom_op_test_packs.onnx";
  std::ofstream(path, std::ios::binary) << m;
  tessera::Options options;
  options.configure = op::add<Beside>;
  tessera::Session a(path, options), b(path, options);
  const tessera::Tensor x({1, 2}, {1.0f, 2.0f});
  const int before = Beside::packs;
  for (tessera::Session* s : {&a, &b, &a})
    EXPECT_EQ(floats(s->run({{"x", x}})["y"]), (std::vector<float>{21, 42, 21, 42}));
  EXPECT_EQ(Beside::packs - before, 1);
  std::remove(path.c_str());
}

// y = x under the shape in `to`: sizes come from the elements of an input.
struct Fold {
  static constexpr op::About kAbout{"test.ops", "Fold", 1, 0, 1u << 1};
  explicit Fold(const op::Attributes&) {}
  void types(op::Types& t) const {
    t.expect<float>(0);
    t.expect<int64_t>(1);
    t.give<float>(0);
  }
  void shape(op::Shapes& s) const {
    op::Dims to;
    if (s.content(1, to)) return s.set(0, to);
    const op::Dims length = s.input(1, 1);
    if (length[0].known()) s.set(0, op::Dims(static_cast<size_t>(length[0].number()), s.unknown()));
  }
  void compute(op::Call& c) const {
    const auto x = c.input<float>(0);
    const auto y = c.output<float>(0);
    if (x.size() != y.size()) op::refuse("the shapes have different numbers of elements");
    std::copy(x.begin(), x.end(), y.begin());
  }
};

// The positive elements of x, and their names if they are wanted: shapes follow from what is computed.
struct Positive {
  static constexpr op::About kAbout{"test.ops", "Positive"};
  explicit Positive(const op::Attributes& a) : node(a.node()) {}
  void types(op::Types& t) const {
    t.count(1, 1, 2);
    t.expect<float>(0);
    t.give<float>(0);
    t.give(1, tessera::ElementType::string);
  }
  void compute(op::Call& c) const {
    std::vector<float> found;
    std::vector<std::string> names;
    for (const float v : c.input<float>(0))
      if (v > 0) {
        found.push_back(v);
        names.push_back(node + ":" + std::to_string(static_cast<int>(v)));
      }
    const auto n = static_cast<int64_t>(found.size());
    std::copy(found.begin(), found.end(), c.allocate<float>(0, {n}).begin());
    c.set_strings(1, {n}, names);
  }
  std::string node;
};

TEST(CppOp, SizesFromTheContentOfAnInput) {
  const std::string m = custom_model({.nodes = {node("Fold", {"x", "to"}, {"h"}), tiny::node("Relu", {"h"}, {"y"})},
                                      .inputs = {value("x", kFloat, {"n"}), value("to", kInt64, {2})},
                                      .outputs = {value("y", kFloat, {"a", "b"})}});
  tessera::Session s = cpp_session(m, op::add<Fold, Positive, Beside>);
  const tessera::Tensor x({6}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{2, 3}, {3, 2}, {1, 6}}) {
    const tessera::Tensor to({2}, {rows, columns});
    const tessera::Outputs y = s.run({{"x", x}, {"to", to}});
    EXPECT_EQ(y["y"].shape(), (tessera::Shape{rows, columns}));
    EXPECT_EQ(floats(y["y"]), kX);
  }
  const tessera::Tensor bad({2}, {int64_t{2}, int64_t{2}}), absurd({2}, {int64_t{-2}, int64_t{3}});
  EXPECT_THROW(s.run({{"x", x}, {"to", bad}}), tessera::Error);
  EXPECT_THROW(s.run({{"x", x}, {"to", absurd}}), tessera::Error);
}

TEST(CppOp, SizesFromWhatIsComputed) {
  const std::string m =
      custom_model({.nodes = {node("Positive", {"x"}, {"h", "names"}), tiny::node("Relu", {"h"}, {"y"})},
                    .inputs = {value("x", kFloat, {"n"})},
                    .outputs = {value("y", kFloat, {"k"}), value("names", kString, {"k"})}});
  tessera::Session s = cpp_session(m, op::add<Positive>);
  const tessera::Tensor x({4}, {1.0f, -2.0f, 3.0f, 0.0f}), none({1}, {-1.0f});
  const tessera::Outputs y = s.run({{"x", x}});
  EXPECT_EQ(floats(y["y"]), (std::vector<float>{1, 3}));
  EXPECT_EQ(y["names"].strings(), (std::vector<std::string>{"to h:1", "to h:3"}));
  EXPECT_EQ(floats(s.run({{"x", none}})["y"]), std::vector<float>{});
  EXPECT_EQ(floats(s.run({{"x", x}}, {"y"})["y"]), (std::vector<float>{1, 3}));
}

// Sums that no size can be are refused, not wrapped around.
TEST(CppOp, DimsDoNotOverflow) {
  const op::Dim large(INT64_MAX);
  EXPECT_THROW(large + 1, tessera::Error);
  EXPECT_THROW(large * 2, tessera::Error);
  EXPECT_THROW(op::Dim(1) / 0, tessera::Error);
  EXPECT_EQ((op::Dim(-7) / 2).number(), -4);
  EXPECT_EQ(max(op::Dim(3), op::Dim(4)).number(), 4);
  EXPECT_TRUE(differ(op::Dim(3), op::Dim(4)));
}

TEST(CppOp, RefusesIncompleteOperators) {
  const auto o = options();
  const TesseraApi* t = TesseraGetApi(TESSERA_API_VERSION);
  TesseraOperator made = op::make<Beside>();
  made.Compute = nullptr;
  refused(t->AddOperator(o.get(), &made), ORT_INVALID_ARGUMENT, "Compute");
  made = op::make<Beside>();
  made.Pack = nullptr;
  refused(t->AddOperator(o.get(), &made), ORT_INVALID_ARGUMENT, "Pack");
  made = op::make<Beside>();
  made.size = 8;
  refused(t->AddOperator(o.get(), &made), ORT_INVALID_ARGUMENT, "size");
  made = op::make<Beside>();
  made.since_version = 3;
  made.until_version = 2;
  refused(t->AddOperator(o.get(), &made), ORT_INVALID_ARGUMENT, "version 3 to 2");
}

}  // namespace
