#include "ops/movement.h"

#include "ir/patch.h"
#include "kernels/transpose.h"

namespace tessera {

// ---------------------------------------------------------------------------------------------- elements

void copy_elements(DType t, const void* x, int64_t from, void* y, int64_t to, int64_t n) {
  if (n <= 0) return;
  if (t == DType::string) {
    std::copy_n(static_cast<const std::string*>(x) + from, n, static_cast<std::string*>(y) + to);
    return;
  }
  const int bits = bits_of(t);
  if (bits < 8 && (from * bits % 8 || to * bits % 8 || n * bits % 8)) {
    for (int64_t i = 0; i < n; ++i) sub_byte_set(t, y, to + i, sub_byte_get(t, x, from + i));
    return;
  }
  const auto at = [bits](int64_t elements) { return bits < 8 ? elements * bits / 8 : elements * (bits / 8); };
  std::memcpy(static_cast<char*>(y) + at(to), static_cast<const char*>(x) + at(from), static_cast<size_t>(at(n)));
}

namespace {

template <class U>
void fill_as(void* y, int64_t to, int64_t n, const void* one) {
  U value{};
  if constexpr (std::is_same_v<U, std::string>) {
    if (one) value = *static_cast<const std::string*>(one);
  } else if (one) {
    std::memcpy(&value, one, sizeof value);
  }
  std::fill_n(static_cast<U*>(y) + to, n, value);
}

}  // namespace

void fill_elements(DType t, void* y, int64_t to, int64_t n, const void* one) {
  if (n <= 0) return;
  if (t == DType::string) return fill_as<std::string>(y, to, n, one);
  switch (bits_of(t)) {
    case 8: return fill_as<uint8_t>(y, to, n, one);
    case 16: return fill_as<uint16_t>(y, to, n, one);
    case 32: return fill_as<uint32_t>(y, to, n, one);
    case 64: return fill_as<uint64_t>(y, to, n, one);
    case 128: return fill_as<Unit16>(y, to, n, one);
    default: break;
  }
  const int value = one ? sub_byte_get(t, one, 0) : 0;
  for (int64_t i = 0; i < n; ++i) sub_byte_set(t, y, to + i, value);
}

Result<void*> output_memory(Call& call, int o) {
  void* y = call.out(o);
  if (!y && call.wants(o) && call.out_count(o) > 0)
    return error(Code::fail, "out of memory: could not allocate output {}", o);
  if (y) clear_sub_byte(call.out_dtype(o), y, call.out_count(o));
  return y;
}

Status copy_input(Call& call, int i, int o) {
  void* y = call.out(o);
  if (y && y == call.in(i)) return {};
  TRY_ASSIGN(memory, output_memory(call, o));
  const DType t = call.dtype(i);
  const void* x = call.in(i);
  if (memory)
    for_blocks(call, t, call.count(i), 1,
               [&](int64_t begin, int64_t end) { copy_elements(t, x, begin, memory, begin, end - begin); });
  return {};
}

// ---------------------------------------------------------------------------------------------- blocks

namespace {

// The dimensions of a strided copy with the ones dropped and neighbours joined where both sides allow it. A non-empty
// tensor has at most 63 dimensions above one.
struct Loops {
  int rank = 0;
  int64_t total = 1;
  int64_t size[kMaxRank], x[kMaxRank], y[kMaxRank];

  Loops(std::span<const int64_t> dims, std::span<const int64_t> sx, std::span<const int64_t> sy) {
    for (size_t i = 0; i < dims.size(); ++i) {
      total *= dims[i];
      if (total == 0) return;
      if (dims[i] == 1) continue;
      if (rank > 0 && x[rank - 1] == sx[i] * dims[i] && y[rank - 1] == sy[i] * dims[i]) {
        size[rank - 1] *= dims[i];
      } else {
        size[rank++] = dims[i];
      }
      x[rank - 1] = sx[i];
      y[rank - 1] = sy[i];
    }
    if (rank == 0) size[0] = x[0] = y[0] = 1, rank = 1;
  }
  // Calls fn(x offset, y offset, n) for the innermost runs of the elements [begin, end).
  template <class F>
  void each_run(int64_t begin, int64_t end, F&& fn) const {
    const int in = rank - 1;
    int64_t index[kMaxRank], at_x = 0, at_y = 0, rest = begin / size[in];
    for (int d = in; d-- > 0; rest /= size[d]) {
      index[d] = rest % size[d];
      at_x += index[d] * x[d];
      at_y += index[d] * y[d];
    }
    int64_t within = begin % size[in];
    while (begin < end) {
      const int64_t n = std::min(size[in] - within, end - begin);
      fn(at_x + within * x[in], at_y + within * y[in], n);
      begin += n;
      within = 0;
      for (int d = in; d-- > 0;) {
        at_x += x[d];
        at_y += y[d];
        if (++index[d] < size[d]) break;
        index[d] = 0;
        at_x -= size[d] * x[d];
        at_y -= size[d] * y[d];
      }
    }
  }
};

}  // namespace

void copy_strided(const Call& call, DType t, std::span<const int64_t> dims, const void* x, const Strided& from, void* y,
                  const Strided& to) {
  const Loops loops(dims, from.strides, to.strides);
  if (loops.total == 0) return;
  const int64_t sx = loops.x[loops.rank - 1], sy = loops.y[loops.rank - 1];
  const bool dense = sx == 1 && sy == 1 && loops.size[loops.rank - 1] >= 4;
  with_mover(t, x, y, [&](auto move) {
    for_blocks(call, t, loops.total, 1, [&](int64_t begin, int64_t end) {
      loops.each_run(begin, end, [&](int64_t at_x, int64_t at_y, int64_t n) {
        at_x += from.offset;
        at_y += to.offset;
        if (dense) return copy_elements(t, x, at_x, y, at_y, n);
        for (int64_t i = 0; i < n; ++i) move(at_x + i * sx, at_y + i * sy);
      });
    });
  });
}

void transpose_elements(const Call& call, DType t, std::span<const int64_t> dims, std::span<const int> perm,
                        const void* x, void* y) {
  if (Shape(dims).count() == 0) return;
  if (t != DType::string && !is_sub_byte(t))
    return transpose(x, y, static_cast<size_t>(bits_of(t) / 8), dims, perm, call.threads());
  int64_t strides[kMaxRank], permuted[kMaxRank], out[kMaxRank], out_strides[kMaxRank];
  strides_of(dims, strides);
  for (size_t i = 0; i < dims.size(); ++i) {
    permuted[i] = strides[perm[i]];
    out[i] = dims[static_cast<size_t>(perm[i])];
  }
  const std::span<const int64_t> out_dims(out, dims.size());
  strides_of(out_dims, out_strides);
  copy_strided(call, t, out_dims, x, {0, {permuted, dims.size()}}, y, {0, {out_strides, dims.size()}});
}

// ---------------------------------------------------------------------------------------------- shapes

bool never_negative(const Dim& d) {
  if (d.known()) return d.value() >= 0;
  for (const DimTerm& term : d.expr()->terms) {
    if (term.coefficient < 0) return false;
    for (const DimAtom* a : term.atoms) {
      if (a->kind == DimAtom::Kind::symbol) continue;
      const bool first = never_negative(a->a), second = never_negative(a->b);
      if (!(a->kind == DimAtom::Kind::max ? first || second : first && second)) return false;
    }
  }
  return true;
}

DimVec<int64_t> list_of(const Call& call, int i) {
  DimVec<int64_t> out;
  for (int64_t k = 0, n = std::min<int64_t>(call.count(i), kMaxRank); k < n; ++k) out.push(call.integer(i, k));
  return out;
}

bool mark_axes(std::span<const int64_t> axes, int rank, bool* mask) {
  std::fill_n(mask, rank, false);
  for (const int64_t a : axes) {
    const auto axis = normalize_axis(a, rank);
    if (!axis || mask[*axis]) return false;
    mask[*axis] = true;
  }
  return true;
}

void keep_content(ShapeCall<Dim>& c) {
  if (const auto elements = c.content(0)) c.set_content(0, *elements);
}

std::optional<DimVec<int64_t>> known_dims(const ShapeCall<Dim>& c, int i) {
  const auto elements = c.content(i);
  if (!elements) return {};
  DimVec<int64_t> out;
  int64_t count = 1;
  for (const Dim& d : c.dims(i)) {
    if (!d.known() || !checked_mul(count, d.value(), &count)) return {};
    out.push(d.value());
  }
  if (count != static_cast<int64_t>(elements->size())) return {};
  return out;
}

void strided_content(ShapeCall<Dim>& c, std::span<const int64_t> dims, int64_t offset,
                     std::span<const int64_t> strides) {
  const auto elements = c.content(0);
  if (!elements) return;
  std::vector<int64_t> offsets{offset};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    std::vector<int64_t> finer;
    for (const int64_t o : offsets)
      for (int64_t i = 0; i < dims[axis]; ++i) finer.push_back(o + i * strides[axis]);
    offsets = std::move(finer);
  }
  std::vector<Dim> out;
  for (const int64_t o : offsets) out.push_back((*elements)[static_cast<size_t>(o)]);
  c.set_content(0, out);
}

// ---------------------------------------------------------------------------------------------- old versions

Status attribute_to_input(ir::Annotator& graph, ir::NodeId id, std::string_view name, size_t index) {
  ir::Node& n = graph.node(id);
  if (!n.find(name)) return {};
  std::vector<int64_t> list;
  Attrs a(n, 0);
  a.get(name, list);
  TRY(a.done());
  TRY_ASSIGN(t, Tensor::of<int64_t>(Shape{static_cast<int64_t>(list.size())}, list));
  if (n.inputs.size() <= index) n.inputs.resize(index + 1, ir::kNone);
  n.inputs[index] = graph.add_constant(std::move(t), n.name + "/" + std::string(name));
  std::erase_if(n.attributes, [&](const ir::Attribute& x) { return x.name == name; });
  return {};
}

}  // namespace tessera
