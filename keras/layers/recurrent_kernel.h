// The kernel of SimpleRNN, LSTM and GRU, made by recurrent.cc. Its own tensors are (steps, batch,
// width): the product with the input is a single matmul over all steps, each step's product with
// the state works on contiguous memory, and `go_backwards` only changes how the input is copied.
#pragma once

#include <memory>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

// The parameters of a kernel: the layer's keys, and the shapes of a call.
struct RecurrentPlan {
  // kGruGates stands for a GRU with reset_after false: the reset comes before the product.
  CellKind kind = CellKind::kSimple;
  int64_t batch = 0, steps = 0, in = 0, units = 0;
  int64_t gates = 0, kept = 0;  // how many numbers per unit CellStep::z and CellStep::kept have
  Activation activation, recurrent_activation;
  bool bias = false, sequences = false, go_backwards = false, zero_output = false;
  float dropout = 0, recurrent_dropout = 0;
  size_t states = 1, given_states = 0;  // the numbers of states, and of initial states among inputs
  int64_t each = 0;                     // the floats of an example's output

  int64_t block() const { return batch * units; }  // the floats of one state of the batch
  bool reset_before() const { return kind == CellKind::kGruGates; }
  bool own_product() const { return kind == CellKind::kGru || reset_before(); }
};

// The kernel's inputs: x (batch, steps, in), `given_states` initial states (batch, units), a mask
// (batch, steps) if `masked`, and others that are ignored. Its parameters: kernel, recurrent
// kernel, bias. An example of the output is h of all steps (`sequences`) or of the last step,
// followed by the states after the last step if `each` has room for them.
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentKernel(Ops& ops, const RecurrentPlan& plan,
                                                            bool masked);

}  // namespace paracord
