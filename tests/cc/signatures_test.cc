#include "ops/signatures.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace tessera::spec {
namespace {

constexpr int kFloat = 1, kInt64 = 7, kString = 8, kFloat16 = 10, kBfloat16 = 16;
constexpr int kTypeFloat = 1, kTypeInt = 2, kTypeString = 3, kTypeTensor = 4, kTypeGraph = 5, kTypeInts = 7,
              kTypeStrings = 8;

TEST(Signatures, VersionInForceIsTheLargestNotAboveTheOpset) {
  EXPECT_EQ(find_signature("", "Add", 1)->since_version, 1);
  EXPECT_EQ(find_signature("", "Add", 6)->since_version, 6);
  EXPECT_EQ(find_signature("", "Add", 12)->since_version, 7);
  EXPECT_EQ(find_signature("", "Add", 13)->since_version, 13);
  EXPECT_EQ(find_signature("", "Add", 1000)->since_version, 14);
  EXPECT_EQ(find_signature("ai.onnx", "Add", 14), find_signature("", "Add", 14));
}

TEST(Signatures, UnknownIsNull) {
  EXPECT_EQ(find_signature("", "CumSum", 10), nullptr);
  EXPECT_EQ(find_signature("", "Add", 0), nullptr);
  EXPECT_EQ(find_signature("", "Add", -1), nullptr);
  EXPECT_EQ(find_signature("", "NoSuchOperator", 20), nullptr);
  EXPECT_EQ(find_signature("", "", 20), nullptr);
  EXPECT_EQ(find_signature("com.example", "Add", 20), nullptr);
  EXPECT_EQ(find_signature("ai.onnx.ml", "Add", 5), nullptr);
  EXPECT_TRUE(signature_versions("", "NoSuchOperator").empty());
}

TEST(Signatures, DeprecatedIsFoundAndSaysSo) {
  EXPECT_FALSE(find_signature("", "Upsample", 9)->deprecated);
  EXPECT_TRUE(find_signature("", "Upsample", 10)->deprecated);
}

TEST(Signatures, VersionsAreOldestFirst) {
  std::vector<int> versions;
  for (const Signature& s : signature_versions("", "CumSum")) versions.push_back(s.since_version);
  EXPECT_EQ(versions, (std::vector<int>{11, 14}));
}

TEST(Signatures, ArgumentsAndTypes) {
  const Signature& s = *find_signature("", "Gather", 13);
  ASSERT_EQ(s.inputs().size(), 2u);
  const Argument& data = s.inputs()[0];
  const Argument& indices = s.inputs()[1];
  EXPECT_EQ(data.name(), "data");
  EXPECT_EQ(data.type_text(), "T");
  EXPECT_EQ(indices.name(), "indices");
  EXPECT_EQ(s.constraints()[indices.constraint].name(), "Tind");
  EXPECT_TRUE(data.types().contains(TypeKind::tensor, kString));
  EXPECT_TRUE(indices.types().contains(TypeKind::tensor, kInt64));
  EXPECT_FALSE(indices.types().contains(TypeKind::tensor, kFloat));
  EXPECT_FALSE(indices.types().contains(TypeKind::sequence, kInt64));
  EXPECT_FALSE(indices.types().contains(TypeKind::tensor, -1));
  EXPECT_FALSE(indices.types().contains(TypeKind::tensor, 64));
  EXPECT_EQ(s.outputs()[0].constraint, data.constraint);
}

TEST(Signatures, FixedTypeHasNoConstraint) {
  const Argument& shape = find_signature("", "Reshape", 13)->inputs()[1];
  EXPECT_EQ(shape.constraint, Argument::kFixedType);
  EXPECT_EQ(shape.type_text(), "tensor(int64)");
  EXPECT_EQ(shape.types().mask(TypeKind::tensor), uint64_t{1} << kInt64);
}

TEST(Signatures, EveryFormOfTypeIsKept) {
  const Signature& sequence = *find_signature("", "SequenceAt", 11);
  EXPECT_TRUE(sequence.inputs()[0].types().contains(TypeKind::sequence, kFloat));
  EXPECT_EQ(sequence.inputs()[0].types().mask(TypeKind::tensor), 0u);
  const Signature& optional = *find_signature("", "OptionalGetElement", 15);
  EXPECT_TRUE(optional.inputs()[0].types().contains(TypeKind::optional, kFloat));
  EXPECT_TRUE(optional.inputs()[0].types().contains(TypeKind::optional_sequence, kFloat));
  const Signature& zip = *find_signature("ai.onnx.ml", "ZipMap", 1);
  EXPECT_TRUE(zip.outputs()[0].types().contains(TypeKind::sequence_map_string, kFloat));
  EXPECT_TRUE(zip.outputs()[0].types().contains(TypeKind::sequence_map_int64, kFloat));
  const Signature& vectorizer = *find_signature("ai.onnx.ml", "DictVectorizer", 1);
  EXPECT_TRUE(vectorizer.inputs()[0].types().contains(TypeKind::map_int64, kString));
  EXPECT_TRUE(vectorizer.inputs()[0].types().contains(TypeKind::map_string, kInt64));
  EXPECT_FALSE(vectorizer.inputs()[0].types().contains(TypeKind::map_string, kString));
}

TEST(Signatures, TypesGrowWithVersions) {
  EXPECT_FALSE(find_signature("", "Relu", 6)->inputs()[0].types().contains(TypeKind::tensor, kBfloat16));
  EXPECT_TRUE(find_signature("", "Relu", 13)->inputs()[0].types().contains(TypeKind::tensor, kBfloat16));
  EXPECT_TRUE(find_signature("", "Relu", 6)->inputs()[0].types().contains(TypeKind::tensor, kFloat16));
}

TEST(Signatures, CountsOfArguments) {
  const auto counts = [](std::string_view name, int opset) {
    const Signature& s = *find_signature("", name, opset);
    return std::tuple(s.min_inputs(), s.max_inputs(), s.min_outputs(), s.max_outputs());
  };
  constexpr int kMany = Signature::kUnbounded;
  EXPECT_EQ(counts("Relu", 14), std::tuple(1, 1, 1, 1));
  EXPECT_EQ(counts("Conv", 11), std::tuple(2, 3, 1, 1));
  EXPECT_EQ(counts("Clip", 13), std::tuple(1, 3, 1, 1));
  EXPECT_EQ(counts("Concat", 13), std::tuple(1, kMany, 1, 1));
  EXPECT_EQ(counts("Loop", 13), std::tuple(2, kMany, 1, kMany));
  EXPECT_EQ(counts("Constant", 13), std::tuple(0, 0, 1, 1));
  EXPECT_EQ(counts("Dropout", 13), std::tuple(1, 3, 1, 2));
}

TEST(Signatures, ValuesFindTheirArgument) {
  const Signature& loop = *find_signature("", "Loop", 13);
  EXPECT_EQ(loop.input(0)->name(), "M");
  EXPECT_EQ(loop.input(0)->option, ArgumentOption::optional);
  EXPECT_EQ(loop.input(2), loop.input(77));
  EXPECT_EQ(loop.input(77)->option, ArgumentOption::variadic);
  EXPECT_FALSE(loop.input(77)->homogeneous);
  EXPECT_TRUE(find_signature("", "Concat", 13)->input(5)->homogeneous);
  EXPECT_EQ(loop.input(-1), nullptr);
  EXPECT_EQ(find_signature("", "Relu", 14)->input(1), nullptr);
  EXPECT_EQ(find_signature("", "Constant", 13)->input(0), nullptr);
  EXPECT_EQ(find_signature("", "Relu", 14)->output(0)->name(), "Y");
}

TEST(Signatures, AttributesAndDefaults) {
  const Signature& gemm = *find_signature("", "Gemm", 13);
  EXPECT_EQ(gemm.attributes().size(), 4u);
  EXPECT_EQ(gemm.attribute("beta")->type, kTypeFloat);
  EXPECT_EQ(gemm.attribute("beta")->default_float(), 1.0f);
  EXPECT_EQ(gemm.attribute("transA")->type, kTypeInt);
  EXPECT_EQ(gemm.attribute("transA")->default_int(), 0);
  EXPECT_EQ(gemm.attribute("no_such"), nullptr);
  EXPECT_EQ(find_signature("", "Softmax", 13)->attribute("axis")->default_int(), -1);

  const Attribute& direction = *find_signature("", "LSTM", 14)->attribute("direction");
  EXPECT_EQ(direction.type, kTypeString);
  EXPECT_EQ(direction.default_string(), "forward");
  EXPECT_EQ(find_signature("", "BatchNormalization", 15)->attribute("epsilon")->default_float(), 1e-5f);

  const Attribute& strides = *find_signature("", "Conv", 11)->attribute("strides");
  EXPECT_EQ(strides.type, kTypeInts);
  EXPECT_FALSE(strides.has_default);
  EXPECT_FALSE(strides.required);
  EXPECT_TRUE(find_signature("", "If", 13)->attribute("then_branch")->required);
  EXPECT_EQ(find_signature("", "If", 13)->attribute("then_branch")->type, kTypeGraph);
  EXPECT_EQ(find_signature("", "Constant", 13)->attribute("value")->type, kTypeTensor);
}

TEST(Signatures, ListDefaults) {
  const auto axes = find_signature("", "MeanVarianceNormalization", 13)->attribute("axes")->default_ints();
  EXPECT_EQ(std::vector<int64_t>(axes.begin(), axes.end()), (std::vector<int64_t>{0, 2, 3}));
  const Attribute& activations = *find_signature("", "RNN", 14)->attribute("activations");
  EXPECT_EQ(activations.type, kTypeStrings);
  ASSERT_EQ(activations.default_strings(), 2);
  EXPECT_EQ(activations.default_string(0), "Tanh");
  EXPECT_EQ(activations.default_string(1), "Tanh");
}

TEST(Signatures, LatestOpsets) {
  EXPECT_EQ(latest_opset(""), 28);
  EXPECT_EQ(latest_opset("ai.onnx"), 28);
  EXPECT_EQ(latest_opset("ai.onnx.ml"), 5);
  EXPECT_EQ(latest_opset("ai.onnx.preview.training"), 1);
  EXPECT_EQ(latest_opset("com.example"), 0);
}

TEST(Signatures, WholeTableIsWellFormed) {
  std::tuple<std::string_view, std::string_view, int> before{"", "", 0};
  for (const Signature& s : all_signatures()) {
    const std::tuple<std::string_view, std::string_view, int> key{s.domain(), s.name(), s.since_version};
    SCOPED_TRACE(std::string(s.name()) + " " + std::to_string(s.since_version));
    EXPECT_LT(before, key);
    before = key;
    EXPECT_EQ(find_signature(s.domain(), s.name(), s.since_version), &s);
    EXPECT_LE(s.since_version, latest_opset(s.domain()));
    for (const auto arguments : {s.inputs(), s.outputs()})
      for (const Argument& a : arguments) {
        EXPECT_FALSE(a.name().empty());
        EXPECT_TRUE(a.option != ArgumentOption::variadic || &a == &arguments.back());
        if (a.constraint == Argument::kFixedType) continue;
        ASSERT_LT(a.constraint, s.constraints().size());
        EXPECT_EQ(s.constraints()[a.constraint].name(), a.type_text());
        EXPECT_EQ(&s.constraints()[a.constraint].types(), &a.types());
      }
    for (const Attribute& a : s.attributes()) {
      EXPECT_EQ(s.attribute(a.name()), &a);
      EXPECT_FALSE(a.required && a.has_default);
    }
  }
}

}  // namespace
}  // namespace tessera::spec
