// The parameters of GroupQueryAttention, and its general form: caches of small integers, and caches that hold only what
// a window needs.
#pragma once
#include "ops/contrib/contrib.h"

namespace tessera::contrib {

namespace group_query {
enum In {
  kQuery,
  kKey,
  kValue,
  kPastK,
  kPastV,
  kSeqLens,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kScoreBias,
  kHeadSink,
  kScaleK,
  kScaleV
};
enum Out { kOut, kPresentK, kPresentV, kQk };
}  // namespace group_query

struct GroupParams {
  int64_t heads = 0, kv_heads = 0;
  float scale = 0, softcap = 0;
  int64_t window = -1;
  bool rotary = false, interleaved = false, smooth = false, causal = true;
  int qk = 0;             // 0 none, 1 before, 2 after the softmax
  int bits = 0;           // of the numbers of the cache; 0: they are floats
  bool windowed = false;  // the cache drops what no window reaches

  // Elements of the cache for a head of `size`.
  template <class D>
  D cached(const D& size) const {
    return bits == 4 ? floor_div(size + D(1), D(2)) : size;
  }
};

Status compute_group_query_general(const GroupParams& p, Call& call);

}  // namespace tessera::contrib
