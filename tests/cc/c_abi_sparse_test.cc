// labels: robust
// Sparse tensors in the client's hands.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "c_libraries.h"

namespace {

using namespace client;

class SparseTest : public LibraryTest {
 protected:
  Owned<OrtValue> make(std::vector<int64_t> dense, ONNXTensorElementDataType type = kType<float>) const {
    OrtValue* v = nullptr;
    good(c().CreateSparseTensorAsOrtValue(allocator(c()), dense.data(), dense.size(), type, &v));
    return own(v, c());
  }
  Owned<OrtValue> over(std::vector<int64_t> dense, std::vector<int64_t> shape, std::vector<float>& data) const {
    OrtValue* v = nullptr;
    good(c().CreateSparseTensorWithValuesAsOrtValue(host(), data.data(), dense.data(), dense.size(), shape.data(),
                                                    shape.size(), kType<float>, &v));
    return own(v, c());
  }
  const OrtMemoryInfo* host() const {
    const OrtMemoryInfo* info = nullptr;
    good(c().AllocatorGetInfo(allocator(c()), &info));
    return info;
  }
  OrtSparseFormat format(const OrtValue* v) const {
    OrtSparseFormat f = ORT_SPARSE_UNDEFINED;
    good(c().GetSparseTensorFormat(v, &f));
    return f;
  }
  template <class T>
  std::vector<T> indices(const OrtValue* v, OrtSparseIndicesFormat kind) const {
    size_t count = 0;
    const void* data = nullptr;
    good(c().GetSparseTensorIndices(v, kind, &count, &data));
    return {static_cast<const T*>(data), static_cast<const T*>(data) + count};
  }
  std::vector<int64_t> dims(OrtTensorTypeAndShapeInfo* made) const {
    const auto info = own(made, c());
    size_t rank = 0;
    good(c().GetDimensionsCount(made, &rank));
    std::vector<int64_t> out(rank);
    good(c().GetDimensions(made, out.data(), rank));
    return out;
  }
  std::vector<int64_t> index_shape(const OrtValue* v, OrtSparseIndicesFormat kind) const {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    good(c().GetSparseTensorIndicesTypeShape(v, kind, &info));
    return dims(info);
  }
  std::vector<int64_t> value_shape(const OrtValue* v) const {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    good(c().GetSparseTensorValuesTypeAndShape(v, &info));
    return dims(info);
  }
  const float* numbers(const OrtValue* v) const {
    const void* data = nullptr;
    good(c().GetSparseTensorValues(v, &data));
    return static_cast<const float*>(data);
  }
};

TEST_P(SparseTest, CoordinatesAreCopied) {
  const auto v = make({3, 4});
  EXPECT_EQ(format(v.get()), ORT_SPARSE_UNDEFINED);
  std::vector<float> data = {1, 2, 3};
  std::vector<int64_t> at = {0, 5, 11};
  const int64_t count = 3;
  good(c().FillSparseTensorCoo(v.get(), host(), &count, 1, data.data(), at.data(), at.size()));
  data.assign(3, 0);
  at.assign(3, 0);
  EXPECT_EQ(format(v.get()), ORT_SPARSE_COO);
  EXPECT_EQ(indices<int64_t>(v.get(), ORT_SPARSE_COO_INDICES), (std::vector<int64_t>{0, 5, 11}));
  EXPECT_EQ(index_shape(v.get(), ORT_SPARSE_COO_INDICES), (std::vector<int64_t>{3}));
  EXPECT_EQ(value_shape(v.get()), (std::vector<int64_t>{3}));
  EXPECT_EQ(numbers(v.get())[2], 3);
  EXPECT_EQ(shape_of(v.get(), c()), (std::vector<int64_t>{3, 4}));
  int sparse = 0, dense = 1;
  good(c().IsSparseTensor(v.get(), &sparse));
  good(c().IsTensor(v.get(), &dense));
  EXPECT_EQ(sparse, 1);
  EXPECT_EQ(dense, 0);
  ONNXType type = ONNX_TYPE_UNKNOWN;
  good(c().GetValueType(v.get(), &type));
  EXPECT_EQ(type, ONNX_TYPE_SPARSETENSOR);
}

TEST_P(SparseTest, PairsOfCoordinates) {
  const auto v = make({3, 4});
  std::vector<float> data = {1, 2};
  const std::vector<int64_t> at = {0, 1, 2, 3};
  const int64_t count = 2;
  good(c().FillSparseTensorCoo(v.get(), host(), &count, 1, data.data(), at.data(), at.size()));
  EXPECT_EQ(index_shape(v.get(), ORT_SPARSE_COO_INDICES), (std::vector<int64_t>{2, 2}));
}

TEST_P(SparseTest, CompressedRowsAreBorrowed) {
  std::vector<float> data = {1, 2, 3};
  const auto v = over({3, 4}, {3}, data);
  std::vector<int64_t> inner = {1, 0, 3}, outer = {0, 1, 1, 3};
  good(c().UseCsrIndices(v.get(), inner.data(), inner.size(), outer.data(), outer.size()));
  EXPECT_EQ(format(v.get()), ORT_SPARSE_CSRC);
  EXPECT_EQ(numbers(v.get()), data.data());
  EXPECT_EQ(indices<int64_t>(v.get(), ORT_SPARSE_CSR_INNER_INDICES), inner);
  EXPECT_EQ(indices<int64_t>(v.get(), ORT_SPARSE_CSR_OUTER_INDICES), outer);
  OrtTensorTypeAndShapeInfo* info = nullptr;
  refused(c().GetSparseTensorIndicesTypeShape(v.get(), ORT_SPARSE_COO_INDICES, &info));
}

TEST_P(SparseTest, Blocks) {
  std::vector<float> data(8, 1);
  const auto v = over({8, 8}, {2, 2, 2}, data);
  std::vector<int32_t> at = {0, 0, 0, 1};
  const int64_t shape[] = {2, 2};
  good(c().UseBlockSparseIndices(v.get(), shape, 2, at.data()));
  EXPECT_EQ(format(v.get()), ORT_SPARSE_BLOCK_SPARSE);
  EXPECT_EQ(indices<int32_t>(v.get(), ORT_SPARSE_BLOCK_SPARSE_INDICES), at);
}

TEST_P(SparseTest, Strings) {
  const auto v = make({4}, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
  const char* texts[] = {"ab", "c"};
  const int64_t count = 2;
  const std::vector<int64_t> at = {1, 3};
  good(c().FillSparseTensorCoo(v.get(), host(), &count, 1, texts, at.data(), at.size()));
  size_t length = 0;
  good(c().GetStringTensorDataLength(v.get(), &length));
  EXPECT_EQ(length, 3u);
}

TEST_P(SparseTest, NothingStored) {
  const auto v = make({3, 4});
  const int64_t none = 0;
  good(c().FillSparseTensorCoo(v.get(), host(), &none, 1, nullptr, nullptr, 0));
  EXPECT_EQ(format(v.get()), ORT_SPARSE_COO);
  EXPECT_EQ(value_shape(v.get()), (std::vector<int64_t>{0}));
}

TEST_P(SparseTest, RefusesWhatDoesNotFit) {
  const auto v = make({3, 4});
  std::vector<float> data = {1, 2, 3};
  const std::vector<int64_t> at = {0, 5, 11};
  const int64_t count = 3;
  refused(c().FillSparseTensorCoo(v.get(), host(), &count, 1, data.data(), at.data(), 2));
  refused(c().FillSparseTensorCsr(v.get(), host(), &count, 1, data.data(), at.data(), 3, at.data(), 2));
  const auto dense = tensor({3}, data, c());
  OrtSparseFormat f = ORT_SPARSE_UNDEFINED;
  refused(c().GetSparseTensorFormat(dense.get(), &f));
  if (!lib().ours) return;
  const std::vector<int64_t> outside = {0, 5, 12};
  refused(c().FillSparseTensorCoo(v.get(), host(), &count, 1, data.data(), outside.data(), 3));
  good(c().FillSparseTensorCoo(v.get(), host(), &count, 1, data.data(), at.data(), 3));
  refused(c().FillSparseTensorCoo(v.get(), host(), &count, 1, data.data(), at.data(), 3));
}

INSTANTIATE_TEST_SUITE_P(Libraries, SparseTest, testing::Range<size_t>(0, libraries().size()), library_name);

}  // namespace
