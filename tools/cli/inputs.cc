#include "inputs.h"

#include <charconv>

#include "common/load.h"
#include "common/npy.h"
#include "common/random.h"

namespace tessera::cli {
namespace {

using Dims = std::map<std::string, int64_t>;

Result<Dims> parse_dims(const std::vector<std::string>& given) {
  Dims out;
  for (const std::string& text : given) {
    const size_t equals = text.rfind('=');
    int64_t v = -1;
    if (equals != text.npos) {
      const char* end = text.data() + text.size();
      if (const auto r = std::from_chars(text.data() + equals + 1, end, v); r.ec != std::errc() || r.ptr != end) v = -1;
    }
    if (v < 0) return invalid("--dim {}: wanted name=number, as in --dim batch=4", quote(text));
    out[text.substr(0, equals)] = v;
  }
  return out;
}

const ValueSpec* find_spec(const Session& session, const std::string& name) {
  for (const auto* specs : {&session.inputs(), &session.overridable()})
    for (const ValueSpec& s : *specs)
      if (s.name == name) return &s;
  return nullptr;
}

std::string names_of(const std::vector<ValueSpec>& specs) {
  std::string out;
  for (const ValueSpec& s : specs) out += (out.empty() ? "" : ", ") + quote(s.name);
  return out.empty() ? "none" : out;
}

class Gatherer {
 public:
  Gatherer(const InputOptions& options, const Session& session, Dims dims)
      : options_(options), session_(session), dims_(std::move(dims)), rest_(options.random_rest) {}

  Result<Feed> gather() {
    if (!options_.archive.empty()) TRY(add_archive());
    for (const std::string& text : options_.inputs) TRY(add(text));
    for (const ValueSpec& s : session_.inputs()) {
      if (given_.count(s.name) || s.fact.kind == Kind::optional) continue;
      if (!rest_)
        return invalid("input {} ({}) is missing; give --input {}=FILE.npy or --input {}=random", quote(s.name),
                       s.fact.str(), s.name, s.name);
      TRY(add_random(s));
    }
    Feed out;
    for (auto& [name, value] : given_) {
      out.names.push_back(name);
      out.values.push_back(std::move(value));
    }
    return out;
  }

 private:
  Status add(const std::string& text) {
    if (text == "random") {
      rest_ = true;
      return {};
    }
    size_t equals = text.find('=');
    // Names may hold '=': the longest one that is an input counts.
    while (equals != text.npos && !find_spec(session_, text.substr(0, equals))) equals = text.find('=', equals + 1);
    if (equals == text.npos) {
      if (text.find('=') == text.npos && session_.inputs().size() == 1)
        return add_value(session_.inputs()[0], load_value(text, session_.inputs()[0].fact));
      return invalid("--input {}: wanted name=FILE, where the name is one of {}", quote(text),
                     names_of(session_.inputs()));
    }
    const ValueSpec& spec = *find_spec(session_, text.substr(0, equals));
    const std::string source = text.substr(equals + 1);
    return source == "random" ? add_random(spec) : add_value(spec, load_value(source, spec.fact));
  }
  Status add_random(const ValueSpec& spec) {
    uint64_t index = 0;
    while (index < session_.inputs().size() && session_.inputs()[index].name != spec.name) ++index;
    Result<Value> v = random_value(spec.fact, dims_, options_.seed * 1000003 + index);
    if (!v.ok()) return v.take_status().in(format("input {}", quote(spec.name)));
    return add_value(spec, std::move(v));
  }
  Status add_value(const ValueSpec& spec, Result<Value> value) {
    if (!value.ok()) return value.take_status();
    if (!given_.emplace(spec.name, std::move(*value)).second)
      return invalid("input {} is given twice", quote(spec.name));
    return {};
  }
  Status add_archive() {
    TRY_ASSIGN(bytes, map_file(options_.archive));
    const std::string_view view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    Result<std::vector<NamedTensor>> arrays = read_npz(view, [&](const std::string& name) {
      const ValueSpec* spec = find_spec(session_, name);
      return spec ? spec->fact.dtype : DType::undefined;
    });
    if (!arrays.ok()) return arrays.take_status().in(quote(options_.archive));
    for (NamedTensor& a : *arrays) {
      const ValueSpec* spec = find_spec(session_, a.name);
      if (!spec)
        return invalid("{} holds {}, which is no input; the inputs are {}", quote(options_.archive), quote(a.name),
                       names_of(session_.inputs()));
      TRY(add_value(*spec, Value(std::move(a.tensor))));
    }
    return {};
  }

  const InputOptions& options_;
  const Session& session_;
  Dims dims_;
  bool rest_;
  std::map<std::string, Value> given_;
};

}  // namespace

void InputOptions::add_to(CLI::App& command) {
  command.add_option("--input", inputs, "name=FILE.npy, name=FILE.pb or name=random; 'random' alone: all that is left")
      ->allow_extra_args(false);
  command.add_option("--inputs", archive, "A .npz archive whose arrays have the names of inputs");
  command.add_option("--dim", dims, "Size of a symbolic dimension of random inputs, as in batch=4 (default: 1)")
      ->allow_extra_args(false);
  command.add_option("--seed", seed, "Seed of random inputs (default: 0)");
}

Result<Feed> gather_inputs(const InputOptions& options, const Session& session) {
  TRY_ASSIGN(dims, parse_dims(options.dims));
  return Gatherer(options, session, std::move(dims)).gather();
}

}  // namespace tessera::cli
