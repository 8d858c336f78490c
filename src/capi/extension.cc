// The extension table: memory numbers and an account of a session; operators are in extension_op.cc.
#include "tessera/extension.h"

#include <algorithm>
#include <cstring>

#include "capi/allocator.h"
#include "capi/extension_files.h"
#include "capi/extension_insight.h"
#include "capi/extension_op.h"
#include "capi/guard.h"
#include "capi/session.h"

namespace tessera::capi {
namespace {

Status memory(const OrtSession* session, TesseraMemory* out) {
  TRY(not_null({{"session", session}, {"memory", out}}));
  TRY(check_ready(*session));
  const MemoryStats m = session->session->memory();
  TesseraMemory all{};
  all.size = out->size;
  all.weights = m.weight_bytes;
  all.mapped = m.counters.bytes_mapped;
  all.copied = m.counters.bytes_copied;
  all.packed = m.counters.bytes_packed_out;
  all.planned_peak = m.slab_bytes ? m.planned_peak : session->session->loaded().planned_peak;
  all.slab = m.slab_bytes;
  all.idle = m.idle_bytes;
  if (out->size < sizeof(size_t)) return invalid("TesseraMemory::size is {}, wanted sizeof(TesseraMemory)", out->size);
  std::memcpy(out, &all, std::min(out->size, sizeof all));
  return {};
}

Status packs(const OrtSession* session, TesseraPacks* out) {
  TRY(not_null({{"session", session}, {"packs", out}}));
  TRY(check_ready(*session));
  const Counters c = session->session->memory().counters;
  if (out->size < sizeof(size_t)) return invalid("TesseraPacks::size is {}, wanted sizeof(TesseraPacks)", out->size);
  const TesseraPacks all{out->size,     c.pack_calls,      c.packs_mapped,    c.packs_shared,
                         c.packs_stale, c.bytes_packed_in, c.bytes_packed_out};
  std::memcpy(out, &all, std::min(out->size, sizeof all));
  return {};
}

Status planned_peak(const OrtSession* session, int64_t* out) {
  TRY(not_null({{"session", session}, {"bytes", out}}));
  TRY(check_ready(*session));
  *out = session->session->loaded().planned_peak;
  return {};
}

std::string list_of(const char* title, const std::vector<ValueSpec>& specs) {
  std::string out;
  for (const ValueSpec& s : specs) out += format("{} {}: {}\n", title, quote(s.name), s.fact.str());
  return out;
}

// How often each operator occurs, most frequent first.
std::string operators_of(const ir::Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const ir::Node& n : graph.nodes())
    if (!n.dead) ++counts[n.domain.empty() ? n.op_type : n.domain + ":" + n.op_type];
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [op, count] : sorted) out += format("{}{} {}", out.empty() ? "" : ", ", count, quote(op));
  return out;
}

std::string explanation(const Session& s) {
  const LoadedModel& l = s.loaded();
  const MemoryStats m = s.memory();
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  std::string out = format("model {} by {}\n", quote(l.model.graph->name()), quote(l.model.producer_name));
  out += list_of("input", s.inputs()) + list_of("overridable", s.overridable()) + list_of("output", s.outputs());
  out += format("operators: {}\n", operators_of(*l.model.graph));
  out += format("order: {}, planned peak {} bytes\n", l.order_chosen_by, l.planned_peak);
  out += format("weights: {} bytes, {} packed, {} copied, {} mapped\n", m.weight_bytes, m.counters.bytes_packed_out,
                m.counters.bytes_copied, m.counters.bytes_mapped);
  out += format("last run: peak {} bytes in a slab of {}, {} kept\n", m.planned_peak, m.slab_bytes, m.idle_bytes);
  out += format("threads: {}, target: {}\n", s.threads(), target_name(s.options().target));
  out += format("load: parse {} ms, resolve {} ms, infer {} ms, order {} ms, plan {} ms\n", ms(l.phase_ns.parse),
                ms(l.phase_ns.resolve), ms(l.phase_ns.infer), ms(l.phase_ns.order), ms(l.phase_ns.plan));
  return out;
}

Status explain(const OrtSession* session, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"session", session}, {"allocator", allocator}, {"text", out}}));
  TRY(check_ready(*session));
  return give_text(allocator, explanation(*session->session), out);
}

constexpr TesseraApi kApi = {
    .version = TESSERA_API_VERSION,
    .size = sizeof(TesseraApi),
    .SessionGetMemory = slot<memory>,
    .SessionExplain = slot<explain>,
    .SessionGetPlannedPeak = slot<planned_peak>,
    .AddOperator = slot<add_operator>,
    .ShapeGetCounts = slot<shape_counts>,
    .ShapeGetInput = slot<shape_input>,
    .ShapeGetContent = slot<shape_content>,
    .ShapeSetOutput = slot<shape_set_output>,
    .ShapeGetUnknown = slot<shape_unknown>,
    .DimCombine = slot<dim_combine>,
    .KernelContextGetPacked = slot<get_packed>,
    .AddExternalFile = slot<add_external_file>,
    .AddExternalReader = slot<add_external_reader>,
    .AddExternalDescriptor = slot<add_external_descriptor>,
    .SessionGetPacks = slot<packs>,
    .SessionGetNodes = slot<nodes>,
    .RunTimed = slot<run_timed>,
};

}  // namespace
}  // namespace tessera::capi

const TesseraApi* ORT_API_CALL TesseraGetApi(uint32_t version) noexcept {
  return version >= 1 && version <= TESSERA_API_VERSION ? &tessera::capi::kApi : nullptr;
}
