// The kernel of SimpleRNN, LSTM and GRU. Inside it everything lies step by step (steps, batch,
// width), so that the product with the input is one matmul over all steps, each step's product with
// the state reads and writes whole blocks, and backwards in time is another way to copy the input.
// Made by the layer (recurrent.cc) for a batch size, owned by the graph as every Kernel.
#pragma once

#include <memory>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

// What a kernel is made from.
struct RecurrentPlan {
  CellKind kind = CellKind::kSimple;  // kGruGates stands for both halves
  int64_t batch = 0, steps = 0, in = 0, units = 0;
  int64_t gates = 0, kept = 0;  // widths in units
  Activation activation, recurrent_activation;
  bool bias = false, sequences = false, go_backwards = false, zero_output = false;
  float dropout = 0, recurrent_dropout = 0;
  size_t states = 1, given_states = 0;  // of the cell, and how many inputs are their first values
  int64_t each = 0;                     // floats of an output example

  int64_t block() const { return batch * units; }  // of a state
  bool reset_before() const { return kind == CellKind::kGruGates; }
  bool own_product() const { return kind == CellKind::kGru || reset_before(); }
};

// Inputs: x (batch, steps, in), first states (batch, units), then a mask (batch, steps) if `masked`
// and, unused, what else there is. Parameters: kernel, recurrent kernel, bias. An output example is
// the steps' h or the last, then, if `each` has room for them, the last states.
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentKernel(Ops& ops, const RecurrentPlan& plan,
                                                            bool masked);

}  // namespace paracord
