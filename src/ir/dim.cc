#include "ir/dim.h"

#include <algorithm>

#include "base/checked.h"
#include "base/format.h"

namespace tessera {
namespace {

// Larger sums are not worth reasoning about: they become a fresh symbol.
constexpr size_t kMostTerms = 16, kMostAtoms = 8;

std::vector<DimTerm> terms_of(const Dim& d) {
  if (d.expr()) return d.expr()->terms;
  return d.value() ? std::vector<DimTerm>{{d.value(), {}}} : std::vector<DimTerm>{};
}
DimPool& pool_of(const Dim& a, const Dim& b) { return *(a.expr() ? a.expr() : b.expr())->pool; }

bool atoms_less(const DimTerm& a, const DimTerm& b) {
  return std::lexicographical_compare(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                                      [](const DimAtom* x, const DimAtom* y) { return x->id < y->id; });
}

Dim combine(const Dim& a, const Dim& b, int64_t sign) {
  std::vector<DimTerm> terms = terms_of(a);
  for (DimTerm t : terms_of(b)) {
    if (!checked_mul(t.coefficient, sign, &t.coefficient)) return pool_of(a, b).fresh();
    terms.push_back(std::move(t));
  }
  return pool_of(a, b).make(std::move(terms));
}

int64_t apply(DimAtom::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case DimAtom::Kind::floor_div: return b ? floor_div(a, b) : 0;
    case DimAtom::Kind::max: return dim_max(a, b);
    default: return dim_min(a, b);
  }
}

std::string key_of(const Dim& d) {
  return d.known() ? format("{}", d.value()) : format("@{}", reinterpret_cast<uint64_t>(d.expr()));
}

std::string atom_str(const DimAtom& a) {
  switch (a.kind) {
    case DimAtom::Kind::symbol: return a.name;
    case DimAtom::Kind::floor_div: return format("floor(({})/({}))", a.a.str(), a.b.str());
    case DimAtom::Kind::max: return format("max({},{})", a.a.str(), a.b.str());
    default: return format("min({},{})", a.a.str(), a.b.str());
  }
}

}  // namespace

Dim DimPool::symbol(std::string_view name) {
  if (const auto it = fixed_.find(name); it != fixed_.end()) return Dim(it->second);
  const auto found = symbols_.find(name);
  const DimAtom* a = found == symbols_.end() ? nullptr : found->second;
  if (!a) {
    atoms_.push_back({DimAtom::Kind::symbol, static_cast<int>(atoms_.size()), std::string(name), {}, {}});
    a = symbols_[std::string(name)] = &atoms_.back();
  }
  return make({{1, {a}}});
}

Dim DimPool::denoted(std::string_view denotation, std::string_view name, Dim otherwise) {
  const auto found = denotation.empty() || otherwise.known() ? denoted_.end() : denoted_.find(denotation);
  if (found == denoted_.end()) return otherwise;
  if (!name.empty()) fix(name, found->second);
  return Dim(found->second);
}

Dim DimPool::fresh() {
  while (symbols_.find(format("unknown_{}", fresh_)) != symbols_.end()) ++fresh_;
  return symbol(format("unknown_{}", fresh_++));
}

Dim DimPool::make(std::vector<DimTerm> terms) {
  std::sort(terms.begin(), terms.end(), atoms_less);
  std::vector<DimTerm> sum;
  for (DimTerm& t : terms) {
    if (!sum.empty() && sum.back().atoms == t.atoms) {
      if (!checked_add(sum.back().coefficient, t.coefficient, &sum.back().coefficient)) return fresh();
    } else {
      sum.push_back(std::move(t));
    }
    if (sum.back().coefficient == 0) sum.pop_back();
  }
  if (sum.empty()) return Dim(0);
  if (sum.size() == 1 && sum[0].atoms.empty()) return Dim(sum[0].coefficient);
  if (sum.size() > kMostTerms) return fresh();
  std::string key;
  for (const DimTerm& t : sum) {
    if (t.atoms.size() > kMostAtoms) return fresh();
    key += format("{}:", t.coefficient);
    for (const DimAtom* a : t.atoms) key += format("{}*", a->id);
    key += '+';
  }
  auto& slot = exprs_[key];
  if (!slot) slot = std::make_unique<DimExpr>(DimExpr{this, std::move(sum)});
  return Dim(*slot);
}

Dim DimPool::atom(DimAtom::Kind kind, Dim a, Dim b) {
  const DimAtom*& slot = operations_[format("{} {} {}", static_cast<int>(kind), key_of(a), key_of(b))];
  if (!slot) {
    atoms_.push_back({kind, static_cast<int>(atoms_.size()), {}, a, b});
    slot = &atoms_.back();
  }
  return make({{1, {slot}}});
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.known() && b.known())
    return Dim(static_cast<int64_t>(static_cast<uint64_t>(a.value()) + static_cast<uint64_t>(b.value())));
  return combine(a, b, 1);
}
Dim operator-(const Dim& a, const Dim& b) {
  if (a.known() && b.known())
    return Dim(static_cast<int64_t>(static_cast<uint64_t>(a.value()) - static_cast<uint64_t>(b.value())));
  return combine(a, b, -1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.known() && b.known())
    return Dim(static_cast<int64_t>(static_cast<uint64_t>(a.value()) * static_cast<uint64_t>(b.value())));
  std::vector<DimTerm> product;
  for (const DimTerm& x : terms_of(a))
    for (const DimTerm& y : terms_of(b)) {
      DimTerm t{0, x.atoms};
      if (!checked_mul(x.coefficient, y.coefficient, &t.coefficient)) return pool_of(a, b).fresh();
      t.atoms.insert(t.atoms.end(), y.atoms.begin(), y.atoms.end());
      std::sort(t.atoms.begin(), t.atoms.end(), [](const DimAtom* p, const DimAtom* q) { return p->id < q->id; });
      product.push_back(std::move(t));
    }
  if (product.size() > kMostTerms * 2) return pool_of(a, b).fresh();
  return pool_of(a, b).make(std::move(product));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (b.known() && b.value() == 1) return a;
  if (a == b) return Dim(1);
  if (a.known() && b.known()) return Dim(b.value() ? floor_div(a.value(), b.value()) : 0);
  // Divide term by term when that is exact: (2*n*k) / (2*k) = n.
  const std::vector<DimTerm> divisor = terms_of(b);
  if (divisor.size() == 1) {
    std::vector<DimTerm> quotient = terms_of(a);
    bool exact = true;
    for (DimTerm& t : quotient) {
      exact = exact && t.coefficient % divisor[0].coefficient == 0;
      for (const DimAtom* atom : divisor[0].atoms) {
        const auto it = std::find(t.atoms.begin(), t.atoms.end(), atom);
        exact = exact && it != t.atoms.end();
        if (it != t.atoms.end()) t.atoms.erase(it);
      }
      if (exact) t.coefficient /= divisor[0].coefficient;
    }
    if (exact) return pool_of(a, b).make(std::move(quotient));
  }
  return pool_of(a, b).atom(DimAtom::Kind::floor_div, a, b);
}

Dim dim_max(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.known() && b.known()) return Dim(dim_max(a.value(), b.value()));
  return pool_of(a, b).atom(DimAtom::Kind::max, a, b);
}
Dim dim_min(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.known() && b.known()) return Dim(dim_min(a.value(), b.value()));
  return pool_of(a, b).atom(DimAtom::Kind::min, a, b);
}

std::string Dim::str() const {
  if (known()) return format("{}", value_);
  std::string out;
  for (const DimTerm& t : expr_->terms) {
    if (!out.empty() && t.coefficient > 0) out += '+';
    if (t.coefficient == -1 && !t.atoms.empty())
      out += '-';
    else if (t.coefficient != 1 || t.atoms.empty())
      out += format(t.atoms.empty() ? "{}" : "{}*", t.coefficient);
    for (size_t i = 0; i < t.atoms.size(); ++i) out += (i ? "*" : "") + atom_str(*t.atoms[i]);
  }
  return out;
}

int64_t Dim::evaluate(FunctionRef<int64_t(std::string_view)> value_of) const {
  if (known()) return value_;
  uint64_t sum = 0;
  for (const DimTerm& t : expr_->terms) {
    auto product = static_cast<uint64_t>(t.coefficient);
    for (const DimAtom* a : t.atoms)
      product *= static_cast<uint64_t>(a->kind == DimAtom::Kind::symbol
                                           ? value_of(a->name)
                                           : apply(a->kind, a->a.evaluate(value_of), a->b.evaluate(value_of)));
    sum += product;
  }
  return static_cast<int64_t>(sum);
}

}  // namespace tessera
