#include "runtime/packs.h"

#include <map>

#include "base/file.h"

namespace tessera {
namespace {

// Weights of this process, by the memory they lie in.
struct Identity {
  const void* source;
  uint64_t offset;
  int64_t count;
  DType from, to;
  std::string form;
  auto operator<=>(const Identity&) const = default;
};

struct Known {
  std::weak_ptr<const Bytes> source;  // tells a new buffer at an old address from the old one
  std::weak_ptr<PackedWeight> packed;
};

class Registry {
 public:
  static Registry& all() {
    static Registry* const one = new Registry;  // never destroyed: sessions may outlive everything
    return *one;
  }

  std::shared_ptr<PackedWeight> share(const Identity& id, const BytesPtr& source, bool* known) {
    std::lock_guard lock(mutex_);
    if (++calls_ % 1024 == 0) std::erase_if(packs_, [](const auto& p) { return p.second.packed.expired(); });
    Known& k = packs_[id];
    std::shared_ptr<PackedWeight> packed = k.packed.lock();
    *known = packed && k.source.lock() == source && is_whole(*packed);
    if (!*known) {
      packed = std::make_shared<PackedWeight>();
      k = {source, packed};
    }
    return packed;
  }

 private:
  // What lies in a pack file that was written to since is of no use to new sessions.
  static bool is_whole(const PackedWeight& packed) {
    const std::optional<ByteRange> bytes = packed.bytes();
    return !bytes || check_unchanged(*bytes->source).ok();
  }

  std::mutex mutex_;
  std::map<Identity, Known> packs_;
  uint64_t calls_ = 0;
};

}  // namespace

Digest pack_key(const PackForm& form, const Weight& weight) {
  std::string text = format("{};{};{};{};{}", form.layout, form.variant, name_of(form.dtype), name_of(weight.dtype),
                            weight.shape.dims());
  if (weight.range.source) {
    const bool external = !weight.location.empty();
    text += format(";{};{};{};{}", quote(weight.location), external ? weight.location_offset : weight.range.offset,
                   weight.range.length, quote(weight.checksum));
  } else if (const Result<Tensor> t = weight.tensor(); t.ok()) {
    text += ";" + digest_of(t->data(), static_cast<size_t>(t->bytes())).str();
  }
  return digest_of(text.data(), text.size());
}

Result<const std::byte*> PackedWeight::get(const Make& make, Counters& counters) {
  std::lock_guard lock(mutex_);
  if (!ready_) {
    TRY_ASSIGN(made, make());
    ++counters.pack_calls;
    counters.bytes_packed_out += static_cast<int64_t>(made->size());
    const uint64_t size = made->size();
    bytes_ = {std::move(made), 0, size};
    ready_ = true;
  }
  return bytes_.data();
}

void PackedWeight::found(ByteRange bytes) {
  std::lock_guard lock(mutex_);
  if (ready_) return;
  bytes_ = std::move(bytes);
  ready_ = true;
}

std::optional<ByteRange> PackedWeight::bytes() const {
  std::lock_guard lock(mutex_);
  return ready_ ? std::optional(bytes_) : std::nullopt;
}

std::shared_ptr<PackedWeight> share_packed(const PackForm& form, const Weight& weight, bool* known) {
  const BytesPtr& source = weight.range.source ? weight.range.source : weight.decoded.storage();
  *known = false;
  if (!source) return std::make_shared<PackedWeight>();
  const Identity id{source.get(),         weight.range.source ? weight.range.offset : weight.decoded.offset(),
                    weight.shape.count(), weight.dtype,
                    form.dtype,           format("{};{};{}", form.layout, form.variant, weight.shape.dims())};
  return Registry::all().share(id, source, known);
}

}  // namespace tessera
