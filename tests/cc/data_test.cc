// labels: data
// Runs tests/ops/*.test. Every case is multiplied over the types its file names, every version of the operator,
// constants or inputs, fixed or symbolic shapes, and CPU targets; each combination runs with 1, 2 and 7 threads and
// twice, and all of those runs must agree bit for bit. By default a seeded sample that covers every pair of axis values
// runs; TESSERA_TEST_ALL=1 runs the whole product.
//
// TESSERA_TEST_LIBRARY=FILE runs the cases through that library instead, as a client, from .onnx and from .ort;
// TESSERA_TEST_OPS=LIST (in the syntax of src/ops/ops.txt) says which operators it has, if not all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "common/compare.h"
#include "core/convert.h"
#include "formats/onnx/writer.h"
#include "formats/ort/writer.h"
#include "ops/op.h"
#include "ops/resolve.h"
#include "ops/signatures.h"
#include "other_library.h"
#include "session/session.h"
#include "test_file.h"

namespace tessera::testing {
namespace {

// One value per axis.
struct Combination {
  std::vector<DType> types;  // per TypeAxis
  int opset = 0;
  bool constants = false, symbolic = false;
  Target target = Target::scalar;

  std::string str() const {
    std::string out = format("opset {}", opset);
    for (const DType t : types) out += format(" {}", name_of(t));
    return out + (constants ? " constants" : " inputs") + (symbolic ? " symbolic " : " fixed ") +
           std::string(target_name(target));
  }
};

std::vector<Target> targets() {
  std::vector<Target> out;
  for (const Target t : {Target::scalar, Target::sse4, Target::neon, Target::avx2, Target::avx3})
    if (t == Target::scalar || (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)))
      out.push_back(t);
  return out;
}

// The library of TESSERA_TEST_LIBRARY; null: this program's own.
const OtherLibrary* other_library() {
  static const OtherLibrary* const library = [] {
    const char* path = std::getenv("TESSERA_TEST_LIBRARY");
    return path ? new OtherLibrary(path) : nullptr;
  }();
  return library;
}

// "domain:Name" of the operators that are tested; empty: all.
std::set<std::string> operators_to_test() {
  std::set<std::string> out;
  const char* path = std::getenv("TESSERA_TEST_OPS");
  if (!path) return out;
  std::ifstream in(path);
  if (!in) {
    std::fprintf(stderr, "TESSERA_TEST_OPS: %s cannot be read\n", path);
    std::exit(2);
  }
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    if (line.empty() || line[0] == '#' || !(words >> word)) continue;
    while (words >> word) out.insert(word.find(':') == word.npos ? ":" + word : word);
  }
  return out;
}

class CaseTest : public ::testing::Test {
 public:
  CaseTest(const TestFile& file, const TestCase& test_case) : file_(file), case_(test_case) {}

  void TestBody() override {
    newest_ = spec::find_signature(file_.domain, file_.op, 1 << 20);
    ASSERT_TRUE(newest_ || find_op(file_.domain, file_.op)) << file_.op << " is not an operator";
    std::vector<Combination> all = combinations();
    ASSERT_FALSE(all.empty()) << "no version of the operator takes these types";
    if (!std::getenv("TESSERA_TEST_ALL")) all = pairwise(all);
    for (const Combination& c : all) {
      SCOPED_TRACE(c.str());
      run(c);
      if (HasFatalFailure()) return;
    }
  }

 private:
  DType type_of(const Literal& arg, const Combination& c) const {
    if (arg.dtype) return *arg.dtype;
    for (size_t k = 0; k < file_.types.size(); ++k) {
      const auto& names = file_.types[k].arguments;
      if (std::find(names.begin(), names.end(), arg.name) != names.end()) return c.types[k];
    }
    return DType::f32;
  }

  // Position of an argument of the newest signature; outputs after inputs. Operators that left the standard have no
  // names for them: in0, in1, out0.
  std::optional<std::pair<bool, int>> position(const std::string& name) const {
    if (!newest_) {
      if (name.starts_with("in")) return std::pair(true, std::atoi(name.c_str() + 2));
      if (name.starts_with("out")) return std::pair(false, std::atoi(name.c_str() + 3));
      return {};
    }
    for (size_t i = 0; i < newest_->inputs().size(); ++i)
      if (newest_->inputs()[i].name() == name) return std::pair(true, static_cast<int>(i));
    for (size_t i = 0; i < newest_->outputs().size(); ++i)
      if (newest_->outputs()[i].name() == name) return std::pair(false, static_cast<int>(i));
    return {};
  }

  // The standard must allow the types at that version.
  bool allowed(const Combination& c) const {
    if (!newest_) return true;
    const spec::Signature* s = spec::find_signature(file_.domain, file_.op, c.opset);
    if (!s || s->deprecated) return false;
    for (const Literal& arg : case_.arguments) {
      const auto at = position(arg.name);
      if (!at || arg.absent) continue;
      const spec::Argument* a = at->first ? s->input(at->second) : s->output(at->second);
      if (!a || !a->types().contains(spec::TypeKind::tensor, static_cast<int>(type_of(arg, c)))) return false;
    }
    return true;
  }

  std::vector<Combination> combinations() const {
    std::vector<Combination> out(1);
    const auto multiply = [&](auto values, auto set) {
      std::vector<Combination> next;
      for (const Combination& c : out)
        for (const auto& v : values) {
          next.push_back(c);
          set(next.back(), v);
        }
      out = std::move(next);
    };
    for (const TypeAxis& axis : file_.types)
      multiply(axis.types, [](Combination& c, DType t) { c.types.push_back(t); });
    std::vector<int> versions;
    const auto range = case_.opsets.value_or(file_.opsets);
    for (const spec::Signature& s : spec::signature_versions(file_.domain, file_.op)) {
      const int opset = std::max<int>(s.since_version, range.first);
      const spec::Signature* there = spec::find_signature(file_.domain, file_.op, opset);
      if (opset <= range.second && there == &s) versions.push_back(opset);
    }
    if (!newest_) versions = {range.first};
    multiply(versions, [](Combination& c, int v) { c.opset = v; });
    multiply(std::vector<int>{0, 1}, [](Combination& c, int v) { c.constants = v; });
    multiply(std::vector<int>{0, 1}, [](Combination& c, int v) { c.symbolic = v; });
    multiply(other_library() ? std::vector{best_target()} : targets(), [](Combination& c, Target t) { c.target = t; });
    std::erase_if(out, [&](const Combination& c) { return !allowed(c); });
    return out;
  }

  // A seeded sample in which every pair of values of two axes occurs together at least once, if it can.
  static std::vector<Combination> pairwise(std::vector<Combination> all) {
    std::mt19937 random(20240229);
    std::shuffle(all.begin(), all.end(), random);
    const auto key_of = [](const Combination& c) {
      std::vector<int> key{c.opset, c.constants, c.symbolic, static_cast<int>(c.target)};
      for (const DType t : c.types) key.push_back(static_cast<int>(t));
      return key;
    };
    std::set<std::array<int, 4>> seen;
    std::vector<Combination> out;
    for (const Combination& c : all) {
      const std::vector<int> key = key_of(c);
      bool adds = false;
      for (size_t i = 0; i < key.size(); ++i)
        for (size_t j = i + 1; j < key.size(); ++j)
          adds = seen.insert({static_cast<int>(i), key[i], static_cast<int>(j), key[j]}).second || adds;
      if (adds) out.push_back(c);
    }
    return out;
  }

  static Result<Tensor> tensor_of(const Literal& arg, DType dtype) {
    TRY_ASSIGN(shape, Shape::checked(arg.dims));
    TRY_ASSIGN(t, Tensor::allocate(dtype, shape));
    const int64_t per = kComplex.has(dtype) ? 2 : 1;
    if (static_cast<int64_t>(arg.values.size()) != t.count() * per)
      return invalid("{} has {} values, its shape wants {}", arg.name, arg.values.size(), t.count() * per);
    if (is_sub_byte(dtype)) std::memset(t.mutable_data(), 0, static_cast<size_t>(t.bytes()));
    const DType part = dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype;
    for (size_t i = 0; i < arg.values.size(); ++i) {
      const std::string& text = arg.values[i];
      if (dtype == DType::string) {
        static_cast<std::string*>(t.mutable_data())[i] = text;
      } else if (text == "true" || text == "false") {
        const int64_t v = text == "true";
        encode(part, t.mutable_data(), static_cast<int64_t>(i), 1, &v);
      } else if (kInts.has(dtype)) {
        const int64_t v = text[0] == '-' ? std::strtoll(text.c_str(), nullptr, 10)
                                         : static_cast<int64_t>(std::strtoull(text.c_str(), nullptr, 10));
        encode(part, t.mutable_data(), static_cast<int64_t>(i), 1, &v);
      } else {
        const double v = std::strtod(text.c_str(), nullptr);
        encode(part, t.mutable_data(), static_cast<int64_t>(i), 1, &v, /*saturate=*/std::isfinite(v));
      }
    }
    return t;
  }

  struct Built {
    std::string bytes;
    std::vector<Value> inputs;
    std::vector<std::pair<size_t, Tensor>> wanted;  // output index
  };

  Result<Built> build(const Combination& c) const {
    Built out;
    ir::GraphBuilder g;
    ir::Node node;
    node.op_type = file_.op;
    node.domain = file_.domain;
    node.name = "subject";
    node.version = c.opset;
    node.attributes = case_.attributes;
    std::vector<std::string> in, outs;
    std::vector<std::pair<std::string, DType>> outputs;
    for (const Literal& arg : case_.arguments) {
      const auto at = position(arg.name);
      if (!at) return invalid("{} has no argument {}", file_.op, quote(arg.name));
      std::vector<std::string>& list = at->first ? in : outs;
      while (static_cast<int>(list.size()) < at->second) list.emplace_back();
      list.push_back(arg.absent ? "" : format("{}_{}", arg.name, list.size()));
      if (arg.absent) continue;
      const DType dtype = type_of(arg, c);
      TRY_ASSIGN(t, tensor_of(arg, dtype));
      if (at->first) {
        if (c.constants) {
          TRY(g.initializer(list.back(), Weight::from(t)));
        } else {
          std::vector<Dim> dims(arg.dims.begin(), arg.dims.end());
          if (c.symbolic)
            for (Dim& d : dims) d = g.dims().fresh();
          TRY(g.input(list.back(), Fact::tensor(dtype, dims)));
          out.inputs.push_back(t);
        }
      } else {
        outputs.push_back({list.back(), dtype});
        out.wanted.push_back({outputs.size() - 1, t});
      }
    }
    if (outs.empty()) {  // a case that must fail still has an output
      outs.push_back("output");
      outputs.push_back({"output", DType::undefined});
    }
    for (const auto& [name, dtype] : outputs) g.output(name, dtype == DType::undefined ? Fact{} : Fact::tensor(dtype));
    std::vector<std::string_view> in_views(in.begin(), in.end()), out_views(outs.begin(), outs.end());
    TRY(g.node(std::move(node), in_views, out_views));
    Model model;
    model.ir_version = 10;
    model.opsets = {{file_.domain, c.opset}};
    if (!file_.domain.empty()) model.opsets.push_back({"", 22});
    model.graph = g.finish();
    TRY_ASSIGN(bytes, onnx::write_model(model));
    out.bytes = std::move(bytes);
    return out;
  }

  static bool same_bits(const Value& a, const Value& b) {
    const Tensor *x = a.tensor(), *y = b.tensor();
    if (!x || !y) return !x && !y;
    if (x->dtype() != y->dtype() || !(x->shape() == y->shape())) return false;
    if (x->dtype() == DType::string)
      return std::equal(x->values<std::string>().begin(), x->values<std::string>().end(),
                        y->values<std::string>().begin());
    return x->bytes() == 0 || std::memcmp(x->data(), y->data(), static_cast<size_t>(x->bytes())) == 0;
  }

  // What one unit in the last place of a narrow type is worth beside the file's tolerance.
  cli::Tolerance tolerance_of(DType t) const {
    double unit = 0;
    switch (t) {
      case DType::f16: unit = 0x1p-10; break;
      case DType::bf16: unit = 0x1p-7; break;
      case DType::f8e4m3fn:
      case DType::f8e4m3fnuz: unit = 0x1p-3; break;
      case DType::f8e5m2:
      case DType::f8e5m2fnuz: unit = 0x1p-2; break;
      default: break;
    }
    return {std::max(file_.rtol, unit), t == DType::f16 ? std::max(file_.atol, 1e-6) : file_.atol};
  }

  void run(const Combination& c) {
    Result<Built> built = build(c);
    ASSERT_TRUE(built.ok()) << built.status().message();
    if (other_library()) return run_elsewhere(*built);
    std::vector<Value> first;
    for (const int threads : {1, 2, 7}) {
      SessionOptions options;
      options.threads = threads;
      options.target = c.target;
      auto session = Session::from_bytes(borrow_bytes(built->bytes.data(), built->bytes.size()), options);
      Status status = session.ok() ? Status{} : Status(session.status().code(), session.status().message());
      for (int repeat = 0; repeat < 2 && status.ok(); ++repeat) {
        std::vector<Value> got((*session)->outputs().size());
        status = (*session)->run(built->inputs, got);
        if (!status.ok()) break;
        if (!case_.error.empty()) break;
        if (first.empty()) {
          first = got;
          check(*built, got);
        }
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(same_bits(first[i], got[i])) << threads << " threads, run " << repeat;
      }
      if (case_.error.empty()) {
        ASSERT_TRUE(status.ok()) << status.message();
      } else {
        ASSERT_FALSE(status.ok()) << "was accepted; wanted an error with " << quote(case_.error);
        ASSERT_NE(status.message().find(case_.error), std::string::npos) << status.message();
        return;
      }
    }
  }

  // What a small library refuses it may refuse in other words.
  void run_elsewhere(const Built& built) {
    const auto expect = [&](const std::string& model, const char* form) {
      SCOPED_TRACE(form);
      const auto got = other_library()->run(model, built.inputs);
      if (!case_.error.empty()) {
        EXPECT_FALSE(got.ok()) << "was accepted; wanted an error";
      } else if (!got.ok()) {
        if (got.status().message().starts_with(OtherLibrary::kNoSuchType)) return;
        ADD_FAILURE() << got.status().message();
      } else {
        check(built, *got);
      }
    };
    expect(built.bytes, ".onnx");
    SessionOptions options;
    options.optimization_level = 0;
    const auto session = Session::from_bytes(borrow_bytes(built.bytes.data(), built.bytes.size()), options);
    if (!session.ok()) return;  // it must fail, and cannot be written
    ort::WriteOptions write;
    write.extensions = true;
    Model model = (*session)->model();
    if (const Op* op = find_op(file_.domain, file_.op); op && op->compose)  // its parts are of the newest operator set
      for (auto& [domain, version] : model.opsets)
        if (domain.empty()) version = kNewestOpset;
    const auto written = ort::write_model(model, write);
    ASSERT_TRUE(written.ok()) << written.status().message();
    expect(*written, ".ort");
  }

  void check(const Built& built, const std::vector<Value>& got) const {
    for (const auto& [index, want] : built.wanted)
      EXPECT_EQ(cli::difference(got[index], Value(want), tolerance_of(want.dtype())), "") << "output " << index;
  }

  const TestFile& file_;
  const TestCase& case_;
  const spec::Signature* newest_ = nullptr;
};

// A file that cannot be read is a failing test of its own.
class BrokenFile : public ::testing::Test {
 public:
  explicit BrokenFile(std::string why) : why_(std::move(why)) {}
  void TestBody() override { FAIL() << why_; }

 private:
  std::string why_;
};

void register_files() {
  std::vector<std::string> paths;
  for (const auto& e : std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/tests/ops"))
    if (e.path().extension() == ".test") paths.push_back(e.path().string());
  std::sort(paths.begin(), paths.end());
  const std::set<std::string> wanted = operators_to_test();
  static std::vector<std::unique_ptr<std::vector<TestFile>>> files;  // tests refer to them
  for (const std::string& path : paths) {
    Result<std::vector<TestFile>> parsed = parse_test_file(path);
    if (!parsed.ok()) {
      ::testing::RegisterTest("Files", std::filesystem::path(path).stem().c_str(), nullptr, nullptr, path.c_str(), 1,
                              [why = parsed.status().message()]() -> ::testing::Test* { return new BrokenFile(why); });
      continue;
    }
    files.push_back(std::make_unique<std::vector<TestFile>>(std::move(*parsed)));
    for (const TestFile& f : *files.back()) {
      if (!wanted.empty() && !wanted.count(f.domain + ":" + f.op)) continue;
      for (const TestCase& c : f.cases) {
        std::string name = c.name.empty() ? format("line {}", c.line) : c.name;
        for (char& ch : name)
          if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
        name += format("_{}", c.line);
        ::testing::RegisterTest(f.op.c_str(), name.c_str(), nullptr, nullptr, f.path.c_str(), c.line,
                                [&f, &c]() -> ::testing::Test* { return new CaseTest(f, c); });
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tessera::testing::register_files();
  return RUN_ALL_TESTS();
}
