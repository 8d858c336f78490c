// What the sequence operators share.
#pragma once
#include "ops/op.h"

namespace tessera {

inline constexpr TypeRule kPositionTypes[] = {{in_arg(1), kIndexTypes}};

// The integer in input i brought into [0, size), or refused; with `end`, size itself is allowed too.
inline Result<int64_t> position_in(const Call& call, int i, int64_t size, bool end = false) {
  if (call.count(i) != 1) return call.refuse(i, "one position");
  const int64_t given = call.integer(i, 0), at = given < 0 ? given + size : given;
  if (at < 0 || at > size || (at == size && !end))
    return call.refuse(i, "a position in a sequence of {} elements", size);
  return int64_t{at};
}

// The sequence in input i, unshared: nobody else sees what is done to it.
inline Result<Value> take_sequence(Call& call, int i) {
  TRY_ASSIGN(v, call.take(i));
  if (!v.own_sequence()) return call.refuse(i, "a sequence");
  return std::move(v);
}
// The sequence in input i, to be read.
inline Result<Value> read_sequence(const Call& call, int i) {
  if (call.is_tensor(i)) return call.refuse(i, "a sequence");
  TRY_ASSIGN(v, call.value(i));
  if (!v.sequence()) return call.refuse(i, "a sequence");
  return std::move(v);
}

inline void type_sequence_of_input(TypeCall& c) { c.out[0] = {Kind::sequence, c.in[0].dtype, Kind::tensor}; }

}  // namespace tessera
