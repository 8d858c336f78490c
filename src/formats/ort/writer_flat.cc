#include "formats/ort/writer_flat.h"

#include <algorithm>

namespace tessera::flat {

Writer::Writer(std::string_view identifier) {
  append(uint32_t{0});
  out_ += identifier;
}

void Writer::align(size_t alignment, size_t skip) {
  while ((out_.size() + skip) % alignment) out_ += '\0';
}

uint64_t Writer::append_count(size_t count) {
  const uint64_t at = out_.size();
  fits_ = fits_ && count <= UINT32_MAX;
  append(static_cast<uint32_t>(count));
  return at;
}

Placed Writer::place(Draft draft) {
  auto& fields = draft.fields_;
  std::stable_sort(fields.begin(), fields.end(), [](const auto& a, const auto& b) { return a.size > b.size; });
  Placed out;
  std::string body(4, '\0');
  for (const Draft::Field& f : fields) {
    body.resize((body.size() + f.size - 1) / f.size * f.size);
    if (out.offsets_.size() <= static_cast<size_t>(f.id)) out.offsets_.resize(static_cast<size_t>(f.id) + 1);
    out.offsets_[static_cast<size_t>(f.id)] = static_cast<uint16_t>(body.size());
    body.append(reinterpret_cast<const char*>(&f.bits), f.size);
  }
  std::vector<uint16_t> layout{static_cast<uint16_t>(4 + 2 * out.offsets_.size()), static_cast<uint16_t>(body.size())};
  layout.insert(layout.end(), out.offsets_.begin(), out.offsets_.end());
  const std::string key(reinterpret_cast<const char*>(layout.data()), 2 * layout.size());
  uint64_t& layout_at = layouts_[key];
  if (layout_at == 0 || out_.size() - layout_at > INT32_MAX / 2) {
    align(2);
    layout_at = out_.size();
    out_ += key;
  }
  align(fields.empty() ? 4 : std::max<size_t>(4, fields[0].size));
  out.at_ = out_.size();
  const auto back = static_cast<int32_t>(out.at_ - layout_at);
  std::memcpy(body.data(), &back, 4);
  out_ += body;
  return out;
}

uint64_t Writer::references(size_t count) {
  align(4);
  const uint64_t at = append_count(count);
  out_.append(4 * count, '\0');
  return at;
}

void Writer::point(Slot from, uint64_t to) {
  const uint64_t offset = to - from;
  fits_ = fits_ && to > from && offset <= UINT32_MAX;
  const auto bits = static_cast<uint32_t>(offset);
  std::memcpy(out_.data() + from, &bits, 4);
}

void Writer::text(Slot from, std::string_view value) {
  const auto [it, fresh] = text_number_.try_emplace(std::string(value), texts_.size());
  if (fresh) texts_.push_back({&it->first, {}});
  texts_[it->second].second.push_back(from);
}

void Writer::texts(Slot from, const std::vector<std::string_view>& values) {
  const uint64_t list = references(values.size());
  point(from, list);
  for (size_t i = 0; i < values.size(); ++i) text(element(list, i), values[i]);
}

void Writer::place_texts() {
  for (const auto& [value, slots] : texts_) {
    align(4);
    const uint64_t at = append_count(value->size());
    out_ += *value;
    out_ += '\0';
    for (const Slot s : slots) point(s, at);
  }
  texts_.clear();
}

}  // namespace tessera::flat
