#include "report.h"

#include <algorithm>
#include <map>

#include "common/show.h"

namespace tessera::cli {

int64_t Times::min() const { return ns.empty() ? 0 : *std::min_element(ns.begin(), ns.end()); }
int64_t Times::median() const {
  if (ns.empty()) return 0;
  std::vector<int64_t> sorted = ns;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  return sorted[sorted.size() / 2];
}

std::string memory_text(const Session& session) {
  const MemoryStats m = session.memory();
  const Counters& c = m.counters;
  return format(
      "memory\n"
      "  weights      {} ({} mapped from external files, {} copied, {} packed into {})\n"
      "  activations  {} live at the peak of the last run, {} reserved for them\n"
      "  idle         {} kept for the next run\n",
      human_bytes(m.weight_bytes), human_bytes(c.bytes_mapped), human_bytes(c.bytes_copied),
      human_bytes(c.bytes_packed_in), human_bytes(c.bytes_packed_out), human_bytes(m.planned_peak),
      human_bytes(m.slab_bytes), human_bytes(m.idle_bytes));
}

std::string plan_text(const Session& session) {
  const LoadedModel& l = session.loaded();
  const auto& t = l.phase_ns;
  const auto time = [](int64_t ns) { return human_time(static_cast<double>(ns)); };
  return format(
      "plan\n"
      "  steps        {} in {} segment{}\n"
      "  order        chosen by {}, estimated peak {} of activations (assumed sizes where shapes are symbolic)\n"
      "  load         {}: parse {}, resolve {}, infer {}, order {}, plan {}\n"
      "  machine      target {}, {} thread{}\n",
      l.plan->steps().size(), l.plan->segments(), l.plan->segments() == 1 ? "" : "s", l.order_chosen_by,
      human_bytes(l.planned_peak), time(t.parse + t.resolve + t.infer + t.order + t.plan), time(t.parse),
      time(t.resolve), time(t.infer), time(t.order), time(t.plan), target_name(session.options().target),
      session.threads(), session.threads() == 1 ? "" : "s");
}

nlohmann::json memory_json(const Session& session) {
  const MemoryStats m = session.memory();
  return {{"weight_bytes", m.weight_bytes},
          {"mapped_bytes", m.counters.bytes_mapped},
          {"copied_bytes", m.counters.bytes_copied},
          {"packed_in_bytes", m.counters.bytes_packed_in},
          {"packed_out_bytes", m.counters.bytes_packed_out},
          {"planned_peak_bytes", m.planned_peak},
          {"slab_bytes", m.slab_bytes},
          {"idle_bytes", m.idle_bytes}};
}

nlohmann::json plan_json(const Session& session) {
  const LoadedModel& l = session.loaded();
  const auto& t = l.phase_ns;
  return {{"steps", l.plan->steps().size()},
          {"segments", l.plan->segments()},
          {"order_chosen_by", l.order_chosen_by},
          {"planned_peak_bytes", l.planned_peak},
          {"load_ns",
           {{"parse", t.parse}, {"resolve", t.resolve}, {"infer", t.infer}, {"order", t.order}, {"plan", t.plan}}},
          {"target", std::string(target_name(session.options().target))},
          {"threads", session.threads()}};
}

namespace {

struct OpTime {
  std::string op;
  int64_t ns = 0;
  int count = 0;
};

std::vector<OpTime> by_operator(const Profile& profile) {
  std::map<std::string, OpTime> ops;
  for (const ProfileEntry& e : profile.entries) {
    OpTime& t = ops[e.op];
    t.op = e.op;
    t.ns += e.duration_ns;
    ++t.count;
  }
  std::vector<OpTime> out;
  for (const auto& [name, t] : ops) out.push_back(t);
  std::stable_sort(out.begin(), out.end(), [](const OpTime& a, const OpTime& b) { return a.ns > b.ns; });
  return out;
}

std::string row(const std::string& name, int64_t ns, int64_t total, const std::string& more) {
  char text[256];
  std::snprintf(text, sizeof text, "  %-32.32s %10s %5.1f %%  %s\n", name.c_str(),
                human_time(static_cast<double>(ns)).c_str(),
                total ? 100.0 * static_cast<double>(ns) / static_cast<double>(total) : 0.0, more.c_str());
  return text;
}

}  // namespace

std::string profile_text(const Profile& profile, size_t most) {
  int64_t total = 0;
  for (const ProfileEntry& e : profile.entries) total += e.duration_ns;
  std::string out = "time by operator\n";
  for (const OpTime& t : by_operator(profile))
    out += row(t.op, t.ns, total, format("{} node{}", t.count, t.count == 1 ? "" : "s"));
  out += "slowest nodes\n";
  std::vector<const ProfileEntry*> slowest;
  for (const ProfileEntry& e : profile.entries) slowest.push_back(&e);
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const auto* a, const auto* b) { return a->duration_ns > b->duration_ns; });
  for (size_t i = 0; i < std::min(most, slowest.size()); ++i)
    out +=
        row(slowest[i]->node.empty() ? "(unnamed)" : slowest[i]->node, slowest[i]->duration_ns, total, slowest[i]->op);
  return out + format("  {} in {} steps, {} to bind shapes, {} in all\n", human_time(static_cast<double>(total)),
                      profile.entries.size(), human_time(static_cast<double>(profile.bind_ns)),
                      human_time(static_cast<double>(profile.total_ns)));
}

nlohmann::json profile_json(const Profile& profile) {
  auto steps = nlohmann::json::array();
  for (const ProfileEntry& e : profile.entries)
    steps.push_back({{"node", e.node}, {"op", e.op}, {"start_ns", e.start_ns}, {"duration_ns", e.duration_ns}});
  return {{"bind_ns", profile.bind_ns}, {"total_ns", profile.total_ns}, {"steps", std::move(steps)}};
}

}  // namespace tessera::cli
