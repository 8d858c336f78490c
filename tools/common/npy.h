// NumPy's .npy files and .npz archives. Files may come from anywhere: whatever they hold, the answer is a tensor or a
// status.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace tessera::cli {

// Reads an array. NumPy has no names for bfloat16, the 8-bit floats and types below 8 bits: where `wanted` is one of
// them, integers and raw bytes of the same size (one byte per element below 8 bits) are taken as its bits.
Result<Tensor> read_npy(std::string_view bytes, DType wanted = DType::undefined);
// Version 1.0, C order, little-endian; types without a name in NumPy as unsigned (int4, int2: signed) integers.
Result<std::string> write_npy(const Tensor& tensor);

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
// `wanted` gives the type asked for by name, or DType::undefined.
template <class F>
Result<std::vector<NamedTensor>> read_npz(std::string_view bytes, F&& wanted);
// Members are stored, not compressed.
Result<std::string> write_npz(const std::vector<NamedTensor>& arrays);

// The members of a ZIP archive, stored or deflated, checksums verified.
Result<std::vector<std::pair<std::string, std::string>>> read_zip(std::string_view bytes);

template <class F>
Result<std::vector<NamedTensor>> read_npz(std::string_view bytes, F&& wanted) {
  TRY_ASSIGN(members, read_zip(bytes));
  std::vector<NamedTensor> out;
  for (auto& [name, content] : members) {
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    Result<Tensor> t = read_npy(content, wanted(name));
    if (!t.ok()) return t.take_status().in(quote(name));
    out.push_back({std::move(name), std::move(*t)});
  }
  return out;
}

}  // namespace tessera::cli
