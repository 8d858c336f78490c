// Dim: one dimension of a shape, a number or an expression over symbols ("batch", "2*seq+1"). Equal expressions are the
// same object, so comparing two Dims is comparing pointers. Expressions live in the DimPool of their model.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"

namespace tessera {

class DimPool;
struct DimExpr;

class Dim {
 public:
  Dim(int64_t value = 0) : value_(value) {}
  explicit Dim(const DimExpr& e) : expr_(&e) {}

  bool known() const { return !expr_; }
  int64_t value() const { return value_; }  // of a known one
  const DimExpr* expr() const { return expr_; }
  std::string str() const;
  // The number, given one for each symbol.
  int64_t evaluate(FunctionRef<int64_t(std::string_view symbol)> value_of) const;

  friend bool operator==(const Dim& a, const Dim& b) { return a.expr_ == b.expr_ && (a.expr_ || a.value_ == b.value_); }
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim dim_max(const Dim& a, const Dim& b);
  friend Dim dim_min(const Dim& a, const Dim& b);

 private:
  int64_t value_ = 0;
  const DimExpr* expr_ = nullptr;
};

// A symbol, or an operation that does not distribute over sums.
struct DimAtom {
  enum class Kind : uint8_t { symbol, floor_div, max, min } kind;
  int id;
  std::string name;  // of a symbol
  Dim a, b;          // operands of the others
};
struct DimTerm {
  int64_t coefficient;
  std::vector<const DimAtom*> atoms;  // ordered by id
};
// A sum of products, in canonical order; never a mere number.
struct DimExpr {
  DimPool* pool;
  std::vector<DimTerm> terms;
};

// Owner of the expressions of one model. Not for use from two threads at once.
class DimPool {
 public:
  Dim symbol(std::string_view name);
  // From now on the symbol is this number, as a user's option may say.
  void fix(std::string_view name, int64_t value) { fixed_.emplace(std::string(name), value); }
  // The same for every dimension that denotes this, as "DATA_BATCH".
  void fix_denoted(std::string_view denotation, int64_t value) { denoted_.emplace(std::string(denotation), value); }
  // A dimension as a file has it: a number if its denotation was fixed to one. Others of its name are that number then.
  Dim denoted(std::string_view denotation, std::string_view name, Dim otherwise);
  // A dimension nobody knows anything about.
  Dim fresh();

  // For Dim's operators.
  Dim make(std::vector<DimTerm> terms);
  Dim atom(DimAtom::Kind kind, Dim a, Dim b);

 private:
  std::deque<DimAtom> atoms_;
  std::map<std::string, const DimAtom*, std::less<>> symbols_;
  std::unordered_map<std::string, std::unique_ptr<DimExpr>> exprs_;
  std::unordered_map<std::string, const DimAtom*> operations_;
  std::map<std::string, int64_t, std::less<>> fixed_, denoted_;
  int fresh_ = 0;
};

// The same words for plain numbers, so that one shape function serves both.
inline bool known(int64_t) { return true; }
inline bool known(const Dim& d) { return d.known(); }
inline int64_t number(int64_t d) { return d; }
inline int64_t number(const Dim& d) { return d.value(); }
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline int64_t dim_max(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t dim_min(int64_t a, int64_t b) { return a < b ? a : b; }
template <class D>
D ceil_division(const D& a, const D& b) {
  return floor_div(a + b - D(1), b);
}

}  // namespace tessera
