// Caches of keys and values grow where they lie when the caller gives the same memory for past and present: nothing is
// copied but the new rows. What is copied is counted.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "ops/nn/attention_run.h"
#include "session/session.h"

namespace tessera {
namespace {

constexpr int64_t kRoom = 6, kSize = 8;

std::shared_ptr<Session> open(const std::string& text) {
  const auto model = parse_text("<ir_version: 10, opset_import: [\"\" : 17, \"com.microsoft\" : 1]> net " + text);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return nullptr;
  const auto bytes = onnx::write_model(*model);
  const auto storage = allocate_bytes(bytes->size());
  std::memcpy((*storage)->data(), bytes->data(), bytes->size());
  auto session = Session::from_bytes(*storage, {});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *session : nullptr;
}

Tensor floats(std::vector<int64_t> dims, float first) {
  Result<Tensor> t = Tensor::allocate(DType::f32, Shape(dims));
  for (int64_t i = 0; i < t->count(); ++i)
    static_cast<float*>(t->mutable_data())[i] = first + static_cast<float>(i * 37 % 23) / 16;
  return *t;
}
Tensor number(int32_t value) { return *Tensor::of<int32_t>(Shape{1}, std::vector<int32_t>{value}); }
std::vector<float> content(const Value& v) {
  const auto values = v.tensor()->values<float>();
  return {values.begin(), values.end()};
}

// The arguments of step t; the caches are as given.
std::vector<Value> inputs_at(int32_t t, const Tensor& key, const Tensor& value) {
  const auto f = static_cast<float>(t);
  return {floats({1, 1, 2 * kSize}, f / 8),
          floats({1, 1, kSize}, f / 4),
          floats({1, 1, kSize}, -f),
          key,
          value,
          number(t),
          number(t + 1)};
}

struct Form {
  const char *name, *node;
};
class SharedCache : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(
    Operators, SharedCache,
    testing::Values(Form{"GroupQuery",
                         "com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, "
                         "past_key, past_value, lengths, total)"},
                    Form{"DecoderMasked",
                         "com.microsoft.DecoderMaskedMultiHeadAttention <num_heads = 1, past_present_share_buffer = 1> "
                         "(k, k, v, , , past_key, past_value, lengths)"}),
    [](const auto& info) { return std::string(info.param.name); });

std::string net(const char* node, const std::string& before, const std::string& after) {
  return format(
      "(float[1,1,16] q, float[1,1,8] k, float[1,1,8] v, float[1,1,6,8] past_key, float[1,1,6,8] past_value, int32[1] "
      "lengths, int32[1] total) => (float[A,B,C] y, float[1,1,6,8] present_key, float[1,1,6,8] present_value) "
      "{ {} {} {} }",
      before, node, after);
}

TEST_P(SharedCache, GrowsInTheCallersMemory) {
  const auto session = open(net(GetParam().node, "y, present_key, present_value =", ""));
  ASSERT_TRUE(session);
  Tensor key = floats({1, 1, kRoom, kSize}, 0), value = floats({1, 1, kRoom, kSize}, 1);
  for (int32_t t = 0; t < kRoom; ++t) {
    const Tensor key_copy = *Tensor::of<float>(key.shape(), content(key)),
                 value_copy = *Tensor::of<float>(value.shape(), content(value));
    const int64_t before = attention::cache_bytes_moved();
    std::vector<Value> apart(3), shared = {Value(), key, value};
    ASSERT_TRUE(session->run(inputs_at(t, key_copy, value_copy), apart).ok());
    const int64_t between = attention::cache_bytes_moved();
    EXPECT_EQ(between - before, 2 * t * kSize * 4) << "the rows of the past, twice";
    ASSERT_TRUE(session->run(inputs_at(t, key, value), shared).ok());
    EXPECT_EQ(attention::cache_bytes_moved(), between);
    EXPECT_EQ(shared[1].tensor()->data(), key.data());
    EXPECT_EQ(content(shared[0]), content(apart[0])) << t;
    for (int o = 1; o < 3; ++o)
      EXPECT_EQ(std::memcmp(shared[static_cast<size_t>(o)].tensor()->data(),
                            apart[static_cast<size_t>(o)].tensor()->data(), static_cast<size_t>((t + 1) * kSize * 4)),
                0);
  }
}

}  // namespace
}  // namespace tessera
