// A program file for the fake PJRT plug-in (tests/fake_pjrt): variables w (2, 3) and b (3), a
// moving average and a frozen variable; steps for 4 and for 2 examples, predictions for 4.
#pragma once

#include <string>

#include "absl/strings/escaping.h"
#include "common/json_text.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline std::string FakeCode(const std::string& text) {
  std::string code;
  absl::Base64Escape(text, &code);
  return code;
}

// The arguments are w, b, mean, frozen, x, y and the key. The loss is 0.5 plus the key's lower
// half; the gradients are twice w, and y's first examples.
inline nlohmann::json FakeStep(uint32_t batch) {
  return {{"kind", "step"},
          {"batch", batch},
          {"arguments",
           {{{"kind", "variable"}, {"name", "w"}},
            {{"kind", "variable"}, {"name", "b"}},
            {{"kind", "variable"}, {"name", "mean"}},
            {{"kind", "variable"}, {"name", "frozen"}},
            {{"kind", "input"}, {"name", "x"}},
            {{"kind", "target"}, {"name", ""}},
            {{"kind", "key"}}}},
          {"results",
           {{{"kind", "loss"}},
            {{"kind", "gradient"}, {"name", "w"}},
            {{"kind", "gradient"}, {"name", "b"}},
            {{"kind", "gradient"}, {"name", "mean"}}}},
          {"code", FakeCode("f32 - 0.5 1 6\nf32 2x3 0 2 0\nf32 3 1 1 5\nf32 2 0 1 4\n")}};
}

// A step of several replicas: the loss is each replica's own, the gradients are sums.
inline nlohmann::json FakeReplicaStep(uint32_t batch, uint32_t replicas) {
  nlohmann::json step = FakeStep(batch);
  step["replicas"] = replicas;
  step["code"] = FakeCode("f32 - 0.5 1 6\nf32 2x3 0 2 0 sum\nf32 3 1 1 5 sum\nf32 2 0 1 4 sum\n");
  return step;
}

inline nlohmann::json FakeProgramFile() {
  const nlohmann::json file = {
      {"format", 1},
      {"made_by", "a test"},
      {"stablehlo", "1.0.0"},
      {"variables",
       {{{"name", "w"}, {"shape", {2, 3}}, {"initializer", "ones"}},
        {{"name", "b"}, {"shape", {3}}},
        {{"name", "mean"}, {"shape", {2}}, {"moving_average", 0.5}},
        {{"name", "frozen"}, {"shape", nlohmann::json::array()}, {"trainable", false}}}},
      {"inputs", {{{"name", "x"}, {"shape", {2}}}}},
      {"targets", {{{"name", ""}, {"shape", nlohmann::json::array()}, {"dtype", "int32"}}}},
      {"outputs", {{{"name", ""}, {"shape", {2}}}}},
      {"modules",
       {FakeStep(4),
        FakeStep(2),
        {{"kind", "predict"},
         {"batch", 4},
         {"arguments", {{{"kind", "input"}, {"name", "x"}}, {{"kind", "variable"}, {"name", "w"}}}},
         {"results", {{{"kind", "output"}, {"name", ""}}}},
         {"code", FakeCode("f32 4x2 0 10 0\n")}}}}};
  return JsonOf(TextOf(file));  // parses numbers as unsigned, as the product does
}

}  // namespace paracord
