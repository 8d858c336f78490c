#include "formats/ort/flat.h"

#include <bit>

namespace tessera::flat {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");

Status File::status() const {
  if (!damage_) return {};
  return error(Code::fail, "the file is damaged: {} at byte {} of {}", damage_, damaged_at_, bytes_.size());
}

void File::damage(const char* what, uint64_t at) {
  if (damage_) return;
  damage_ = what;
  damaged_at_ = at;
}

bool File::inside(uint64_t at, uint64_t size, const char* what) {
  if (damage_) return false;
  if (range_inside(at, size, bytes_.size())) return true;
  damage(what, at);
  return false;
}

bool File::spend(uint64_t work) {
  if (work > work_left_) damage("more is said than the file is long", 0);
  work_left_ -= damage_ ? 0 : work;
  return !damage_;
}

uint64_t File::follow(uint64_t at) {
  if (damage_) return 0;
  const uint64_t offset = read<uint32_t>(at), target = at + offset;
  if (offset != 0 && target < bytes_.size()) return target;
  damage("an offset that leads nowhere", at);
  return 0;
}

std::string_view File::text(uint64_t at) {
  if (!inside(at, 4, "a text")) return {};
  const uint64_t length = read<uint32_t>(at);
  if (!inside(at + 4, length + 1, "the characters of a text") || !spend(4 + length)) return {};
  if (bytes_[static_cast<size_t>(at + 4 + length)] != 0) {
    damage("a text without end", at);
    return {};
  }
  return bytes_.substr(static_cast<size_t>(at + 4), static_cast<size_t>(length));
}

Table File::root() {
  if (!inside(0, 8, "the header")) return {};
  const uint64_t at = follow(0);
  return at ? Table(*this, at) : Table();
}

Table::Table(File& file, uint64_t at) {
  if (!file.inside(at, 4, "a table")) return;
  const int64_t vtable = static_cast<int64_t>(at) - file.read<int32_t>(at);
  // A negative place is past any end when seen as unsigned.
  vtable_ = static_cast<uint64_t>(vtable);
  if (!file.inside(vtable_, 4, "the layout of a table")) return;
  vtable_size_ = file.read<uint16_t>(vtable_);
  size_ = file.read<uint16_t>(vtable_ + 2);
  if (vtable_size_ < 4 || vtable_size_ % 2 || size_ < 4) file.damage("the layout of a table", vtable_);
  if (!file.inside(vtable_, vtable_size_, "the layout of a table") || !file.inside(at, size_, "a table")) return;
  if (!file.spend(16)) return;
  file_ = &file;
  at_ = at;
}

uint64_t Table::place(int field, uint64_t size) const {
  const int entry = 4 + 2 * field;
  if (!file_ || entry >= vtable_size_) return 0;
  const uint16_t offset = file_->read<uint16_t>(vtable_ + static_cast<uint64_t>(entry));
  if (offset == 0) return 0;
  if (offset >= 4 && offset + size <= size_) return at_ + offset;
  file_->damage("a field outside of its table", vtable_ + static_cast<uint64_t>(entry));
  return 0;
}

}  // namespace tessera::flat
