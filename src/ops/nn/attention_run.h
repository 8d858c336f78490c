// The engine of all attention operators: softmax(scale * Q K' + masks) V over heads, whoever says where heads lie and
// which keys a query may see.
//
// Keys and values of any float type are read as they lie; sums are kept in float (or double). A row of queries whose
// keys are all masked gives zeros.
#pragma once
#include "ops/nn/attention_shape.h"

namespace tessera::attention {

// Heads of one input in memory.
struct HeadTensor {
  const std::byte* data = nullptr;
  DType type = DType::undefined;
  Layout layout{};
};

// Numbers (or, if boolean, permissions) added to the scores of a query: `length` of them, keys behind are masked.
struct Mask {
  const void* data = nullptr;
  DType type = DType::undefined;
  int64_t batch_step = 0, head_step = 0, query_step = 0, length = 0;
  int64_t at(int64_t b, int64_t h, int64_t q) const { return b * batch_step + h * head_step + q * query_step; }
  // A tensor of up to four dimensions that broadcasts to [batch, heads, queries, length].
  static Mask of(const Call& call, int i);
};

// Angles by which the first elements of heads are turned, as tables of cosines and sines.
struct Angles {
  const float *cos, *sin;  // rows of `half`
  int64_t half;
  bool interleaved;
  const int64_t* rows;  // of the tables, for each query: [batch, queries]
};

// New rows written behind those of a cache. When present lies where past lies, rows that are in place stay.
struct CacheStep {
  int64_t batch, heads, size;
  const std::byte* past;  // [batch, heads, past_room, size], or null
  int64_t past_room;
  const int64_t* past_rows;  // of each sample; null: past_room
  HeadTensor fresh;          // of any float type
  int64_t fresh_rows;
  std::byte* present;  // [batch, heads, present_room, size]
  int64_t present_room;
  DType type;                      // of the cache
  const Angles* angles = nullptr;  // of the new rows
  bool zeros_behind = false;       // rows behind the new ones become zeros, unless they lie where the past lies
};

struct Problem {
  explicit Problem(const Sizes& s) : sizes(s) {}
  Sizes sizes;
  HeadTensor q, k, v;
  HeadTensor past_k, past_v;                             // sizes.past rows before those of k and v
  const CacheStep *keep_k = nullptr, *keep_v = nullptr;  // to be done before k and v, which lie there, are read
  const Angles* angles = nullptr;                        // of the queries
  void* y = nullptr;
  DType y_type = DType::undefined;
  Layout y_layout{};
  Mask masks[2];
  const int64_t* valid = nullptr;  // keys of each sample; null: all
  const int64_t* first = nullptr;  // place among the keys of each sample's first query; null: after the past
  const float* sinks = nullptr;    // one more score for each query head, which takes part in the softmax alone
  float scale = 1, softcap = 0;    // softcap 0: none
  bool causal = false;
  int64_t left_window = -1, right_window = -1;  // -1: unbounded
  bool in_steps = false;      // half floats are rounded after each step of the body that the standard gives
  bool wide_softmax = false;  // but not inside the softmax
  void* scores = nullptr;     // [batch, heads, queries, keys], where somebody wants them
  DType scores_type = DType::undefined;
  int scores_mode = 0;           // 0 products, 1 after softcap, 2 after the masks, 3 after softmax
  std::byte* scratch = nullptr;  // for each lane scratch_bytes(sizes)
  int64_t scratch_step = 0;
};

// Elements [from, from + n) of float type as floats.
void load_floats(Target target, DType type, const void* data, int64_t from, int64_t n, float* out);

int64_t scratch_bytes(const Sizes& s);
// Bytes of old rows that caches of this process were given because present lies elsewhere than past.
int64_t cache_bytes_moved();
Status run(const Problem& p, Call& call);

}  // namespace tessera::attention
