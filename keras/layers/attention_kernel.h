// The kernel of multi-head attention: projections of query, key and value, scores, softmax,
// weighted values, and the projection of the weighted values. Between the projections tensors are
// (batch, heads, steps, width): scores and weighted values are then one batched matmul each. Made
// by the layer (attention.cc) for a batch size.
#pragma once

#include <memory>
#include <vector>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

struct AttentionPlan {
  int64_t inner = 1;  // the number of sequences in one example
  // `batch` is the number of sequences in all examples, `queries` the steps of a query, and `keys`
  // the steps of a key and of a value.
  int64_t batch = 0, heads = 0, queries = 0, keys = 0;
  int64_t query_in = 0, key_in = 0, value_in = 0;  // the widths of the inputs
  // The width of a head's key, of a head's value, and of the output.
  int64_t key_width = 0, value_width = 0, out = 0;
  bool bias = true, separate_key = false;  // separate_key false: the value input is also the key
  bool causal = false, return_scores = false;
  MaskedScore masked = MaskedScore::kReplaced;
  float dropout = 0;

  int64_t scores() const { return heads * queries * keys; }  // the number of scores of one sequence
};

// A mask is input number `input` of the kernel: (batch, queries, keys), 0 where a query must not
// see a key. `queries` or `keys` is 1 if the mask is broadcast along that axis.
struct AttentionMask {
  size_t input = 0;
  int64_t queries = 1, keys = 1;
};

// The kernel's inputs: query (batch, queries, width), value and, with `separate_key`, key (batch,
// keys, width), then masks. Its parameters: the kernels of query, key, value and output, each
// followed by its bias if `bias` is true. An example of the output is (inner, queries, out),
// followed by the scores (inner, heads, queries, keys) if `return_scores` is true.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionKernel(Ops& ops, const AttentionPlan& plan,
                                                            std::vector<AttentionMask> masks);

}  // namespace paracord
