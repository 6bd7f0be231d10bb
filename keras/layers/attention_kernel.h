// The kernel of multi-head attention: projections of query, key and value, scores, softmax,
// weighted values, and their projection. Between the projections tensors are (batch, heads, steps,
// width): scores and weighted values are then one batched matmul each. Made by the layer
// (attention.cc) for a batch size; owned by the graph like every Kernel.
#pragma once

#include <memory>
#include <vector>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

struct AttentionPlan {
  int64_t inner = 1;  // sequences in one example
  // `batch` counts sequences of all examples. Keys and values have the same number of steps,
  // `keys`.
  int64_t batch = 0, heads = 0, queries = 0, keys = 0;
  int64_t query_in = 0, key_in = 0, value_in = 0;  // widths of the inputs
  // The width of a head's key, of a head's value, and of the output.
  int64_t key_width = 0, value_width = 0, out = 0;
  bool bias = true, separate_key = false;  // separate_key false: the value is also the key
  bool causal = false, return_scores = false;
  MaskedScore masked = MaskedScore::kReplaced;
  float dropout = 0;

  int64_t scores() const { return heads * queries * keys; }  // the scores of one sequence
};

// A mask among the inputs, (batch, queries, keys), 0 where a query must not see a key. `queries` or
// `keys` is 1 if the mask is broadcast along the axis.
struct AttentionMask {
  size_t input = 0;
  int64_t queries = 1, keys = 1;
};

// Inputs: query (batch, queries, width), value and perhaps key (batch, keys, width), then masks.
// Parameters: the kernels of query, key, value and output, each followed by its bias if there is
// `bias`. An example of the output is (inner, queries, out), followed by the scores (inner, heads,
// queries, keys) with `return_scores`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionKernel(Ops& ops, const AttentionPlan& plan,
                                                            std::vector<AttentionMask> masks);

}  // namespace paracord
