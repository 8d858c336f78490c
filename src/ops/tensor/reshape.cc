// Reshape — the same elements under another shape; 0 copies a dimension, -1 is what remains.
#include "ir/patch.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  bool allow_zero = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("allowzero", p.allow_zero);
  return {};
}

// Version 1 has the shape as an attribute.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  if (since >= 5) return {};
  ir::Node& n = graph.node(id);
  n.inputs.resize(1);
  if (!n.find("shape")) n.attributes.push_back(ir::Attribute::integers("shape", {}));
  TRY(attribute_to_input(graph, id, "shape", 1));
  std::erase_if(n.attributes, [](const ir::Attribute& x) { return x.name == "consumed_inputs"; });
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(1) != 1) return c.refuse(1, "a list of dimensions");
  const auto wanted = c.content(1);
  if (!wanted) return c.unknown(0, known(c.dim(1, 0)) ? static_cast<int>(number(c.dim(1, 0))) : -1);
  if (wanted->size() > kMaxRank) return c.refuse(1, "at most 64 dimensions");
  DimVec<D> out;
  int rest = -1;
  D product = 1, total = 1;
  for (const D& d : c.dims(0)) total = total * d;
  for (size_t i = 0; i < wanted->size(); ++i) {
    D d = (*wanted)[i];
    if (known(d) && number(d) == 0 && !p.allow_zero) {
      if (static_cast<int>(i) >= c.rank(0)) return c.refuse(1, "a zero only where input 0 has a dimension");
      d = c.dim(0, static_cast<int>(i));
    }
    if (known(d) && number(d) == -1) {
      if (rest >= 0) return c.refuse(1, "at most one -1");
      rest = static_cast<int>(i);
      out.push(D(1));
      continue;
    }
    if (known(d) && number(d) < -1) return c.refuse(1, "dimensions of at least -1");
    if (known(d) && known(product) && number(d) > 0) {
      int64_t check;
      if (!checked_mul(number(product), number(d), &check)) return c.refuse(1, "as many elements as input 0 has");
    }
    product = product * d;
    out.push(d);
  }
  if (rest >= 0) {
    if (known(product) && known(total)) {
      const bool exact = number(product) != 0 && number(total) % number(product) == 0;
      if (!exact && !(number(product) == 0 && number(total) == 0))
        return c.refuse(1, format("a shape for {} elements", number(total)));
      out[rest] = exact ? D(number(total) / number(product)) : D(0);
    } else {
      out[rest] = floor_div(total, product);
    }
  } else if (known(product) && known(total) && number(product) != number(total)) {
    return c.refuse(1, format("a shape for {} elements", number(total)));
  }
  return c.set(0, out);
}

Status compute(const Params&, Call& call) { return copy_input(call); }

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 5, 13, 14, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kReshape{.domain = "",
                             .name = "Reshape",
                             .versions = kVersions,
                             .parse = parse_params<Params, parse>,
                             .shape = shape_with<Params, int64_t, shape<int64_t>>,
                             .kernels = kKernels,
                             .shape_inputs = in_arg(1),
                             .view = 0,
                             .upgrade = upgrade};
extern constexpr OpInference kReshapeInference{.shape = shape_keeping_content<shape_with<Params, Dim, shape<Dim>>>};

}  // namespace tessera
