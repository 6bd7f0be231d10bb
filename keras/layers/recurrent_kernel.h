// The kernel of SimpleRNN, LSTM and GRU. Tensors are (steps, batch, width): the product with the
// input is a single matmul over all steps, each step's product with the state works on contiguous
// memory, and going backwards in time only changes the copy of the input. Made by the layer
// (recurrent.cc) for a batch size; owned by the graph like every Kernel.
#pragma once

#include <memory>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

// The parameters of a kernel: the layer's keys, and the shapes of a call.
struct RecurrentPlan {
  CellKind kind = CellKind::kSimple;  // kGruGates: a GRU with the reset before the product
  int64_t batch = 0, steps = 0, in = 0, units = 0;
  int64_t gates = 0, kept = 0;  // numbers per unit: in CellStep::z, and in CellStep::kept
  Activation activation, recurrent_activation;
  bool bias = false, sequences = false, go_backwards = false, zero_output = false;
  float dropout = 0, recurrent_dropout = 0;
  size_t states = 1, given_states = 0;  // number of states; number of first states given as inputs
  int64_t each = 0;                     // floats of an example's output

  int64_t block() const { return batch * units; }  // floats of one state of the batch
  bool reset_before() const { return kind == CellKind::kGruGates; }
  bool own_product() const { return kind == CellKind::kGru || reset_before(); }
};

// Inputs: x (batch, steps, in), first states (batch, units), a mask (batch, steps) if `masked`, and
// further inputs, ignored. Parameters: kernel, recurrent kernel, bias. An example of the output is
// h of all steps (`sequences`) or of the last, followed by the last states if `each` has room.
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentKernel(Ops& ops, const RecurrentPlan& plan,
                                                            bool masked);

}  // namespace paracord
