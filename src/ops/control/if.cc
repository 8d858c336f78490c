// If — runs one of two bodies, whichever the condition says.
#include "ops/control/bodies.h"

namespace tessera {
namespace {

struct Params {
  BodyRef then_branch, else_branch;
};

Status parse(Attrs& a, Params& p) {
  TRY(get_body(a, "then_branch", p.then_branch));
  TRY(get_body(a, "else_branch", p.else_branch));
  const int outputs = static_cast<int>(a.node().outputs.size());
  TRY(check_body(p.then_branch, "then_branch", 0, outputs));
  return check_body(p.else_branch, "else_branch", 0, outputs);
}

void types(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  for (size_t o = 0; o < c.out.size(); ++o)
    c.out[o] = either(c.bodies[static_cast<size_t>(p.then_branch.index)][o],
                      c.bodies[static_cast<size_t>(p.else_branch.index)][o]);
}

Status infer(const ir::Node&, const void* params, DimPool& dims, std::span<const Fact* const>, std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  for (size_t o = 0; o < out.size(); ++o) {
    const Fact &a = p.then_branch.output(static_cast<int>(o)), &b = p.else_branch.output(static_cast<int>(o));
    if (a.kind == Kind::unknown || b.kind == Kind::unknown || a.kind != b.kind) continue;
    out[o] = either(a, b, dims);
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  if (call.count(0) != 1) return call.refuse(0, "one truth value");
  const BodyRef& branch = *call.in<bool>(0) ? p.then_branch : p.else_branch;
  std::vector<Value> results(static_cast<size_t>(branch.outputs()));
  TRY(call.body(branch.index).run({}, results));
  for (int o = 0; o < call.outputs(); ++o) call.set(o, std::move(results[static_cast<size_t>(o)]));
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::boolean)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 11, 13, 16, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kIf{.domain = "",
                        .name = "If",
                        .versions = kVersions,
                        .parse = parse_params<Params, parse>,
                        .types = types,
                        .kernels = kKernels};
extern constexpr OpInference kIfInference{.infer = infer};

}  // namespace tessera
