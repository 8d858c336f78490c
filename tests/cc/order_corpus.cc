#include "order_corpus.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tessera::corpus {
namespace {

constexpr int64_t kKiB = 1024;

int64_t pick(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + int64_t(random() % uint64_t(high - low + 1));
}

}  // namespace

int32_t Graph::value(int64_t bytes, uint8_t flags) {
  bytes_.push_back(bytes);
  flags_.push_back(flags);
  return int32_t(bytes_.size()) - 1;
}

int32_t Graph::node(std::string_view op, std::vector<int32_t> inputs, int64_t bytes, Traits traits) {
  const int32_t out = value(bytes);
  node_to(op, std::move(inputs), {out}, traits);
  return out;
}

void Graph::node_to(std::string_view op, std::vector<int32_t> inputs, std::vector<int32_t> outputs, Traits traits) {
  uint64_t hash = 14695981039346656037u;
  for (char c : op) hash = (hash ^ uint8_t(c)) * 1099511628211u;
  const std::vector<uint8_t> flags(inputs.size(), traits.header_only ? kHeaderOnly : 0);
  add(std::string(op) + "_" + std::to_string(nodes()), hash, inputs, flags, outputs, traits.inplace, traits.view);
}

void Graph::add(std::string name, uint64_t hash, const std::vector<int32_t>& inputs,
                const std::vector<uint8_t>& input_flags, const std::vector<int32_t>& outputs, int32_t inplace,
                int32_t view) {
  inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
  input_flags_.insert(input_flags_.end(), input_flags.begin(), input_flags.end());
  outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
  in_begin_.push_back(int32_t(inputs_.size()));
  out_begin_.push_back(int32_t(outputs_.size()));
  inplace_.push_back(inplace);
  view_.push_back(view);
  hashes_.push_back(hash);
  names_.push_back(std::make_shared<const std::string>(std::move(name)));
}

OrderProblem Graph::problem() const {
  name_views_.assign(names_.size(), {});
  for (size_t i = 0; i < names_.size(); ++i) name_views_[i] = *names_[i];
  OrderProblem p;
  p.nodes = nodes();
  p.values = int32_t(bytes_.size());
  p.in_begin = in_begin_;
  p.inputs = inputs_;
  p.out_begin = out_begin_;
  p.outputs = outputs_;
  p.bytes = bytes_;
  p.value_flags = flags_;
  p.input_flags = input_flags_;
  p.inplace = inplace_;
  p.view = view_;
  p.node_hash = hashes_;
  p.node_name = name_views_;
  return p;
}

Graph Graph::relisted(const std::vector<int32_t>& order, std::mt19937_64& random) const {
  std::vector<int32_t> to(bytes_.size());
  std::iota(to.begin(), to.end(), 0);
  std::shuffle(to.begin(), to.end(), random);
  Graph g;
  g.family = family;
  g.name = name;
  g.bytes_.resize(bytes_.size());
  g.flags_.resize(bytes_.size());
  for (size_t v = 0; v < to.size(); ++v) {
    g.bytes_[size_t(to[v])] = bytes_[v];
    g.flags_[size_t(to[v])] = flags_[v];
  }
  for (int32_t i : order) {
    std::vector<int32_t> ins, outs;
    for (int32_t e = in_begin_[i]; e < in_begin_[i + 1]; ++e) ins.push_back(to[size_t(inputs_[e])]);
    for (int32_t e = out_begin_[i]; e < out_begin_[i + 1]; ++e) outs.push_back(to[size_t(outputs_[e])]);
    const std::vector<uint8_t> flags(input_flags_.begin() + in_begin_[i], input_flags_.begin() + in_begin_[i + 1]);
    g.add(*names_[i], hashes_[i], ins, flags, outs, inplace_[i], view_[i]);
  }
  return g;
}

std::vector<int32_t> Graph::random_listing(std::mt19937_64& random) const {
  std::vector<int32_t> maker(bytes_.size(), -1), missing(size_t(nodes()), 0), ready, order;
  std::vector<std::vector<int32_t>> succs(in_begin_.size());
  for (int32_t i = 0; i < nodes(); ++i) {
    for (int32_t e = out_begin_[i]; e < out_begin_[i + 1]; ++e) maker[size_t(outputs_[e])] = i;
  }
  for (int32_t i = 0; i < nodes(); ++i) {
    for (int32_t e = in_begin_[i]; e < in_begin_[i + 1]; ++e) {
      const int32_t p = maker[size_t(inputs_[e])];
      if (p < 0) continue;
      succs[p].push_back(i);
      ++missing[i];
    }
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[size_t(pick(random, 0, int64_t(ready.size()) - 1))], ready.back());
    const int32_t v = ready.back();
    ready.pop_back();
    order.push_back(v);
    for (int32_t s : succs[v]) {
      if (--missing[s] == 0) ready.push_back(s);
    }
  }
  return order;
}

Graph qdq_chain(int32_t layers, int64_t bytes) {
  Graph g;
  g.family = "qdq_chain";
  int32_t x = g.value(0, kExternal);
  for (int32_t i = 0; i < layers; ++i) {
    const int32_t w = g.node("DequantizeLinear", {g.weight(), g.weight()}, bytes);
    x = g.node("MatMul", {x, w}, bytes / 64);
    x = g.node("Relu", {x}, bytes / 64, {.inplace = 0});
  }
  g.output(x);
  return g;
}

Graph masks_per_layer(int32_t layers, int64_t bytes) {
  Graph g;
  g.family = "masks";
  const int32_t tokens = g.value(0, kExternal);
  int32_t x = g.node("Gather", {g.weight(), tokens}, bytes);
  for (int32_t i = 0; i < layers; ++i) {
    const int32_t shape = g.node("Shape", {tokens}, 16, {.header_only = true});
    int32_t mask = g.node("ConstantOfShape", {shape}, 4 * bytes);
    mask = g.node("Trilu", {mask}, 4 * bytes, {.inplace = 0});
    mask = g.node("Where", {mask, g.weight()}, 4 * bytes);
    const int32_t scores = g.node("MatMul", {x, x}, 4 * bytes);
    int32_t y = g.node("Add", {scores, mask}, 4 * bytes, {.inplace = 0});
    y = g.node("Softmax", {y}, 4 * bytes, {.inplace = 0});
    y = g.node("MatMul", {y, x}, bytes);
    x = g.node("Add", {x, y}, bytes, {.inplace = 0});
  }
  g.output(x);
  return g;
}

Graph transformer(int32_t layers, int32_t heads, int64_t bytes) {
  Graph g;
  g.family = "transformer";
  int32_t x = g.node("Gather", {g.weight(), g.value(0, kExternal)}, bytes);
  for (int32_t i = 0; i < layers; ++i) {
    const int32_t normed = g.node("LayerNormalization", {x}, bytes);
    std::vector<int32_t> parts;
    for (int32_t h = 0; h < heads; ++h) {
      const int32_t q = g.node("Q", {normed, g.weight()}, bytes / heads);
      const int32_t k = g.node("K", {normed, g.weight()}, bytes / heads);
      const int32_t v = g.node("V", {normed, g.weight()}, bytes / heads);
      const int32_t kt = g.node("Reshape", {k}, 0, {.view = 0});
      int32_t s = g.node("MatMul", {q, kt}, bytes);
      s = g.node("Softmax", {s}, bytes, {.inplace = 0});
      parts.push_back(g.node("MatMul", {s, v}, bytes / heads));
    }
    const int32_t joined = g.node("Concat", parts, bytes);
    x = g.node("Add", {x, g.node("MatMul", {joined, g.weight()}, bytes)}, bytes, {.inplace = 0});
    int32_t y = g.node("LayerNormalization", {x}, bytes);
    y = g.node("Gelu", {g.node("MatMul", {y, g.weight()}, 4 * bytes)}, 4 * bytes, {.inplace = 0});
    x = g.node("Add", {x, g.node("MatMul", {y, g.weight()}, bytes)}, bytes, {.inplace = 0});
  }
  g.output(x);
  return g;
}

Graph unet(int32_t depth, int64_t bytes) {
  Graph g;
  g.family = "unet";
  int32_t x = g.value(0, kExternal);
  std::vector<int32_t> skips;
  for (int32_t i = 0; i < depth; ++i) {
    const int64_t size = bytes >> i;
    x = g.node("Conv", {x, g.weight()}, size);
    x = g.node("Relu", {x}, size, {.inplace = 0});
    skips.push_back(x);
    x = g.node("MaxPool", {x}, size / 4);
  }
  for (int32_t i = depth; i-- > 0;) {
    const int64_t size = bytes >> i;
    x = g.node("ConvTranspose", {x, g.weight()}, size);
    x = g.node("Concat", {x, skips[i]}, 2 * size);
    x = g.node("Relu", {g.node("Conv", {x, g.weight()}, size)}, size, {.inplace = 0});
  }
  g.output(x);
  return g;
}

Graph inception(int32_t blocks, int32_t branches, uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph g;
  g.family = "inception";
  int32_t x = g.node("Conv", {g.value(0, kExternal), g.weight()}, 64 * kKiB);
  for (int32_t b = 0; b < blocks; ++b) {
    std::vector<int32_t> parts;
    int64_t total = 0;
    for (int32_t i = 0; i < branches; ++i) {
      int32_t y = x;
      int64_t size = 0;
      for (int64_t d = pick(random, 1, 4); d > 0; --d) {
        size = pick(random, 4, 64) * kKiB;
        y = g.node("Conv", {y, g.weight()}, size);
        y = g.node("Relu", {y}, size, {.inplace = 0});
      }
      parts.push_back(y);
      total += size;
    }
    x = g.node("Concat", parts, total);
  }
  g.output(x);
  return g;
}

Graph mixture_of_experts(int32_t layers, int32_t experts, int64_t bytes) {
  Graph g;
  g.family = "moe";
  int32_t x = g.node("Gather", {g.weight(), g.value(0, kExternal)}, bytes);
  for (int32_t l = 0; l < layers; ++l) {
    const int32_t gate = g.node("Softmax", {g.node("MatMul", {x, g.weight()}, bytes / 8)}, bytes / 8, {.inplace = 0});
    int32_t sum = -1;
    for (int32_t e = 0; e < experts; ++e) {
      const int32_t weight = g.node("DequantizeLinear", {g.weight(), g.weight()}, 2 * bytes);
      int32_t y = g.node("Gelu", {g.node("MatMul", {x, weight}, 4 * bytes)}, 4 * bytes, {.inplace = 0});
      y = g.node("Mul", {g.node("MatMul", {y, g.weight()}, bytes), gate}, bytes, {.inplace = 0});
      sum = sum < 0 ? y : g.node("Add", {sum, y}, bytes, {.inplace = 0});
    }
    x = g.node("Add", {x, sum}, bytes, {.inplace = 0});
  }
  g.output(x);
  return g;
}

Graph rnn_unrolled(int32_t steps, int32_t layers, int64_t bytes) {
  Graph g;
  g.family = "rnn";
  std::vector<int32_t> in;
  for (int32_t t = 0; t < steps; ++t) in.push_back(g.node("Gather", {g.weight(), g.value(0, kExternal)}, bytes));
  for (int32_t l = 0; l < layers; ++l) {
    int32_t h = -1;
    for (int32_t t = 0; t < steps; ++t) {
      const int32_t projected = g.node("MatMul", {in[t], g.weight()}, 2 * bytes);
      int32_t z = projected;
      if (h >= 0)
        z = g.node("Add", {projected, g.node("MatMul", {h, g.weight()}, 2 * bytes)}, 2 * bytes, {.inplace = 0});
      h = g.node("Gate", {z}, bytes);
      in[t] = h;
    }
  }
  g.output(in.back());
  return g;
}

Graph training(int32_t layers, int64_t bytes, bool recompute) {
  Graph g;
  g.family = "training";
  int32_t x = g.value(0, kExternal);
  const int32_t first = x;
  std::vector<int32_t> inputs, kept, norms;
  for (int32_t l = 0; l < layers; ++l) {
    inputs.push_back(x);
    const int32_t n = g.node("LayerNormalization", {x}, bytes);
    norms.push_back(n);
    const int32_t y = g.node("MatMul", {n, g.weight()}, 2 * bytes);
    kept.push_back(y);
    const int32_t a = g.node("Gelu", {y}, 2 * bytes);
    const int32_t z = g.node("MatMul", {a, g.weight()}, bytes);
    x = x == first ? z : g.node("Add", {x, z}, bytes);
  }
  const int32_t loss = g.node("Loss", {x, g.weight()}, 64);
  g.output(loss);
  int32_t dx = g.node("LossGrad", {loss, x}, bytes);
  for (int32_t l = layers; l-- > 0;) {
    int32_t n = norms[l], y = kept[l];
    if (recompute) {
      n = g.node("LayerNormalization", {inputs[l]}, bytes);
      y = g.node("MatMul", {n, g.weight()}, 2 * bytes);
    }
    const int32_t a = g.node("Gelu", {y}, 2 * bytes);
    const int32_t dw2 = g.node("MatMulGradW", {a, dx}, bytes / 2);
    const int32_t da = g.node("MatMulGradX", {dx, g.weight()}, 2 * bytes);
    const int32_t dy = g.node("GeluGrad", {da, y}, 2 * bytes, {.inplace = 0});
    const int32_t dw1 = g.node("MatMulGradW", {n, dy}, bytes / 2);
    const int32_t dn = g.node("MatMulGradX", {dy, g.weight()}, bytes);
    const int32_t d = g.node("LayerNormGrad", {dn, inputs[l]}, bytes, {.inplace = 0});
    dx = g.node("Add", {dx, d}, bytes, {.inplace = 0});
    for (int32_t dw : {dw1, dw2}) g.output(g.node("SgdUpdate", {dw, g.weight()}, 64));
  }
  return g;
}

Graph random_dag(int32_t nodes, int32_t fan_in, uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph g;
  g.family = "random_dag";
  std::vector<int32_t> made, readers;
  for (int32_t i = 0; i < nodes; ++i) {
    std::vector<int32_t> in;
    for (int64_t k = i == 0 ? 0 : pick(random, i < 4 ? 1 : 0, fan_in); k > 0; --k) {
      const int64_t at = pick(random, std::max<int64_t>(0, i - 30), i - 1);
      in.push_back(made[at]);
      ++readers[at];
    }
    made.push_back(g.node("Op" + std::to_string(random() % 5), in, pick(random, 1, 64) * kKiB));
    readers.push_back(0);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    if (readers[i] == 0) g.output(g.node("Reduce", {made[i]}, 64));
  }
  return g;
}

Graph random_tree(int32_t leaves, uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph g;
  g.family = "tree";
  std::vector<int32_t> open;
  for (int32_t i = 0; i < leaves; ++i) open.push_back(g.node("Gather", {g.weight()}, pick(random, 1, 64) * kKiB));
  while (open.size() > 1) {
    std::swap(open[size_t(pick(random, 0, int64_t(open.size()) - 1))], open.back());
    const int32_t a = open.back();
    open.pop_back();
    int32_t& b = open[size_t(pick(random, 0, int64_t(open.size()) - 1))];
    b = g.node("Add", {a, b}, pick(random, 1, 64) * kKiB);
  }
  g.output(open[0]);
  return g;
}

Graph fan_out_tree(int32_t depth, int64_t bytes) {
  Graph g;
  g.family = "fan_out";
  std::vector<int32_t> row{g.node("Conv", {g.value(0, kExternal)}, bytes)};
  for (int32_t d = 0; d < depth; ++d) {
    std::vector<int32_t> next;
    for (int32_t x : row) {
      next.push_back(g.node("Left", {x}, bytes));
      next.push_back(g.node("Right", {x}, bytes / 2));
    }
    row = next;
  }
  for (int32_t x : row) g.output(g.node("ReduceMax", {x}, 64));
  return g;
}

Graph wide(int32_t branches, int64_t bytes) {
  Graph g;
  g.family = "wide";
  const int32_t x = g.node("Conv", {g.value(0, kExternal)}, bytes);
  std::vector<int32_t> parts;
  for (int32_t i = 0; i < branches; ++i) {
    parts.push_back(g.node("ReduceMean", {g.node("Conv", {x, g.weight()}, bytes)}, bytes / 16));
  }
  g.output(g.node("Concat", parts, branches * (bytes / 16)));
  return g;
}

Graph chain(int32_t nodes, int64_t bytes) {
  Graph g;
  g.family = "chain";
  int32_t x = g.value(0, kExternal);
  for (int32_t i = 0; i < nodes; ++i) x = g.node("Op" + std::to_string(i % 3), {x}, bytes * (1 + i % 3));
  g.output(x);
  return g;
}

Graph shapes_at_end(int32_t layers, int64_t bytes, bool with_shape) {
  Graph g;
  g.family = "shapes";
  int32_t x = g.value(0, kExternal);
  std::vector<int32_t> big, sizes;
  for (int32_t i = 0; i < layers; ++i) {
    x = g.node("Conv", {x, g.weight()}, bytes);
    big.push_back(x);
  }
  for (int32_t b : big) {
    if (with_shape) sizes.push_back(g.node("Shape", {b}, 0, {.header_only = true}));
  }
  sizes.push_back(x);
  g.output(g.node("Reshape", sizes, 0, {.view = int32_t(sizes.size()) - 1}));
  return g;
}

std::vector<Graph> all() {
  std::vector<Graph> graphs;
  const auto add = [&](Graph g) {
    g.name = g.family + "#" + std::to_string(graphs.size());
    graphs.push_back(std::move(g));
  };
  for (int32_t n : {1, 2, 5, 12, 32, 64}) {
    for (int64_t b : {64, 4096}) add(qdq_chain(n, b * kKiB));
  }
  for (int32_t n : {1, 3, 8, 16, 24}) {
    for (int64_t b : {16, 1000}) add(masks_per_layer(n, b * kKiB));
  }
  for (int32_t n : {1, 2, 6}) {
    for (int32_t h : {1, 2, 4, 8}) add(transformer(n, h, 256 * kKiB));
  }
  for (int32_t d = 1; d <= 8; ++d) add(unet(d, 4096 * kKiB));
  for (int32_t b : {1, 3, 8}) {
    for (int32_t w : {2, 4, 7}) {
      for (uint64_t s = 0; s < 4; ++s) add(inception(b, w, 100 + s));
    }
  }
  for (int32_t l : {1, 2, 6}) {
    for (int32_t e : {2, 8, 16}) add(mixture_of_experts(l, e, 128 * kKiB));
  }
  for (int32_t t : {3, 10, 30}) {
    for (int32_t l : {1, 2, 3}) add(rnn_unrolled(t, l, 64 * kKiB));
  }
  for (int32_t l : {1, 2, 4, 8, 16}) {
    for (bool recompute : {false, true}) add(training(l, 256 * kKiB, recompute));
  }
  for (uint64_t s = 0; s < 20; ++s) {
    add(random_dag(30, 2, 1000 + s));
    add(random_dag(100, 3, 2000 + s));
    if (s < 10) add(random_dag(300, 2 + int32_t(s % 3), 3000 + s));
  }
  for (int32_t n : {4, 16, 64, 200}) {
    for (uint64_t s = 0; s < 8; ++s) add(random_tree(n, 500 + s));
  }
  for (int32_t d : {2, 4, 6}) add(fan_out_tree(d, 512 * kKiB));
  for (int32_t n : {3, 20, 100, 300}) add(wide(n, 64 * kKiB));
  for (int32_t n : {1, 10, 300}) add(chain(n, 64 * kKiB));
  for (int32_t n : {2, 10, 100}) add(shapes_at_end(n, 64 * kKiB, true));
  return graphs;
}

std::vector<Graph> small(int32_t count) {
  std::vector<Graph> graphs;
  for (int32_t i = 0; i < count; ++i) {
    std::mt19937_64 random(uint64_t(7000 + i));
    Graph g;
    g.family = "small";
    g.name = "small#" + std::to_string(7000 + i);
    std::vector<int32_t> made;
    std::vector<int64_t> size;
    const int64_t nodes = pick(random, 2, 14);
    for (int64_t n = 0; n < nodes; ++n) {
      std::vector<int32_t> in;
      for (int64_t k = pick(random, 0, 3); k > 0 && !made.empty(); --k) {
        in.push_back(
            made[size_t(pick(random, std::max<int64_t>(0, int64_t(made.size()) - 6), int64_t(made.size()) - 1))]);
      }
      Traits traits;
      int64_t bytes = pick(random, 0, 8) * 64;
      const int64_t kind = in.empty() ? 9 : pick(random, 0, 9);
      if (kind <= 3) {
        traits.inplace = 0;
        bytes = size[size_t(std::find(made.begin(), made.end(), in[0]) - made.begin())];
      } else if (kind == 4) {
        traits.view = 0;
        bytes = size[size_t(std::find(made.begin(), made.end(), in[0]) - made.begin())];
      } else if (kind == 5) {
        traits.header_only = true;
        bytes = 64;
      }
      const int32_t out = g.value(bytes);
      std::vector<int32_t> outs{out};
      made.push_back(out);
      size.push_back(bytes);
      if (pick(random, 0, 5) == 0) {
        size.push_back(pick(random, 1, 4) * 64);
        made.push_back(g.value(size.back()));
        outs.push_back(made.back());
      }
      g.node_to("Op" + std::to_string(kind), in, outs, traits);
      if (pick(random, 0, 5) == 0) g.output(out);
    }
    graphs.push_back(std::move(g));
  }
  return graphs;
}

}  // namespace tessera::corpus
