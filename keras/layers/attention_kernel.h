// The kernel of attention with several heads: projections of query, key and value, scores, softmax,
// weighted values, and their projection. Between the projections everything lies head by head
// (batch, heads, steps, width), so that scores and values are one batched matmul each. Made by the
// layer (attention.cc) for a batch size, owned by the graph as every Kernel.
#pragma once

#include <memory>
#include <vector>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

struct AttentionPlan {
  int64_t inner = 1;                                    // sequences of an example
  int64_t batch = 0, heads = 0, queries = 0, keys = 0;  // batch: sequences; keys: steps of both
  int64_t query_in = 0, key_in = 0, value_in = 0;       // widths of the inputs
  int64_t key_width = 0, value_width = 0, out = 0;      // of a head, of a head, of the output
  bool bias = true, separate_key = false;               // else the value is the key
  bool causal = false, return_scores = false;
  MaskedScore masked = MaskedScore::kReplaced;
  float dropout = 0;

  int64_t scores() const { return heads * queries * keys; }  // of a sequence
};

// A mask among the inputs: (batch, dims) with a batch of its own, 1 where it is broadcast.
struct AttentionMask {
  size_t input = 0;
  int64_t queries = 1, keys = 1;
};

// Inputs: query (batch, queries, width), value and maybe key (batch, keys, width), then masks.
// Parameters: kernel and, with `bias`, bias of query, key, value and output. An output example is
// (inner, queries, out) and, if they are returned, the scores (inner, heads, queries, keys).
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionKernel(Ops& ops, const AttentionPlan& plan,
                                                            std::vector<AttentionMask> masks);

}  // namespace paracord
