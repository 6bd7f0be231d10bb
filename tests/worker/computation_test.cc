#include "worker/computation.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/worker/plain_parts.h"

namespace paracord {
namespace {

// Two variables with gradients 2 and 3. The second gradient is complete early.
class TwoGradients : public NoVariables {
 public:
  TwoGradients() : variables_(2) {}
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors gradients) override {
    gradients[1][0] = 3;
    if (there_) there_(1);
    gradients[0][0] = 2;
    return 0.5;
  }
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }

 private:
  std::vector<VariableSpec> variables_;
  std::function<void(size_t)> there_;
};

// Records each gradient when it leaves early or is encoded.
class NotedGradients : public NoArrays {
 public:
  explicit NotedGradients(bool early) : early_(early) {}
  MutableTensors gradients() const override { return spans_; }
  bool Encode(size_t variable) override { return Note(variable); }
  bool wants_early() const override { return early_; }
  bool Add(size_t variable) override {
    added_[variable] = true;
    return Note(variable);
  }
  bool added(size_t variable) const override { return added_[variable]; }

  std::vector<std::pair<size_t, float>> noted;

 private:
  bool Note(size_t variable) {
    noted.emplace_back(variable, arrays_[variable][0]);
    return true;
  }

  const bool early_;
  std::vector<float> arrays_[2] = {{0}, {0}};
  std::vector<std::span<float>> spans_ = {arrays_[0], arrays_[1]};
  bool added_[2] = {false, false};
};

TEST_CASE("in a synchronous round a gradient weighs what its batch has of a whole one, early too") {
  const bool early = GENERATE(false, true);
  for (const float factor : {0.75f, 1.f}) {
    CAPTURE(early, factor);
    Workload workload;
    workload.program = std::make_unique<TwoGradients>();
    auto feed = std::make_unique<OneExample>();
    feed->batch.examples = 2;  // must not matter
    workload.feed = std::move(feed);
    const auto step = std::make_shared<NotedGradients>(early);
    Computation computation;
    computation.step = step;
    computation.factor = factor;
    RunComputation(computation, workload);
    std::string message;
    CHECK(computation.problem(message) == PROBLEM_NONE);
    std::vector<std::pair<size_t, float>> noted = {{0, 2 * factor}, {1, 3 * factor}};
    if (early) std::swap(noted[0], noted[1]);
    CHECK(step->noted == noted);
  }
}

}  // namespace
}  // namespace paracord
