// Parts of a trainer that do as little as they can, for tests.
#pragma once

#include <span>

#include "program/workload.h"
#include "worker/parameter_session.h"

namespace paracord {

// Each batch is the same one example.
class OneExample : public BatchFeed {
 public:
  OneExample() { batch.examples = 1; }
  void Start(const DataPlan&) override {}
  absl::StatusOr<const Batch*> Get(const BatchId&, std::span<const BatchId>) override {
    return &batch;
  }

  Batch batch;
};

class NoArrays : public StepArrays {
 public:
  void Prepare() override {}
  ConstTensors values() const override { return {}; }
  MutableTensors gradients() const override { return {}; }
  bool GradientFinite(size_t) const override { return true; }
  bool Encode(size_t) override { return true; }
};

}  // namespace paracord
