// What the operators of com.microsoft share.
#pragma once
#include "ops/compose.h"

namespace tessera::contrib {

inline constexpr const char* kDomain = "com.microsoft";
inline constexpr int16_t kVersions[] = {1};

// How many inputs and outputs a node may have, and which inputs it must have (in_arg() of each). The standard's
// operators are checked against its signatures; those of this domain by this.
struct Arity {
  uint32_t required;
  size_t inputs, outputs = 1;
};
Status check(const Arity& arity, const ir::Node& n);

// For parse(): checks the node, then reads its attributes.
template <class P, const Arity& A, Status (*F)(Attrs&, P&)>
Status parse_checked(Attrs& attrs, std::shared_ptr<const void>* out) {
  TRY(check(A, attrs.node()));
  return parse_params<P, F>(attrs, out);
}
// The same for an operator without attributes.
template <const Arity& A>
Status parse_nothing(Attrs& attrs, std::shared_ptr<const void>*) {
  return check(A, attrs.node());
}

template <const Arity& A, Status (*F)(Composer&)>
Status compose_checked(Composer& c) {
  TRY(check(A, c.attrs().node()));
  TRY(F(c));
  return c.attrs().done();
}
template <const Arity& A, Status (*F)(Composer&)>
constexpr Op composed(const char* name) {
  return {.domain = kDomain, .name = name, .versions = kVersions, .kernels = {}, .compose = compose_checked<A, F>};
}

// A constant list of integers.
ir::ValueId list(Composer& c, std::vector<int64_t> values);
// The attributes of the node that are named, as they are.
std::vector<ir::Attribute> keep_attributes(Composer& c, std::initializer_list<std::string_view> names);

}  // namespace tessera::contrib
