// Einsum — sums of products of operands whose dimensions are named by an equation, two operands at a time.
#include <algorithm>
#include <limits>

#include "ops/elementwise.h"
#include "ops/math/einsum_equation.h"
#include "ops/math/einsum_product.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  EinsumEquation equation;
};
Status parse(Attrs& a, Params& p) {
  std::string text;
  a.get("equation", text);
  TRY_ASSIGN(equation, EinsumEquation::parse(text, a.node().inputs.size()));
  p.equation = std::move(equation);
  return {};
}

// ---------------------------------------------------------------------------------------------- shapes

// How many dimensions the ellipses stand for.
template <class D>
Result<int> ellipsis_rank(const EinsumEquation& e, ShapeCall<D>& c) {
  std::optional<int> found;
  for (int i = 0; i < c.inputs(); ++i) {
    const int rest = c.rank(i) - e.letters(i);
    if (rest < 0 || (rest > 0 && !e.has_ellipsis(i)))
      return c.refuse(
          i, format("{} dimensions, one for each letter of its term in equation {}", e.letters(i), quote(e.text())));
    if (!e.has_ellipsis(i)) continue;
    if (found.value_or(rest) != rest)
      return c.refuse(i, format("{} dimensions for '...' of equation {}, as before", *found, quote(e.text())));
    found = rest;
  }
  return found.value_or(0);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const EinsumEquation& e = p.equation;
  TRY_ASSIGN(ellipsis, ellipsis_rank(e, c));
  D dims[EinsumEquation::kLabels];
  std::fill(std::begin(dims), std::end(dims), D(1));
  for (int i = 0; i < c.inputs(); ++i) {
    const std::vector<int> labels = e.operand(i, ellipsis);
    for (size_t k = 0; k < labels.size(); ++k) {
      const D here = c.dim(i, static_cast<int>(k));
      const auto first = static_cast<int>(std::find(labels.begin(), labels.end(), labels[k]) - labels.begin());
      const D before = c.dim(i, first);
      if (known(before) && known(here) && number(before) != number(here))
        return c.refuse(i, format("equal dimensions for {}", e.where(labels[k])));
      D& d = dims[labels[k]];
      if (!broadcast_dim(d, here, c, &d))
        return c.refuse(i, format("dimension {} for {}", number(d), e.where(labels[k])));
    }
  }
  const std::vector<int> labels = e.output(ellipsis);
  if (labels.size() >= kMaxRank) return c.refuse(0, format("fewer than {} output dimensions", kMaxRank));
  DimVec<D> out;
  for (const int label : labels) out.push(dims[label]);
  return c.set(0, out);
}

// ---------------------------------------------------------------------------------------------- operands

struct Axis {
  int label;
  int64_t size, step;
};
// A tensor under labels, each at most once; dimensions of size 1 are left out.
struct Operand {
  const void* data;
  std::vector<Axis> axes;
  Tensor own;

  const Axis* find(int label) const {
    for (const Axis& a : axes)
      if (a.label == label) return &a;
    return nullptr;
  }
  int64_t step(int label) const {
    const Axis* a = find(label);
    return a ? a->step : 0;
  }
};

// A label that occurs twice walks the diagonal.
Operand operand_of(const Call& call, int i, const std::vector<int>& labels) {
  Operand out{call.in(i), {}, {}};
  int64_t steps[kMaxRank];
  strides_of(call.shape(i).dims(), steps);
  for (size_t k = 0; k < labels.size(); ++k) {
    const int64_t size = call.shape(i)[static_cast<int>(k)];
    if (size == 1) continue;
    const auto same = [&](const Axis& a) { return a.label == labels[k]; };
    const auto it = std::find_if(out.axes.begin(), out.axes.end(), same);
    if (it == out.axes.end())
      out.axes.push_back({labels[k], size, steps[k]});
    else
      it->step += steps[k];
  }
  return out;
}

// ---------------------------------------------------------------------------------------------- contraction

template <class T>
class Contraction {
 public:
  Contraction(Call& call, std::vector<Operand> operands, std::vector<int> output)
      : call_(call), operands_(std::move(operands)), output_(std::move(output)) {
    std::fill(std::begin(size_), std::end(size_), 1);
    for (const Operand& o : operands_)
      for (const Axis& a : o.axes) size_[a.label] = a.size;
    std::erase_if(output_, [&](int label) { return size_[label] == 1; });
  }

  Status run() {
    if (operands_.size() > 1)
      for (Operand& o : operands_) TRY(sum_alone(o));
    while (operands_.size() > 2) {
      const auto [i, j] = cheapest_pair();
      Operand a = std::move(operands_[i]), b = std::move(operands_[j]);
      operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(j));
      operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(i));
      TRY_ASSIGN(product, contract(std::move(a), std::move(b)));
      operands_.push_back(std::move(product));
      if (call_.cancelled()) return call_.stopped();
    }
    TRY(finish());
    return call_.cancelled() ? call_.stopped() : Status{};
  }

 private:
  using Labels = std::vector<int>;

  bool in_output(int label) const { return std::find(output_.begin(), output_.end(), label) != output_.end(); }
  // True if the label is in the output or in an operand of the list other than `except`.
  bool needed(int label, const Operand* except = nullptr) const {
    if (in_output(label)) return true;
    for (const Operand& o : operands_)
      if (&o != except && o.find(label)) return true;
    return false;
  }

  std::vector<EinsumLoop> loops(const Labels& labels, const Operand& a, const Operand* b) const {
    std::vector<EinsumLoop> out;
    for (const int label : labels) out.push_back({size_[label], a.step(label), b ? b->step(label) : 0});
    return out;
  }

  Result<Operand> fresh(const Labels& labels) const {
    std::vector<int64_t> dims, steps(labels.size());
    for (const int label : labels) dims.push_back(size_[label]);
    TRY_ASSIGN(shape, Shape::checked(dims));
    TRY_ASSIGN(t, Tensor::allocate(dtype_of<T>, std::move(shape)));
    strides_of(dims, steps.data());
    Operand out{t.data(), {}, t};
    for (size_t k = 0; k < labels.size(); ++k) out.axes.push_back({labels[k], dims[k], steps[k]});
    return out;
  }

  // Sums the dimensions of an operand that nobody else has.
  Status sum_alone(Operand& o) {
    Labels kept, summed;
    for (const Axis& a : o.axes) (needed(a.label, &o) ? kept : summed).push_back(a.label);
    if (summed.empty()) return {};
    TRY_ASSIGN(out, fresh(kept));
    const T one{1};
    sum_of_products<T>(call_, loops(kept, o, nullptr), loops(summed, o, nullptr), static_cast<const T*>(o.data), &one,
                       static_cast<T*>(out.own.mutable_data()));
    o = std::move(out);
    return {};
  }

  // The two operands whose product takes the fewest multiplications; long lists are taken as they come.
  std::pair<size_t, size_t> cheapest_pair() const {
    constexpr size_t kMostSearched = 32;
    if (operands_.size() > kMostSearched) return {0, 1};
    std::pair<size_t, size_t> best{0, 1};
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < operands_.size(); ++i)
      for (size_t j = i + 1; j < operands_.size(); ++j) {
        double cost = 1;
        for (const Axis& a : operands_[i].axes) cost *= static_cast<double>(a.size);
        for (const Axis& b : operands_[j].axes)
          if (!operands_[i].find(b.label)) cost *= static_cast<double>(b.size);
        if (cost < least) least = cost, best = {i, j};
      }
    return best;
  }

  // Labels of a product: in both operands and wanted, only in A, only in B, in both and summed.
  struct Groups {
    Labels batch, m, n, k;
    Labels result() const {
      Labels out = batch;
      out.insert(out.end(), m.begin(), m.end());
      out.insert(out.end(), n.begin(), n.end());
      return out;
    }
  };
  int place(int label) const {
    return static_cast<int>(std::find(output_.begin(), output_.end(), label) - output_.begin());
  }
  Groups groups(const Operand& a, const Operand& b) const {
    Groups g;
    for (const Axis& x : a.axes) {
      if (!b.find(x.label))
        g.m.push_back(x.label);
      else
        (needed(x.label) ? g.batch : g.k).push_back(x.label);
    }
    for (const Axis& x : b.axes)
      if (!a.find(x.label)) g.n.push_back(x.label);
    for (Labels* list : {&g.batch, &g.m, &g.n})
      std::stable_sort(list->begin(), list->end(), [&](int x, int y) { return place(x) < place(y); });
    return g;
  }
  // True if the output wants a label of B before those of A.
  bool swapped(const Groups& g) const {
    return !g.n.empty() && (g.m.empty() || place(g.n[0]) < place(g.m[0])) && in_output(g.n[0]);
  }

  int64_t volume(const Labels& labels) const {
    int64_t n = 1;
    for (const int label : labels) n *= size_[label];
    return n;
  }
  bool is_matrix_product(const Groups& g) const {
    constexpr int64_t kLeast = 4;
    return std::is_same_v<T, float> && volume(g.m) >= kLeast && volume(g.n) >= kLeast && volume(g.k) >= kLeast;
  }

  // The product of two operands that are no longer in the list.
  Result<Operand> contract(Operand a, Operand b) {
    Groups g = groups(a, b);
    if (swapped(g)) std::swap(a, b), g = groups(a, b);
    const Labels labels = g.result();
    TRY_ASSIGN(out, fresh(labels));
    auto* y = static_cast<T*>(out.own.mutable_data());
    if (is_matrix_product(g)) {
      TRY(multiply(g, a, b, y));
    } else {
      sum_of_products<T>(call_, loops(labels, a, &b), loops(g.k, a, &b), static_cast<const T*>(a.data),
                         static_cast<const T*>(b.data), y);
    }
    return std::move(out);
  }

  // One or two operands are left: their product goes to the output, in its order.
  Status finish() {
    Operand a = std::move(operands_[0]), b{};
    const bool two = operands_.size() == 2;
    if (two) b = std::move(operands_[1]);
    operands_.clear();
    T* y = call_.out<T>(0);
    if (two) {
      Groups g = groups(a, b);
      if (swapped(g)) std::swap(a, b), g = groups(a, b);
      if (is_matrix_product(g) && g.result() == output_) return multiply(g, a, b, y);
      if (!is_matrix_product(g)) {
        sum_of_products<T>(call_, loops(output_, a, &b), loops(g.k, a, &b), static_cast<const T*>(a.data),
                           static_cast<const T*>(b.data), y);
        return {};
      }
      TRY_ASSIGN(product, contract(std::move(a), std::move(b)));
      a = std::move(product);
    }
    Labels summed;
    for (const Axis& x : a.axes)
      if (!in_output(x.label)) summed.push_back(x.label);
    const T one{1};
    if (summed.empty())
      copy_to(output_, a, y);
    else
      sum_of_products<T>(call_, loops(output_, a, nullptr), loops(summed, a, nullptr), static_cast<const T*>(a.data),
                         &one, y);
    return {};
  }

  void copy_to(const Labels& labels, const Operand& from, T* y) const {
    std::vector<int64_t> dims, steps, to(labels.size());
    for (const int label : labels) {
      dims.push_back(size_[label]);
      steps.push_back(from.step(label));
    }
    strides_of(dims, to.data());
    copy_strided(call_, dtype_of<T>, dims, from.data, {0, steps}, y, {0, to});
  }

  // A matrix in place: rows and columns `step` apart, one of the steps 1.
  struct Matrix {
    int64_t row, column;
    bool usable;
  };
  Matrix matrix_of(const Labels& rows, const Labels& columns, const Operand& o) const {
    const auto r = merged(loops(rows, o, nullptr)), c = merged(loops(columns, o, nullptr));
    if (r.size() != 1 || c.size() != 1) return {0, 0, false};
    return {r[0].a, c[0].a, r[0].a == 1 || c[0].a == 1};
  }
  // Brings the operand into the order [batch, rows, columns] unless its matrices can be used as they lie.
  Result<Matrix> arrange(const Groups& g, const Labels& rows, const Labels& columns, Operand& o) const {
    const Matrix m = matrix_of(rows, columns, o);
    if (m.usable) return m;
    Labels labels = g.batch;
    labels.insert(labels.end(), rows.begin(), rows.end());
    labels.insert(labels.end(), columns.begin(), columns.end());
    TRY_ASSIGN(copy, fresh(labels));
    copy_to(labels, o, static_cast<T*>(copy.own.mutable_data()));
    o = std::move(copy);
    return matrix_of(rows, columns, o);
  }

  Status multiply(const Groups& g, Operand& a, Operand& b, T* y) const {
    if constexpr (std::is_same_v<T, float>) {
      TRY_ASSIGN(ma, arrange(g, g.m, g.k, a));
      TRY_ASSIGN(mb, arrange(g, g.k, g.n, b));
      const bool trans_a = ma.column != 1, trans_b = mb.column != 1;
      const EinsumMatrices p{
          loops(g.batch, a, &b),        volume(g.m), volume(g.n), volume(g.k), trans_a ? ma.column : ma.row,
          trans_b ? mb.column : mb.row, trans_a,     trans_b};
      return multiply_matrices(call_, p, static_cast<const float*>(a.data), static_cast<const float*>(b.data), y);
    }
    return {};
  }

  Call& call_;
  std::vector<Operand> operands_;
  Labels output_;
  int64_t size_[EinsumEquation::kLabels];  // 1 for labels that nobody has
};

template <class T>
Status compute(const Params& p, Call& call) {
  const int64_t count = call.out_count(0);
  if (count == 0) return {};
  int ellipsis = 0;
  for (int i = 0; i < call.inputs(); ++i)
    if (p.equation.has_ellipsis(i)) ellipsis = call.shape(i).rank() - p.equation.letters(i);
  std::vector<Operand> operands;
  bool empty = false;
  for (int i = 0; i < call.inputs(); ++i) {
    operands.push_back(operand_of(call, i, p.equation.operand(i, ellipsis)));
    empty = empty || call.count(i) == 0;
  }
  if (empty) {
    std::fill_n(call.out<T>(0), count, T{0});
    return {};
  }
  return Contraction<T>(call, std::move(operands), p.equation.output(ellipsis)).run();
}

template <class T>
constexpr Kernel kKernel{kAllSame<T>, compute_with<Params, compute<T>>};
constexpr Kernel kKernels[] = {kKernel<float>,   kKernel<double>,   kKernel<int32_t>,
                               kKernel<int64_t>, kKernel<uint32_t>, kKernel<uint64_t>};
constexpr int16_t kVersions[] = {12, 28};

}  // namespace

extern constexpr Op kEinsum{.domain = "",
                            .name = "Einsum",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .shape = shape_with<Params, int64_t, shape<int64_t>>,
                            .kernels = kKernels};
extern constexpr OpInference kEinsumInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
