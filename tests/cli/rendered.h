// Runs `paracord render kubernetes` on a small job, for its tests.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "cli/commands.h"
#include "nlohmann/json.hpp"
#include "tests/fakes.h"

namespace paracord {

inline constexpr char kRenderedModel[] =
    R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "in"}},
    {"class_name": "Dense", "config": {"name": "dense", "units": 3}}]}})";

struct Rendered {
  int code = -1;
  std::string out, err;
  bool has(const std::string& text) const { return absl::StrContains(out, text); }
};

class RenderExample {
 public:
  explicit RenderExample(const std::string& model = kRenderedModel) {
    directory_.Write("model.json", model);
  }

  Rendered Render(std::vector<std::string> args, const std::string& name = "Counting Job",
                  const std::string& what = "kubernetes") {
    const nlohmann::json job = {
        {"name", name},
        {"model", "model.json"},
        {"data",
         {{"train", {{"format", "npy"}, {"features", "data/x.npy"}, {"labels", "data/y.npy"}}}}},
        {"loss", "mean_squared_error"},
        {"optimizer", "sgd"}};
    args.insert(args.begin(), {what, directory_.Write("job.json", job.dump())});
    std::ostringstream out, err;
    const int code = RunRender(args, out, err);
    return {code, out.str(), err.str()};
  }

 private:
  TestDirectory directory_;
};

}  // namespace paracord
