#include "ops/signatures.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace tessera::spec {
namespace {

struct DomainVersion {
  uint16_t domain_at, opset;
};

#include "ops/signatures_data.inc"

std::string_view text(int at) { return kText + at; }

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

int least_count(std::span<const Argument> arguments) {
  int least = 0;
  for (int i = 0; i < static_cast<int>(arguments.size()); ++i) {
    const Argument& a = arguments[i];
    if (a.option == ArgumentOption::single) least = i + 1;
    if (a.option == ArgumentOption::variadic) least = i + a.min_arity;
  }
  return least;
}

int most_count(std::span<const Argument> arguments) {
  if (!arguments.empty() && arguments.back().option == ArgumentOption::variadic) return Signature::kUnbounded;
  return static_cast<int>(arguments.size());
}

const Argument* argument(std::span<const Argument> arguments, int i) {
  if (i < 0 || i >= most_count(arguments)) return nullptr;
  return &arguments[std::min<size_t>(i, arguments.size() - 1)];
}

}  // namespace

std::string_view TypeConstraint::name() const { return text(name_at); }
const TypeSet& TypeConstraint::types() const { return kTypeSets[types_at]; }

std::string_view Argument::name() const { return text(name_at); }
std::string_view Argument::type_text() const { return text(type_text_at); }
const TypeSet& Argument::types() const { return kTypeSets[types_at]; }

std::string_view Attribute::name() const { return text(name_at); }
float Attribute::default_float() const { return std::bit_cast<float>(value); }
std::string_view Attribute::default_string() const { return text(value); }
std::span<const int64_t> Attribute::default_ints() const { return {kDefaultLists + value, count}; }
std::string_view Attribute::default_string(int i) const { return text(static_cast<int>(kDefaultLists[value + i])); }

std::string_view Signature::domain() const { return text(domain_at); }
std::string_view Signature::name() const { return text(name_at); }
std::span<const Argument> Signature::inputs() const { return {kArguments + inputs_at, input_count}; }
std::span<const Argument> Signature::outputs() const { return {kArguments + outputs_at, output_count}; }
std::span<const Attribute> Signature::attributes() const { return {kAttributes + attributes_at, attribute_count}; }
std::span<const TypeConstraint> Signature::constraints() const {
  return {kConstraints + constraints_at, constraint_count};
}

int Signature::min_inputs() const { return least_count(inputs()); }
int Signature::max_inputs() const { return most_count(inputs()); }
int Signature::min_outputs() const { return least_count(outputs()); }
int Signature::max_outputs() const { return most_count(outputs()); }
const Argument* Signature::input(int i) const { return argument(inputs(), i); }
const Argument* Signature::output(int i) const { return argument(outputs(), i); }

const Attribute* Signature::attribute(std::string_view name) const {
  for (const Attribute& a : attributes())
    if (a.name() == name) return &a;
  return nullptr;
}

std::span<const Signature> signature_versions(std::string_view domain, std::string_view name) {
  using Key = std::pair<std::string_view, std::string_view>;
  const auto key = [](const Signature& s) { return Key(s.domain(), s.name()); };
  const Key wanted(plain_domain(domain), name);
  const auto first = std::ranges::lower_bound(kSignatures, wanted, {}, key);
  return {first, std::ranges::upper_bound(first, std::end(kSignatures), wanted, {}, key)};
}

const Signature* find_signature(std::string_view domain, std::string_view name, int opset) {
  const auto versions = signature_versions(domain, name);
  const auto above = std::ranges::upper_bound(versions, opset, {}, &Signature::since_version);
  return above == versions.begin() ? nullptr : &above[-1];
}

std::span<const Signature> all_signatures() { return kSignatures; }

int latest_opset(std::string_view domain) {
  for (const DomainVersion& d : kLatestOpsets)
    if (text(d.domain_at) == plain_domain(domain)) return d.opset;
  return 0;
}

}  // namespace tessera::spec
