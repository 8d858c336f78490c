#include "capi/lora.h"

#include <cstring>

#include "base/file.h"
#include "capi/guard.h"
#include "capi/run.h"
#include "capi/topics.h"
#include "capi/value.h"

namespace tessera::capi {
namespace {

// The tables of an adapter file, a FlatBuffer.
namespace adapter {
constexpr std::string_view kIdentifier = "TORT";
constexpr int kFormat = 1;
enum : uint64_t { format_version, adapter_version, model_version, parameters };
}  // namespace adapter
namespace parameter {
enum : uint64_t { name, dims, data_type, raw_data };
}

// Reads bytes that anybody may have written: what lies outside reads as zero and marks the file as damaged. A place is
// an offset in the file, 0 for what is absent.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool damaged() const { return damaged_; }

  template <class T>
  T number(uint64_t at) {
    T out{};
    if (inside(at, sizeof(T))) std::memcpy(&out, bytes_.data() + at, sizeof(T));
    return out;
  }
  uint64_t follow(uint64_t at) { return at ? at + number<uint32_t>(at) : 0; }
  uint64_t field(uint64_t table, uint64_t index) {
    const uint64_t fields = table - static_cast<uint64_t>(int64_t{number<int32_t>(table)}), entry = 4 + 2 * index;
    if (damaged_ || number<uint16_t>(fields) < entry + 2) return 0;
    const uint16_t offset = number<uint16_t>(fields + entry);
    return offset ? table + offset : 0;
  }
  // The elements of the list that a field leads to, as they lie in the file.
  std::string_view list(uint64_t table, uint64_t index, uint64_t element_size) {
    const uint64_t at = follow(field(table, index));
    const uint64_t size = at ? number<uint32_t>(at) * element_size : 0;
    if (!at || !inside(at + 4, size)) return {};
    return bytes_.substr(at + 4, size);
  }
  uint64_t place_of(std::string_view part) const { return static_cast<uint64_t>(part.data() - bytes_.data()); }

 private:
  bool inside(uint64_t at, uint64_t size) {
    if (at <= bytes_.size() && size <= bytes_.size() - at) return true;
    damaged_ = true;
    return false;
  }
  std::string_view bytes_;
  bool damaged_ = false;
};

Result<Tensor> read_tensor(Reader& file, uint64_t table, std::string_view name) {
  const std::string_view dims = file.list(table, parameter::dims, sizeof(int64_t));
  const std::string_view raw = file.list(table, parameter::raw_data, 1);
  const uint64_t type_at = file.field(table, parameter::data_type);
  const int type = type_at ? file.number<int32_t>(type_at) : 0;
  const DType dtype = dtype_of_onnx(static_cast<ONNXTensorElementDataType>(type));
  if (dtype == DType::undefined || dtype == DType::string)
    return invalid("adapter: parameter {} has type {}, wanted one of numbers", quote(name), type);
  std::vector<int64_t> sizes(dims.size() / sizeof(int64_t));
  if (!sizes.empty()) std::memcpy(sizes.data(), dims.data(), dims.size());
  TRY_ASSIGN(shape, Shape::checked(sizes));
  const auto bytes = bytes_for(dtype, shape.count());
  if (!bytes || static_cast<uint64_t>(*bytes) != raw.size())
    return invalid("adapter: parameter {} has {} bytes for {}{}", quote(name), raw.size(), name_of(dtype),
                   shape.dims());
  TRY_ASSIGN(tensor, Tensor::allocate(dtype, shape));
  if (!raw.empty()) std::memcpy(tensor.mutable_data(), raw.data(), raw.size());
  return std::move(tensor);
}

Result<AdapterWeights> read_adapter(std::string_view bytes) {
  if (bytes.size() < 8 || bytes.substr(4, 4) != adapter::kIdentifier)
    return invalid("these {} bytes are no adapter: the identifier {} is missing", bytes.size(), adapter::kIdentifier);
  Reader file(bytes);
  const uint64_t root = file.number<uint32_t>(0), format_at = file.field(root, adapter::format_version);
  const int format = format_at ? file.number<int32_t>(format_at) : 0;
  if (!file.damaged() && format != adapter::kFormat)
    return invalid("the adapter has format version {}, wanted {}", format, adapter::kFormat);
  const std::string_view list = file.list(root, adapter::parameters, 4);
  AdapterWeights weights;
  uint64_t left = bytes.size();  // parameters that share their bytes could ask for any amount of memory
  for (size_t i = 0; i < list.size() && !file.damaged(); i += 4) {
    const uint64_t table = file.follow(file.place_of(list) + i);
    const std::string_view name = file.list(table, parameter::name, 1);
    if (name.empty() || file.damaged()) return invalid("adapter: parameter {} has no name", i / 4);
    TRY_ASSIGN(tensor, read_tensor(file, table, name));
    const auto size = static_cast<uint64_t>(tensor.bytes());
    if (size > left) return invalid("adapter: its parameters have more bytes than the file");
    left -= size;
    if (!weights.try_emplace(std::string(name), std::move(tensor)).second)
      return invalid("adapter: parameter {} is there twice", quote(name));
  }
  if (file.damaged()) return invalid("the adapter of {} bytes is damaged", bytes.size());
  return weights;
}

Status create(std::string_view bytes, OrtLoraAdapter** out) {
  TRY_ASSIGN(weights, read_adapter(bytes));
  *out = new OrtLoraAdapter{std::make_shared<const AdapterWeights>(std::move(weights))};
  return {};
}

// The allocator is that of a device the weights should be copied to; there is host memory only.
Status from_file(const ORTCHAR_T* path, OrtAllocator*, OrtLoraAdapter** out) {
  TRY(not_null({{"adapter_file_path", path}, {"out", out}}));
  TRY_ASSIGN(file, map_file(path));
  return create({reinterpret_cast<const char*>(file->data()), file->size()}, out);
}

Status from_array(const void* data, size_t size, OrtAllocator*, OrtLoraAdapter** out) {
  TRY(not_null({{"bytes", data}, {"out", out}}));
  return create({static_cast<const char*>(data), size}, out);
}

void release(OrtLoraAdapter* adapter) { delete adapter; }

Status activate(OrtRunOptions* options, const OrtLoraAdapter* adapter) {
  TRY(not_null({{"options", options}, {"adapter", adapter}}));
  options->adapters.push_back(adapter->weights);
  return {};
}

}  // namespace

void fill_lora(OrtApi& api) {
  api.CreateLoraAdapter = slot<from_file>;
  api.CreateLoraAdapterFromArray = slot<from_array>;
  api.ReleaseLoraAdapter = release;
  api.RunOptionsAddActiveLoraAdapter = slot<activate>;
}

}  // namespace tessera::capi
