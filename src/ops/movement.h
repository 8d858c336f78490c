// Moving elements without looking at them: helpers by element size, strings and sub-byte types included.
#pragma once
#include <cstring>
#include <type_traits>

#include "core/convert.h"
#include "ops/op.h"

namespace tessera {

// Any type, moved as it is: x (and the inputs after it, if any) like y.
inline constexpr TypeRule kAnyType[] = {{in_arg(0) | out_arg(0), kEveryType}};

// Integer tensors of at most this many elements are followed through inference.
inline constexpr int64_t kMostContent = 64;

// ---------------------------------------------------------------------------------------------- elements

// Copies n elements from x (starting at element `from`) to y (starting at `to`). Works for every type.
void copy_elements(DType t, const void* x, int64_t from, void* y, int64_t to, int64_t n);

// Sets n elements of y from `to` on to the single element at `one`, a null `one` meaning zero (or the empty string).
void fill_elements(DType t, void* y, int64_t to, int64_t n, const void* one);

// Sub-byte outputs share their bytes: cleared before single elements are set.
inline void clear_sub_byte(DType t, void* data, int64_t count) {
  if (is_sub_byte(t) && data) std::memset(data, 0, static_cast<size_t>(*bytes_for(t, count)));
}

// Memory of output o, strings made: null when the output is not wanted, an error when there is no memory for it.
Result<void*> output_memory(Call& call, int o = 0);

// The whole of input i into output o: equal counts and types.
Status copy_input(Call& call, int i = 0, int o = 0);

struct Unit16 {
  uint64_t low, high;
};

// Calls fn(move), where move(from, to) copies one element of x to y, typed by the size of an element.
template <class F>
void with_mover(DType t, const void* x, void* y, F&& fn) {
  const auto as = [&]<class U>(std::type_identity<U>) {
    fn([x = static_cast<const U*>(x), y = static_cast<U*>(y)](int64_t from, int64_t to) { y[to] = x[from]; });
  };
  if (t == DType::string) return as(std::type_identity<std::string>{});
  switch (bits_of(t)) {
    case 8: return as(std::type_identity<uint8_t>{});
    case 16: return as(std::type_identity<uint16_t>{});
    case 32: return as(std::type_identity<uint32_t>{});
    case 64: return as(std::type_identity<uint64_t>{});
    case 128: return as(std::type_identity<Unit16>{});
    default: fn([=](int64_t from, int64_t to) { sub_byte_set(t, y, to, sub_byte_get(t, x, from)); });
  }
}

// ---------------------------------------------------------------------------------------------- blocks

// Cuts `blocks` blocks of `size` elements of type t into runs for the pool; fn(begin, end). One run for sub-byte types,
// whose neighbours share a byte.
template <class F>
void for_blocks(const Call& call, DType t, int64_t blocks, int64_t size, F&& fn) {
  constexpr int64_t kRun = 1 << 14;  // elements
  const int64_t step =
      is_sub_byte(t) ? std::max<int64_t>(blocks, 1) : std::max<int64_t>(1, kRun / std::max<int64_t>(size, 1));
  if (blocks <= step) return fn(int64_t{0}, blocks);
  call.parallel(ceil_div(blocks, step),
                [&](int64_t chunk, int) { fn(chunk * step, std::min(blocks, (chunk + 1) * step)); });
}

// Elements at an offset, and how far apart neighbours along each dimension are (0 and negative steps allowed).
struct Strided {
  int64_t offset;
  std::span<const int64_t> strides;
};
// y[j] = x[j] for all j inside `dims`, any number of them. The caller has checked that every offset lies inside its
// memory; x and y do not overlap.
void copy_strided(const Call& call, DType t, std::span<const int64_t> dims, const void* x, const Strided& from, void* y,
                  const Strided& to);

// y's dimension i is x's dimension perm[i].
void transpose_elements(const Call& call, DType t, std::span<const int64_t> dims, std::span<const int> perm,
                        const void* x, void* y);

// ---------------------------------------------------------------------------------------------- shapes

// a * b; false if that overflows.
template <class D>
bool dim_product(const D& a, const D& b, D* out) {
  int64_t n;
  if (known(a) && known(b)) {
    if (!checked_mul(number(a), number(b), &n)) return false;
    return *out = D(n), true;
  }
  return *out = a * b, true;
}

// True if no value of its symbols makes the expression negative.
inline bool never_negative(int64_t d) { return d >= 0; }
bool never_negative(const Dim& d);

// The integers of list input i. Nothing when they are not known; lists longer than any rank come out cut.
template <class D>
std::optional<DimVec<D>> known_list(ShapeCall<D>& c, int i) {
  const auto content = c.content(i);
  if (!content) return {};
  return DimVec<D>(*content);
}
// The same in a kernel: int32 or int64, at most kMaxRank of them.
DimVec<int64_t> list_of(const Call& call, int i);

// Sets a shape of which some dimensions are unknown: fresh symbols at load, an error when it must be known.
inline Status set_partly(ShapeCall<int64_t>& c, int o, const DimVec<int64_t>&) { return c.unknown(o); }
inline Status set_partly(ShapeCall<Dim>& c, int o, const DimVec<Dim>& dims) { return c.set(o, dims); }

// Marks `axes` (each in [-rank, rank), none twice) in mask; false if they are not such.
bool mark_axes(std::span<const int64_t> axes, int rank, bool* mask);

// Output 0 holds the elements of input 0 in the same order: what is known of them stays known.
void keep_content(ShapeCall<Dim>& c);
template <SymbolicShapeFn* F>
Status shape_keeping_content(const void* params, ShapeCall<Dim>& c) {
  TRY(F(params, c));
  keep_content(c);
  return {};
}

// The shape of input i where its content is known and every dimension is a number.
std::optional<DimVec<int64_t>> known_dims(const ShapeCall<Dim>& c, int i);
// Sets the content of output 0 from that of input 0 where both shapes are numbers: element (i, j, ...) of the output is
// number offset + i * strides[0] + j * strides[1] + ... of the input, of which the caller knows that it exists.
void strided_content(ShapeCall<Dim>& c, std::span<const int64_t> dims, int64_t offset,
                     std::span<const int64_t> strides);

// ---------------------------------------------------------------------------------------------- old versions

// An attribute of integers that newer versions have as input `index`: moves it there, if the node has it.
Status attribute_to_input(ir::Annotator& graph, ir::NodeId id, std::string_view name, size_t index);

}  // namespace tessera
