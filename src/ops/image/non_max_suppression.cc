// NonMaxSuppression — for each class of each image the boxes with the best scores, but none that overlaps a better one
// too much.
#include <cmath>

#include "ops/agree.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  bool center_point_box = false;
};
Status parse(Attrs& a, Params& p) {
  int64_t format = 0;
  a.get("center_point_box", format);
  if (format != 0 && format != 1) return a.refuse("center_point_box", "0 or 1");
  p.center_point_box = format == 1;
  return {};
}

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  if (c.rank(0) != 3 || !agree(c.dim(0, 2), Dim(4))) return c.refuse(0, "four numbers for each box of each image");
  if (c.rank(1) != 3 || !agree(c.dim(1, 0), c.dim(0, 0)) || !agree(c.dim(1, 2), c.dim(0, 1)))
    return c.refuse(1, "a score for each class and box of each image");
  return c.set(0, DimVec<Dim>{c.fresh(), Dim(3)});
}

struct Box {
  float y0, x0, y1, x1, area;

  // v: two opposite corners (y, x, y, x), or the centre and size (x, y, width, height).
  Box(const Params& p, const float* v) {
    if (p.center_point_box) {
      x0 = v[0] - v[2] / 2;
      x1 = v[0] + v[2] / 2;
      y0 = v[1] - v[3] / 2;
      y1 = v[1] + v[3] / 2;
    } else {
      y0 = std::min(v[0], v[2]);
      y1 = std::max(v[0], v[2]);
      x0 = std::min(v[1], v[3]);
      x1 = std::max(v[1], v[3]);
    }
    area = (x1 - x0) * (y1 - y0);
  }

  // In float, so that equality with a threshold means what it says. False for empty boxes and those that hold NaN.
  bool overlaps(const Box& b, float threshold) const {
    const float width = std::min(x1, b.x1) - std::max(x0, b.x0), height = std::min(y1, b.y1) - std::max(y0, b.y0);
    if (!(width > 0 && height > 0 && area > 0 && b.area > 0)) return false;
    const float common = width * height, both = area + b.area - common;
    return common > 0 && both > 0 && common / both > threshold;
  }
};

struct Limits {
  int64_t most = 0;  // boxes per class
  float overlap = 0;
  std::optional<float> score;
};

Result<Limits> limits_of(const Call& call) {
  Limits l;
  for (int i = 2; i < 5; ++i)
    if (call.has(i) && call.count(i) != 1) return call.refuse(i, "one number");
  if (call.has(2)) l.most = std::clamp<int64_t>(call.in<int64_t>(2)[0], 0, call.shape(0)[1]);
  if (call.has(3)) l.overlap = call.in<float>(3)[0];
  if (call.has(4)) l.score = call.in<float>(4)[0];
  if (!(l.overlap >= 0 && l.overlap <= 1)) return call.refuse(3, "a number from 0 to 1");
  return l;
}

// The boxes of one class, best first: their number, and their indexes into `chosen`. Of equal scores the lower index
// comes first; a score that is not a number is none.
int64_t choose(const Params& p, const Call& call, const Limits& l, const float* boxes, const float* scores,
               int64_t* chosen) {
  const int64_t n = call.shape(0)[1];
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i)
    if (!std::isnan(scores[i]) && !(l.score && !(scores[i] > *l.score))) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  std::vector<Box> kept;
  for (const int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= l.most || call.cancelled()) break;
    const Box box(p, boxes + 4 * i);
    bool free = true;
    for (size_t k = 0; k < kept.size() && free; ++k) free = !box.overlaps(kept[k], l.overlap);
    if (!free) continue;
    chosen[kept.size()] = i;
    kept.push_back(box);
  }
  return static_cast<int64_t>(kept.size());
}

Status check_shapes(const Call& call) {
  const Shape &boxes = call.shape(0), &scores = call.shape(1);
  if (boxes.rank() != 3 || boxes[2] != 4) return call.refuse(0, "four numbers for each box of each image");
  if (scores.rank() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1])
    return call.refuse(1, "a score for each class and box of each image");
  return {};
}

Status compute(const Params& p, Call& call) {
  TRY(check_shapes(call));
  TRY_ASSIGN(l, limits_of(call));
  const int64_t boxes = call.shape(0)[1], classes = call.shape(1)[1];
  const int64_t tasks = l.most == 0 ? 0 : call.shape(0)[0] * classes;
  TRY_ASSIGN(chosen, Tensor::allocate(DType::i64, Shape{tasks, l.most}));
  TRY_ASSIGN(counts, Tensor::allocate(DType::i64, Shape{tasks}));
  auto *index = static_cast<int64_t*>(chosen.mutable_data()), *count = static_cast<int64_t*>(counts.mutable_data());
  call.parallel(tasks, [&](int64_t t, int) {
    count[t] = choose(p, call, l, call.in<float>(0) + t / classes * boxes * 4, call.in<float>(1) + t * boxes,
                      index + t * l.most);
  });
  if (call.cancelled()) return call.stopped();
  int64_t total = 0;
  for (int64_t t = 0; t < tasks; ++t) total += count[t];
  TRY_ASSIGN(y, call.allocate<int64_t>(0, Shape{total, 3}));
  for (int64_t t = 0; y && t < tasks; ++t)
    for (int64_t k = 0; k < count[t]; ++k, y += 3) {
      y[0] = t / classes;
      y[1] = t % classes;
      y[2] = index[t * l.most + k];
    }
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(1) | in_arg(3) | in_arg(4), set_of(DType::f32)},
                               {in_arg(2) | out_arg(0), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {10, 11};

}  // namespace

extern constexpr Op kNonMaxSuppression{.domain = "",
                                       .name = "NonMaxSuppression",
                                       .versions = kVersions,
                                       .parse = parse_params<Params, parse>,
                                       .types = type_always<DType::i64>,
                                       .kernels = kKernels};
extern constexpr OpInference kNonMaxSuppressionInference{.shape = infer_shape};

}  // namespace tessera
