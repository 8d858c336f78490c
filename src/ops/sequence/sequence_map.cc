// SequenceMap — a body run for every element of a sequence, and of further sequences beside it.
#include "ops/control/bodies.h"
#include "ops/sequence/sequences.h"

namespace tessera {
namespace {

struct Params {
  BodyRef body;
};
Status parse(Attrs& a, Params& p) {
  TRY(get_body(a, "body", p.body));
  return check_body(p.body, "body", static_cast<int>(a.node().inputs.size()),
                    static_cast<int>(a.node().outputs.size()));
}

void types(TypeCall& c) {
  for (size_t o = 0; o < c.out.size(); ++o) c.out[o] = {Kind::sequence, c.bodies[0][o].dtype, Kind::tensor};
}

Status infer(const ir::Node&, const void* params, DimPool&, std::span<const Fact* const>, std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  // The dimensions of elements differ: only those that are numbers hold for all of them.
  for (size_t o = 0; o < out.size(); ++o) {
    const Fact& result = p.body.output(static_cast<int>(o));
    if (result.is_tensor()) out[o] = Fact::sequence(Fact::tensor(result.dtype, result.shape));
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  std::vector<Value> given;
  for (int i = 0; i < call.inputs(); ++i) {
    TRY_ASSIGN(v, call.value(i));
    given.push_back(std::move(v));
  }
  if (!given[0].sequence()) return call.refuse(0, "a sequence");
  const size_t size = given[0].sequence()->items.size();
  for (size_t i = 1; i < given.size(); ++i)
    if (given[i].sequence() && given[i].sequence()->items.size() != size)
      return call.refuse(static_cast<int>(i), "a sequence of {} elements", size);
  std::vector<std::shared_ptr<Sequence>> results(static_cast<size_t>(call.outputs()));
  for (size_t o = 0; o < results.size(); ++o) {
    results[o] = std::make_shared<Sequence>();
    results[o]->element = p.body.output(static_cast<int>(o)).dtype;
  }
  for (size_t k = 0; k < size; ++k) {
    if (call.cancelled()) return call.stopped();
    std::vector<Value> in, out(static_cast<size_t>(p.body.outputs()));
    for (const Value& v : given) in.push_back(v.sequence() ? v.sequence()->items[k] : v);
    TRY(call.body(p.body.index).run(in, out));
    for (size_t o = 0; o < results.size(); ++o) results[o]->items.push_back(std::move(out[o]));
  }
  for (size_t o = 0; o < results.size(); ++o) call.set(static_cast<int>(o), std::move(results[o]));
  return {};
}

constexpr Kernel kKernels[] = {{{}, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {17};

}  // namespace

extern constexpr Op kSequenceMap{.domain = "",
                                 .name = "SequenceMap",
                                 .versions = kVersions,
                                 .parse = parse_params<Params, parse>,
                                 .types = types,
                                 .kernels = kKernels,
                                 .maps_elements = true};
extern constexpr OpInference kSequenceMapInference{.infer = infer};

}  // namespace tessera
