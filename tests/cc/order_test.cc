// labels: slow
#include "runtime/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "order_corpus.h"
#include "runtime/offsets.h"

namespace tessera {
namespace {

using corpus::Graph;
using corpus::Traits;

constexpr int kListings = 20;

Order plan(const OrderProblem& p, ExecutionOrder mode = ExecutionOrder::planned) {
  Result<Order> order = choose_order(p, mode);
  EXPECT_TRUE(order.ok()) << order.status().message();
  return order.ok() ? std::move(*order) : Order{};
}

// The producer of each value, or -1.
std::vector<int32_t> makers(const OrderProblem& p) {
  std::vector<int32_t> maker(static_cast<size_t>(p.values), -1);
  for (int32_t i = 0; i < p.nodes; ++i) {
    for (int32_t e = p.out_begin[i]; e < p.out_begin[i + 1]; ++e) {
      if (p.outputs[e] >= 0) maker[p.outputs[e]] = i;
    }
  }
  return maker;
}

bool is_topological(const OrderProblem& p, const std::vector<int32_t>& order) {
  std::vector<int32_t> at(static_cast<size_t>(p.nodes), -1);
  if (order.size() != size_t(p.nodes)) return false;
  for (size_t k = 0; k < order.size(); ++k) {
    if (order[k] < 0 || order[k] >= p.nodes || at[order[k]] >= 0) return false;
    at[order[k]] = int32_t(k);
  }
  const std::vector<int32_t> maker = makers(p);
  for (int32_t i = 0; i < p.nodes; ++i) {
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) {
      const int32_t v = p.inputs[e];
      if (v >= 0 && maker[v] >= 0 && at[maker[v]] >= at[i]) return false;
    }
  }
  return true;
}

// Liveness straight from its definition, by looking at every value each time: what the library must agree with.
class Definition {
 public:
  explicit Definition(const OrderProblem& p) : p_(p), maker_(makers(p)), root_(size_t(p.values)) {
    for (int32_t v = 0; v < p.values; ++v) {
      int32_t r = v;
      while (maker_[r] >= 0 && p.view[maker_[r]] >= 0 && p.outputs[p.out_begin[maker_[r]]] == r) {
        r = p.inputs[p.in_begin[maker_[r]] + p.view[maker_[r]]];
      }
      root_[v] = r;
    }
  }

  int32_t root(int32_t v) const { return root_[v]; }

  // Bytes held by buffers after the nodes in `done` have run.
  int64_t held(const std::vector<bool>& done) const {
    int64_t sum = 0;
    for (int32_t r = 0; r < p_.values; ++r) sum += root_[r] == r && alive(r, done) ? p_.bytes[r] : 0;
    return sum;
  }

  // Bytes held while node i runs after `done`.
  int64_t during(const std::vector<bool>& done, int32_t i) const {
    int64_t sum = held(done);
    for (int32_t e = p_.out_begin[i]; e < p_.out_begin[i + 1]; ++e) {
      const int32_t v = p_.outputs[e];
      if (root_[v] == v && !(p_.value_flags[v] & kExternal)) sum += p_.bytes[v];
    }
    return sum - taken_over(done, i);
  }

  int64_t peak(const std::vector<int32_t>& order) const {
    std::vector<bool> done(static_cast<size_t>(p_.nodes));
    int64_t peak = held(done);
    for (int32_t i : order) {
      peak = std::max(peak, during(done, i));
      done[i] = true;
    }
    return peak;
  }

  bool ready(const std::vector<bool>& done, int32_t i) const {
    for (int32_t e = p_.in_begin[i]; e < p_.in_begin[i + 1]; ++e) {
      const int32_t m = maker_[p_.inputs[e]];
      if (m >= 0 && !done[m]) return false;
    }
    return true;
  }

 private:
  bool reads(int32_t i, int32_t root) const {
    for (int32_t e = p_.in_begin[i]; e < p_.in_begin[i + 1]; ++e) {
      if (root_[p_.inputs[e]] == root && !(p_.input_flags[e] & kHeaderOnly)) return true;
    }
    return false;
  }
  bool kept(int32_t root) const {
    for (int32_t v = 0; v < p_.values; ++v) {
      if (root_[v] == root && (p_.value_flags[v] & kGraphOutput)) return true;
    }
    return false;
  }
  bool alive(int32_t root, const std::vector<bool>& done) const {
    if ((p_.value_flags[root] & kExternal) || (maker_[root] >= 0 && !done[maker_[root]])) return false;
    if (kept(root)) return true;
    for (int32_t i = 0; i < p_.nodes; ++i) {
      if (!done[i] && reads(i, root)) return true;
    }
    return false;
  }
  int64_t taken_over(std::vector<bool> done, int32_t i) const {
    if (p_.inplace[i] < 0) return 0;
    const int32_t out = p_.outputs[p_.out_begin[i]], in = root_[p_.inputs[p_.in_begin[i] + p_.inplace[i]]];
    int32_t slots = 0;
    for (int32_t e = p_.in_begin[i]; e < p_.in_begin[i + 1]; ++e) {
      slots += root_[p_.inputs[e]] == in && !(p_.input_flags[e] & kHeaderOnly);
    }
    if (slots != 1 || p_.bytes[in] != p_.bytes[out] || !alive(in, done)) return 0;
    done[i] = true;
    return alive(in, done) ? 0 : p_.bytes[in];
  }

  const OrderProblem& p_;
  std::vector<int32_t> maker_, root_;
};

// The smallest peak of all orders.
int64_t best_peak(const OrderProblem& p) {
  const Definition def(p);
  std::map<std::vector<bool>, int64_t> frontier, next;
  frontier[std::vector<bool>(static_cast<size_t>(p.nodes))] = def.held(std::vector<bool>(static_cast<size_t>(p.nodes)));
  for (int32_t step = 0; step < p.nodes; ++step, frontier.swap(next)) {
    next.clear();
    for (const auto& [done, peak] : frontier) {
      for (int32_t i = 0; i < p.nodes; ++i) {
        if (done[i] || !def.ready(done, i)) continue;
        std::vector<bool> with = done;
        with[i] = true;
        const int64_t reached = std::max(peak, def.during(done, i));
        const auto [at, fresh] = next.emplace(with, reached);
        if (!fresh) at->second = std::min(at->second, reached);
      }
    }
  }
  return frontier.begin()->second;
}

// ORT's default order: depth first against the edges, the highest index first.
std::vector<int32_t> ort_order(const OrderProblem& p) {
  const std::vector<int32_t> maker = makers(p);
  std::vector<std::vector<int32_t>> preds(static_cast<size_t>(p.nodes));
  std::vector<bool> has_succ(static_cast<size_t>(p.nodes)), seen(static_cast<size_t>(p.nodes));
  for (int32_t i = 0; i < p.nodes; ++i) {
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) {
      if (maker[p.inputs[e]] < 0) continue;
      preds[i].push_back(maker[p.inputs[e]]);
      has_succ[maker[p.inputs[e]]] = true;
    }
    std::sort(preds[i].begin(), preds[i].end());
  }
  std::vector<std::pair<int32_t, bool>> stack;
  for (int32_t i = 0; i < p.nodes; ++i) {
    if (!has_succ[i]) stack.push_back({i, false});
  }
  std::vector<int32_t> order;
  while (!stack.empty()) {
    const auto [v, leave] = stack.back();
    stack.pop_back();
    if (leave) order.push_back(v);
    if (leave || seen[v]) continue;
    seen[v] = true;
    stack.push_back({v, true});
    for (int32_t u : preds[v]) stack.push_back({u, false});
  }
  return order;
}

std::vector<std::string> names(const OrderProblem& p, const std::vector<int32_t>& order) {
  std::vector<std::string> out;
  for (int32_t i : order) out.emplace_back(p.node_name[i]);
  return out;
}

// No two lifetimes that share a step share a byte; offsets are aligned and inside the slab.
void expect_disjoint(const std::vector<Lifetime>& lifetimes, const Offsets& o) {
  ASSERT_EQ(o.offset.size(), lifetimes.size());
  std::vector<size_t> by_first(lifetimes.size()), alive;
  for (size_t i = 0; i < by_first.size(); ++i) by_first[i] = i;
  std::sort(by_first.begin(), by_first.end(),
            [&](size_t a, size_t b) { return lifetimes[a].first < lifetimes[b].first; });
  for (size_t i : by_first) {
    const Lifetime& l = lifetimes[i];
    ASSERT_EQ(o.offset[i] % kSlabAlignment, 0);
    ASSERT_GE(o.offset[i], 0);
    ASSERT_LE(o.offset[i] + l.bytes, o.slab_bytes);
    if (l.bytes == 0) continue;
    std::erase_if(alive, [&](size_t a) { return lifetimes[a].last < l.first; });
    for (size_t a : alive) {
      const bool apart = o.offset[a] + lifetimes[a].bytes <= o.offset[i] || o.offset[i] + l.bytes <= o.offset[a];
      ASSERT_TRUE(apart) << "lifetimes " << a << " and " << i;
    }
    alive.push_back(i);
  }
}

// Runs the order on its buffers: whoever reads a value finds it still there.
void expect_values_survive(const OrderProblem& p, const std::vector<int32_t>& order, const BufferPlan& plan) {
  const Definition def(p);
  std::vector<int32_t> content(plan.lifetimes.size(), -1);
  const auto holds = [&](int32_t v) {
    const int32_t b = plan.buffer_of_value[v];
    return b < 0 || content[b] == def.root(v);
  };
  for (int32_t step = 0; step < int32_t(order.size()); ++step) {
    const int32_t i = order[step];
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) {
      if (p.input_flags[e] & kHeaderOnly) continue;
      ASSERT_TRUE(holds(p.inputs[e])) << p.node_name[i];
      const int32_t b = plan.buffer_of_value[p.inputs[e]];
      ASSERT_TRUE(b < 0 || (plan.lifetimes[b].first <= step && step <= plan.lifetimes[b].last));
    }
    for (int32_t e = p.out_begin[i]; e < p.out_begin[i + 1]; ++e) {
      const int32_t v = p.outputs[e], b = plan.buffer_of_value[v];
      if (def.root(v) != v || b < 0) continue;
      ASSERT_TRUE(plan.lifetimes[b].first <= step && step <= plan.lifetimes[b].last);
      ASSERT_GE(plan.lifetimes[b].bytes, p.bytes[v]);
      content[b] = v;
    }
  }
  for (int32_t v = 0; v < p.values; ++v) {
    ASSERT_TRUE(!(p.value_flags[v] & kGraphOutput) || holds(v)) << "output " << v;
  }
}

// What one graph gave over its listings.
struct Spread {
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  double slab = 1;
};

void check_listing(const Graph& g, Spread& spread) {
  const OrderProblem p = g.problem();
  const Order planned = plan(p);
  ASSERT_TRUE(is_topological(p, planned.nodes));
  ASSERT_EQ(planned.peak_bytes, simulate_peak(p, planned.nodes));
  const int64_t file = plan(p, ExecutionOrder::file_order).peak_bytes;
  const int64_t ort = simulate_peak(p, ort_order(p));
  EXPECT_LE(double(planned.peak_bytes), 1.02 * double(std::min(file, ort))) << planned.chosen_by;
  const BufferPlan buffers = plan_buffers(p, planned.nodes);
  const Offsets offsets = assign_offsets(buffers.lifetimes);
  expect_disjoint(buffers.lifetimes, offsets);
  EXPECT_GE(offsets.slab_bytes, offsets.peak_bytes);
  EXPECT_GE(offsets.peak_bytes, planned.peak_bytes);
  spread.least = std::min(spread.least, planned.peak_bytes);
  spread.most = std::max(spread.most, planned.peak_bytes);
  if (offsets.peak_bytes > 0)
    spread.slab = std::max(spread.slab, double(offsets.slab_bytes) / double(offsets.peak_bytes));
}

TEST(Order, CorpusOverListings) {
  const std::vector<Graph> graphs = corpus::all();
  ASSERT_GE(graphs.size(), 200u);
  std::map<std::string, Spread> families;
  std::map<std::string, double> ratios;
  for (size_t k = 0; k < graphs.size(); ++k) {
    const Graph& g = graphs[k];
    std::mt19937_64 random(k);
    Spread spread;
    for (int listing = 0; listing <= kListings && !HasFatalFailure(); ++listing) {
      SCOPED_TRACE(g.name + ", seed " + std::to_string(k) + ", listing " + std::to_string(listing));
      check_listing(listing == 0 ? g : g.relisted(g.random_listing(random), random), spread);
    }
    const double ratio = double(spread.most) / double(std::max<int64_t>(1, spread.least));
    if (g.family != "random_dag") {
      EXPECT_LE(ratio, 1.02) << g.name << ", seed " << k;
      EXPECT_LE(spread.slab, 1.1) << g.name << ", seed " << k;
    }
    ratios[g.family] = std::max(ratios[g.family], ratio);
    families[g.family].slab = std::max(families[g.family].slab, spread.slab);
  }
  for (const auto& [family, s] : families) {
    std::printf("%-12s most/least peak over listings %.4f, slab/peak %.3f\n", family.c_str(), ratios[family], s.slab);
  }
}

TEST(Order, SameOrderForEveryListing) {
  for (const Graph& g : corpus::all()) {
    if (g.family == "random_dag") continue;
    std::mt19937_64 random(1);
    const Graph relisted = g.relisted(g.random_listing(random), random);
    const OrderProblem a = g.problem(), b = relisted.problem();
    EXPECT_EQ(names(a, plan(a).nodes), names(b, plan(b).nodes)) << g.name << ", seed 1";
  }
}

TEST(Order, BestPossibleForSmallGraphs) {
  for (const Graph& g : corpus::small(300)) {
    SCOPED_TRACE(g.name);
    const OrderProblem p = g.problem();
    const Order planned = plan(p);
    ASSERT_TRUE(is_topological(p, planned.nodes));
    EXPECT_EQ(planned.peak_bytes, Definition(p).peak(planned.nodes));
    EXPECT_EQ(planned.peak_bytes, best_peak(p)) << planned.chosen_by;
  }
}

TEST(Order, SimulationFollowsTheDefinition) {
  for (const Graph& g : corpus::small(300)) {
    std::mt19937_64 random(3);
    const OrderProblem p = g.problem();
    const std::vector<int32_t> order = g.random_listing(random);
    EXPECT_EQ(simulate_peak(p, order), Definition(p).peak(order)) << g.name << ", seed 3";
    const BufferPlan buffers = plan_buffers(p, order);
    expect_values_survive(p, order, buffers);
    const Offsets offsets = assign_offsets(buffers.lifetimes);
    expect_disjoint(buffers.lifetimes, offsets);
    EXPECT_EQ(offsets.peak_bytes, simulate_peak(p, order)) << g.name << ": sizes are multiples of the alignment";
  }
}

TEST(Order, SameOrderEveryTime) {
  for (const Graph& g : {corpus::random_dag(200, 3, 5), corpus::training(6, 4096, true), corpus::random_tree(60, 2)}) {
    const OrderProblem p = g.problem();
    const Order first = plan(p);
    for (int i = 0; i < 3; ++i) {
      const Order again = plan(p);
      EXPECT_EQ(first.nodes, again.nodes);
      EXPECT_EQ(first.work, again.work);
      EXPECT_STREQ(first.chosen_by, again.chosen_by);
    }
  }
}

TEST(Order, UnfusedQdqHoldsTwoWeights) {
  constexpr int64_t kWeight = 64 << 20;
  const Graph g = corpus::qdq_chain(32, kWeight);
  const OrderProblem p = g.problem();
  EXPECT_LE(plan(p).peak_bytes, 2 * kWeight);
  EXPECT_GE(simulate_peak(p, ort_order(p)), 32 * kWeight);
}

TEST(Order, ShapeReadersHoldNothing) {
  const Graph with = corpus::shapes_at_end(20, 1 << 20, true), without = corpus::shapes_at_end(20, 1 << 20, false);
  EXPECT_EQ(plan(with.problem()).peak_bytes, plan(without.problem()).peak_bytes);
  EXPECT_EQ(plan(with.problem(), ExecutionOrder::file_order).peak_bytes,
            plan(without.problem(), ExecutionOrder::file_order).peak_bytes);
}

TEST(Order, ShapeReadersHoldNothingInTraining) {
  const Graph without = corpus::training(6, 1 << 20, false);
  Graph with = without;
  const int32_t values = without.problem().values;
  for (int32_t v = 0; v < values; ++v) with.output(with.node("Shape", {v}, 0, {.header_only = true}));
  EXPECT_EQ(plan(with.problem()).peak_bytes, plan(without.problem()).peak_bytes);
}

TEST(Order, NamesACycle) {
  Graph g;
  const int32_t back = g.value(64);
  const int32_t a = g.node("a", {g.weight()}, 64);
  const int32_t b = g.node("b", {a, back}, 64);
  const int32_t c = g.node("c", {b}, 64);
  g.node_to("d", {c}, {back});
  g.output(g.node("e", {c}, 64));
  const Result<Order> order = choose_order(g.problem(), ExecutionOrder::planned);
  ASSERT_FALSE(order.ok());
  EXPECT_EQ(order.status().code(), Code::invalid_graph);
  EXPECT_NE((order.status().message() + " -> ").find("b_1 -> c_2 -> d_3 -> b_1 -> "), std::string::npos)
      << order.status().message();
  EXPECT_EQ(order.status().message().find("a_0"), std::string::npos);
  EXPECT_EQ(order.status().message().find("e_4"), std::string::npos);
}

TEST(Order, NamesASelfLoopInEveryMode) {
  Graph g;
  const int32_t v = g.value(64);
  g.node_to("Identity", {v}, {v}, {.view = 0});
  for (auto mode : {ExecutionOrder::planned, ExecutionOrder::priority_based, ExecutionOrder::file_order}) {
    const Result<Order> order = choose_order(g.problem(), mode);
    ASSERT_FALSE(order.ok());
    EXPECT_NE(order.status().message().find("Identity_0 -> Identity_0"), std::string::npos);
  }
}

TEST(Order, RefusesWhatCannotBeCounted) {
  Graph twice;
  const int32_t v = twice.node("a", {}, 64);
  twice.node_to("b", {}, {v});
  EXPECT_EQ(choose_order(twice.problem(), ExecutionOrder::planned).status().code(), Code::invalid_graph);
  Graph large;
  for (int i = 0; i < 3; ++i) large.output(large.node("a", {}, std::numeric_limits<int64_t>::max() / 2));
  EXPECT_EQ(choose_order(large.problem(), ExecutionOrder::planned).status().code(), Code::invalid_argument);
}

TEST(Order, EmptyGraph) {
  const Graph g;
  const Order order = plan(g.problem());
  EXPECT_TRUE(order.nodes.empty());
  EXPECT_EQ(order.peak_bytes, 0);
}

TEST(Order, FileOrderIsExactOrByIndex) {
  const Graph g = corpus::mixture_of_experts(1, 4, 4096);
  std::vector<int32_t> listed(static_cast<size_t>(g.nodes()));
  for (int32_t i = 0; i < g.nodes(); ++i) listed[i] = i;
  EXPECT_EQ(plan(g.problem(), ExecutionOrder::file_order).nodes, listed);
  std::mt19937_64 random(1);
  std::reverse(listed.begin(), listed.end());
  const Graph reversed = g.relisted(listed, random);
  const OrderProblem p = reversed.problem();
  const Order order = plan(p, ExecutionOrder::file_order);
  EXPECT_TRUE(is_topological(p, order.nodes));
  EXPECT_STREQ(order.chosen_by, "kahn");
}

TEST(Order, PriorityRunsShapesFirst) {
  Graph g;
  const int32_t x = g.node("Conv", {g.weight()}, 64);
  const int32_t y = g.node("Conv", {x}, 64);
  const int32_t shape = g.node("Shape", {x}, 16, {.header_only = true});
  g.output(g.node("Reshape", {y, shape}, 64));
  EXPECT_EQ(plan(g.problem(), ExecutionOrder::priority_based).nodes, (std::vector<int32_t>{0, 2, 1, 3}));
}

TEST(Order, MemoryEfficientIsPlannedForInference) {
  const Graph g = corpus::random_dag(80, 3, 9);
  EXPECT_EQ(plan(g.problem(), ExecutionOrder::memory_efficient).nodes, plan(g.problem()).nodes);
}

TEST(Order, InPlaceTakesOverOnlyTheLastAndOnlyReading) {
  const auto peak = [](std::vector<int32_t> (*inputs)(int32_t, int32_t), bool read_later) {
    Graph g;
    const int32_t x = g.node("x", {g.weight()}, 640), w = g.weight();
    const int32_t y = g.node("y", inputs(x, w), 640, {.inplace = 0});
    g.output(y);
    if (read_later) g.output(g.node("later", {x, y}, 0));
    return simulate_peak(g.problem(),
                         std::vector<int32_t>(read_later ? std::vector<int32_t>{0, 1, 2} : std::vector<int32_t>{0, 1}));
  };
  EXPECT_EQ(peak([](int32_t x, int32_t w) { return std::vector<int32_t>{x, w}; }, false), 640);
  EXPECT_EQ(peak([](int32_t x, int32_t w) { return std::vector<int32_t>{x, w}; }, true), 1280);
  EXPECT_EQ(peak([](int32_t x, int32_t) { return std::vector<int32_t>{x, x}; }, false), 1280);
}

TEST(Order, AbsentInputsAndOutputsAreSkipped) {
  Graph g;
  const int32_t x = g.node("x", {-1, g.weight()}, 640), y = g.value(640);
  g.node_to("y", {-1, x}, {y, -1}, {.inplace = 1});
  g.output(y);
  EXPECT_EQ(plan(g.problem()).peak_bytes, 640);
}

Graph by_name(const std::string& family, int32_t size) {
  if (family == "chain") return corpus::chain(size, 1 << 16);
  if (family == "wide") return corpus::wide(size / 2, 1 << 16);
  if (family == "tree") return corpus::random_tree(size / 2, 1);
  if (family == "qdq") return corpus::qdq_chain(size / 3, 1 << 20);
  if (family == "training") return corpus::training(size / 17, 1 << 16, true);
  return corpus::random_dag(size, 3, 1);
}

TEST(Order, WorkGrowsWithTheGraph) {
  for (const char* family : {"chain", "wide", "tree", "qdq", "training", "random"}) {
    const int32_t size = 10'000;
    const int64_t once = plan(by_name(family, size).problem()).work,
                  twice = plan(by_name(family, 2 * size).problem()).work;
    EXPECT_LE(double(twice), 2.3 * double(once)) << family;
    EXPECT_GE(once, size) << family;
  }
}

// Processor time, for the reader: not asserted, machines differ.
TEST(Order, Timing) {
  double total = 0;
  for (const auto& [family, size] : std::initializer_list<std::pair<const char*, int32_t>>{{"chain", 100'000},
                                                                                           {"wide", 40'000},
                                                                                           {"tree", 20'000},
                                                                                           {"qdq", 50'000},
                                                                                           {"training", 20'000},
                                                                                           {"random", 2'000}}) {
    const Graph g = by_name(family, size);
    const OrderProblem p = g.problem();
    const auto start = std::clock();
    const Order order = plan(p);
    const auto ordered = std::clock();
    const BufferPlan buffers = plan_buffers(p, order.nodes);
    const auto planned = std::clock();
    const Offsets offsets = assign_offsets(buffers.lifetimes);
    const auto placed = std::clock();
    const auto ms = [](std::clock_t from, std::clock_t to) { return 1e3 * double(to - from) / CLOCKS_PER_SEC; };
    std::printf("%-9s %6d nodes: order %6.1f ms (%s), offsets of %6zu lifetimes %6.2f ms, slab/peak %.3f\n", family,
                p.nodes, ms(start, ordered), order.chosen_by, buffers.lifetimes.size(), ms(planned, placed),
                double(offsets.slab_bytes) / double(offsets.peak_bytes));
    total += ms(start, ordered);
    EXPECT_TRUE(is_topological(p, order.nodes));
  }
  std::printf("all orders: %.1f ms\n", total);
}

TEST(Offsets, RandomLifetimesNeverOverlap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int32_t steps = 1 + int32_t(random() % (seed % 3 == 0 ? 1'000'000 : 300)),
                  length = 1 + int32_t(random() % 60);
    std::vector<Lifetime> lifetimes(1 + random() % 400);
    for (Lifetime& l : lifetimes) {
      l.first = int32_t(random() % uint64_t(steps)) - 50;
      l.last = l.first + int32_t(random() % uint64_t(length));
      l.bytes = random() % 8 == 0 ? 0 : int64_t(random() % 5000);
    }
    const Offsets o = assign_offsets(lifetimes);
    expect_disjoint(lifetimes, o);
    EXPECT_GE(o.slab_bytes, o.peak_bytes);
    EXPECT_EQ(o.offset, assign_offsets(lifetimes).offset);
  }
}

TEST(Offsets, ManyAliveAtOnce) {
  std::mt19937_64 random(4);
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < 3000; ++i)
    lifetimes.push_back({64 * (1 + int64_t(random() % 50)), i, 6000 - int32_t(random() % 3000)});
  for (int32_t i = 0; i < 3000; ++i) lifetimes.push_back({64 * (1 + int64_t(random() % 50)), 3000 + i, 3000 + i});
  const Offsets o = assign_offsets(lifetimes);
  expect_disjoint(lifetimes, o);
  EXPECT_LE(double(o.slab_bytes), 1.3 * double(o.peak_bytes));
}

TEST(Offsets, ChainNeedsNoMoreThanItsPeak) {
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < 1000; ++i) lifetimes.push_back({4096 * (1 + i % 3), i, i + 1});
  const Offsets o = assign_offsets(lifetimes);
  EXPECT_EQ(o.peak_bytes, 5 * 4096);
  EXPECT_EQ(o.slab_bytes, o.peak_bytes);
}

TEST(Offsets, NothingToPlace) {
  EXPECT_EQ(assign_offsets({}).slab_bytes, 0);
  const Lifetime none[] = {{0, 0, 5}, {0, 2, 3}};
  EXPECT_EQ(assign_offsets(none).slab_bytes, 0);
}

}  // namespace
}  // namespace tessera
