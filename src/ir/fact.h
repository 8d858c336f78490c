// Fact: what is known about a value before anything runs: its kind, element type, and shape over symbols.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "ir/dim.h"

namespace tessera {

enum class Kind : uint8_t { unknown, tensor, sparse_tensor, sequence, optional, map, opaque };

struct Fact {
  Kind kind = Kind::unknown;
  DType dtype = DType::undefined;                    // of tensors
  DType key = DType::undefined;                      // of maps
  std::optional<std::vector<Dim>> shape;             // of tensors; nothing when even the rank is unknown
  std::shared_ptr<const Fact> element;               // of sequences, optionals, and map values
  std::optional<std::vector<Dim>> content;           // the elements of a small integer tensor, where they are known
  std::shared_ptr<const std::vector<double>> reals;  // likewise of a small constant of floats
  std::string denotation;                            // carried through, never interpreted

  static Fact tensor(DType dtype, std::optional<std::vector<Dim>> shape = {});
  static Fact sequence(Fact element);
  static Fact optional(Fact element);

  bool is_tensor() const { return kind == Kind::tensor; }
  int rank() const { return shape ? static_cast<int>(shape->size()) : -1; }
  // Every dimension a number.
  std::optional<Shape> static_shape() const;
  // "float[batch,3]", "seq(tensor(float))": the textual syntax.
  std::string str() const;
};

// True if a value of `got` may stand where `want` is declared; unknown parts agree with everything.
bool compatible(const Fact& got, const Fact& want);
// The sharper of two compatible facts, dimension by dimension.
Fact merge(const Fact& a, const Fact& b);

}  // namespace tessera
