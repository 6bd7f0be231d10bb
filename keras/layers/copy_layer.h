// Layers that only move elements. A Walk (tensor/ops.h) is a loop over axes with strides for input
// and output. An input is copied along a walk into the output, and the output's gradient along the
// reversed walk into the input's gradient.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "keras/layers/layer.h"
#include "keras/layers/walks.h"

namespace paracord {

// A copy from an input to the output, from the offset `from` of the input to `to` of the output.
struct Way {
  Walk walk;
  int64_t from = 0, to = 0;
  int64_t n = 0;          // the number of elements of the input
  bool partial = false;   // true: skips elements of the input, which then have the gradient 0
  bool repeated = false;  // true: reads elements more than once, so that their gradients add up
};

class CopyKernel : public Kernel {
 public:
  // ways[i] copies input i. `n` is the number of elements of the output, and `fill` the value of
  // those that no way writes; nullopt: the ways write all.
  CopyKernel(Ops& ops, std::vector<Way> ways, int64_t n, std::optional<float> fill)
      : ops_(ops), ways_(std::move(ways)), n_(n), fill_(fill) {
    for (const Way& way : ways_) back_.push_back({way.walk.dims, way.walk.y, {}, way.walk.a});
  }
  void Forward(const ForwardCall& call) override {
    if (fill_.has_value()) ops_.Fill(n_, *fill_, call.output);
    for (size_t i = 0; i < ways_.size(); ++i) {
      const Way& way = ways_[i];
      ops_.Copy(way.walk, false, call.inputs[i] + way.from, call.output + way.to);
    }
  }
  void Backward(const BackwardCall& call) override {
    for (size_t i = 0; i < ways_.size(); ++i) {
      const Way& way = ways_[i];
      if (call.d_inputs[i] == nullptr) continue;
      if (way.partial || way.repeated) ops_.Fill(way.n, 0, call.d_inputs[i]);
      ops_.Copy(back_[i], way.repeated, call.d_output + way.to, call.d_inputs[i] + way.from);
    }
  }

 private:
  Ops& ops_;
  const std::vector<Way> ways_;
  const int64_t n_;
  const std::optional<float> fill_;
  std::vector<Walk> back_;
};

// Copies the only input. Each way copies a piece; together they cover input and output, once each.
class PiecesKernel : public Kernel {
 public:
  PiecesKernel(Ops& ops, std::vector<Way> ways) : ops_(ops), ways_(std::move(ways)) {}
  void Forward(const ForwardCall& call) override {
    for (const Way& way : ways_) {
      ops_.Copy(way.walk, false, call.inputs[0] + way.from, call.output + way.to);
    }
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    for (const Way& way : ways_) {
      ops_.Copy({way.walk.dims, way.walk.y, {}, way.walk.a}, false, call.d_output + way.to,
                call.d_inputs[0] + way.from);
    }
  }

 private:
  Ops& ops_;
  const std::vector<Way> ways_;
};

// A layer whose output is copied from its only input along a walk.
class CopyLayer : public Layer {
 public:
  using Layer::Layer;
  explicit CopyLayer(const Layer& of) : Layer(of) {}
  struct Plan {
    Shape output;
    Shape dims;                 // the axes of the walk, without the batch
    std::vector<int64_t> a, y;  // the strides in the input and in the output
    int64_t from = 0, to = 0;   // the offsets of the first element within an example
    bool partial = false, repeated = false;
    std::optional<float> fill;
  };
  // Returns the plan of a transpose: axis order[i] of the input becomes axis i of the output.
  static Plan Permuted(const Shape& input, const Shape& order);
  virtual absl::StatusOr<Plan> PlanFor(const Shape& input) const = 0;

  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape>) const override {
    return Bfloat16::kIfComputed;
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(Plan plan, PlanFor(inputs[0]));
    return std::move(plan.output);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(Plan plan, PlanFor(inputs[0]));
    const int64_t in = Elements(inputs[0]), out = Elements(plan.output);
    plan.a.insert(plan.a.begin(), in);
    plan.y.insert(plan.y.begin(), out);
    Way way{Shorten({WithBatch(batch, plan.dims), plan.a, {}, plan.y}),
            plan.from,
            plan.to,
            batch * in,
            plan.partial,
            plan.repeated};
    return std::make_unique<CopyKernel>(ops, std::vector<Way>{std::move(way)}, batch * out,
                                        plan.fill);
  }
};

}  // namespace paracord
