#include "runtime/packs.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/file.h"

namespace tessera {
namespace {

// Weights of this process, by the memory they lie in, or by content where that memory is only passing by.
struct Part {
  const void* source;
  uint64_t offset;
  Digest content;  // of memory that will be gone, instead of its address
  int64_t count;
  DType dtype;
  auto operator<=>(const Part&) const = default;
};
struct Identity {
  std::vector<Part> parts;
  DType dtype;
  std::string form;
  auto operator<=>(const Identity&) const = default;
};

struct Known {
  std::vector<std::weak_ptr<const Bytes>> sources;  // tell a new buffer at an old address from the old one
  std::weak_ptr<PackedWeight> packed;
};

class Registry {
 public:
  static Registry& all() {
    static Registry* const one = new Registry;  // never destroyed: sessions may outlive everything
    return *one;
  }

  std::shared_ptr<PackedWeight> share(const Identity& id, std::span<const BytesPtr> sources, bool* known) {
    std::lock_guard lock(mutex_);
    if (++calls_ % 1024 == 0) std::erase_if(packs_, [](const auto& p) { return p.second.packed.expired(); });
    Known& k = packs_[id];
    std::shared_ptr<PackedWeight> packed = k.packed.lock();
    *known = packed && is_whole(*packed) &&
             std::equal(sources.begin(), sources.end(), k.sources.begin(), k.sources.end(),
                        [](const BytesPtr& now, const auto& then) { return then.lock() == now; });
    if (!*known) {
      packed = std::make_shared<PackedWeight>();
      k = {{sources.begin(), sources.end()}, packed};
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

Digest pack_key(const PackForm& form, const PackWeights& weights) {
  std::string text = format("{};{};{}", form.layout, form.variant, name_of(form.dtype));
  for (const Weight& weight : weights) {
    text += format(";{};{}", name_of(weight.dtype), weight.shape.dims());
    if (weight.range.source) {
      const bool external = !weight.location.empty();
      text += format(";{};{};{};{}", quote(weight.location), external ? weight.location_offset : weight.range.offset,
                     weight.range.length, quote(weight.checksum));
    } else if (const Result<Tensor> t = weight.tensor(); weight.dtype != DType::undefined && t.ok()) {
      text += ";" + digest_of(t->data(), static_cast<size_t>(t->bytes())).str();
    }
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

std::shared_ptr<PackedWeight> share_packed(const PackForm& form, const PackWeights& weights, bool* known) {
  *known = false;
  Identity id{{}, form.dtype, format("{};{}", form.layout, form.variant)};
  std::vector<BytesPtr> sources;
  for (const Weight& w : weights) {
    id.form += format(";{}", w.shape.dims());
    id.parts.push_back({nullptr, 0, {}, w.shape.count(), w.dtype});
    if (w.dtype == DType::undefined) continue;
    const BytesPtr& source = w.range.source ? w.range.source : w.decoded.storage();
    if (!source) return std::make_shared<PackedWeight>();
    const uint64_t offset = w.range.source ? w.range.offset : w.decoded.offset();
    if (source->origin() == Bytes::Origin::passing) {
      id.parts.back().content = digest_of(source->data() + offset, static_cast<size_t>(w.bytes()));
      continue;
    }
    id.parts.back().source = source.get();
    id.parts.back().offset = offset;
    sources.push_back(source);
  }
  return Registry::all().share(id, sources, known);
}

}  // namespace tessera
