#include "keras/stage_cut.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "config/nearest.h"

namespace paracord {
namespace {

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("stages: ", what));
}

std::string Counted(size_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

absl::StatusOr<size_t> FindLayer(std::span<const StageLayer> layers, const std::string& name) {
  std::vector<std::string_view> known;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].name == name) return i;
    known.push_back(layers[i].name);
  }
  return Wrong(
      absl::StrCat("the model computes no layer \"", name, "\"", NearestHint(name, known)));
}

// Checks that layers with common weights are in the same stage.
absl::Status CheckStages(std::span<const StageLayer> layers, std::span<const size_t> begins) {
  const auto stage_of = [&](size_t layer) {
    return std::ranges::upper_bound(begins, layer) - begins.begin();  // from 1 on
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const size_t shared : layers[i].shares) {
      if (stage_of(shared) == stage_of(i)) continue;
      return Wrong(absl::StrCat("layer \"", layers[shared].name, "\" is called in stage ",
                                stage_of(shared), " and again in stage ", stage_of(i),
                                ", and a stage has its weights alone: begin no stage between the "
                                "two calls"));
    }
    if (layers[i].table && stage_of(i) > 1) {
      return Wrong(absl::StrCat("layer \"", layers[i].name, "\" is in stage ", stage_of(i),
                                ", and its rows travel alone (key `tables`), which only those of "
                                "the first stage can: begin the second stage after it"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<size_t>> CutByName(std::span<const StageLayer> layers,
                                              const std::vector<std::string>& names) {
  std::vector<size_t> begins = {0};
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const size_t layer, FindLayer(layers, name));
    if (layer == 0) {
      return Wrong(absl::StrCat("\"", name,
                                "\" is the model's first layer, with which the first "
                                "stage begins anyway: leave it out"));
    }
    if (layer <= begins.back()) {
      return Wrong(absl::StrCat("names \"", name, "\" after \"", layers[begins.back()].name,
                                "\", which comes later in the model: name layers in its order"));
    }
    begins.push_back(layer);
  }
  RETURN_IF_ERROR(CheckStages(layers, begins));
  return begins;
}

// Whether a stage may begin with each layer.
std::vector<bool> Parted(std::span<const StageLayer> layers) {
  std::vector<bool> may(layers.size(), true);
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t together = layers[i].table ? 0 : i;  // the first layer inseparable from layer i
    for (const size_t shared : layers[i].shares) together = std::min(together, shared);
    for (size_t at = together + 1; at <= i; ++at) may[at] = false;
  }
  return may;
}

// By layer: the previous layers' share of the model's multiply-adds plus their share of its bytes.
std::vector<double> WeightsBefore(std::span<const StageLayer> layers) {
  double bytes = 0, multiply_adds = 0;
  for (const StageLayer& layer : layers) {
    bytes += static_cast<double>(layer.bytes);
    multiply_adds += static_cast<double>(layer.multiply_adds);
  }
  std::vector<double> before = {0};
  for (const StageLayer& layer : layers) {
    const double of_bytes = static_cast<double>(layer.bytes) / std::max(bytes, 1.0);
    const double of_work = static_cast<double>(layer.multiply_adds) / std::max(multiply_adds, 1.0);
    before.push_back(before.back() + of_bytes + of_work);
  }
  return before;
}

}  // namespace

absl::StatusOr<std::vector<size_t>> CutStages(std::span<const StageLayer> layers,
                                              const StagesSpec& stages) {
  if (!stages.begins.empty()) return CutByName(layers, stages.begins);
  if (stages.count <= 1) return std::vector<size_t>{0};
  if (stages.count > layers.size()) {
    return Wrong(absl::StrCat("is ", stages.count, ", and the model has ",
                              Counted(layers.size(), "layer"), ": give fewer"));
  }
  const std::vector<bool> may = Parted(layers);
  const auto places = static_cast<size_t>(std::count(may.begin() + 1, may.end(), true));
  if (places + 1 < stages.count) {
    return Wrong(absl::StrCat("is ", stages.count, ", and the model can be parted in ",
                              Counted(places, "place"),
                              ", because tables (key `tables`) stay in "
                              "the first stage, and calls of a layer with weights stay together: "
                              "give fewer"));
  }
  // By number of stages and number of layers: the smallest weight of the heaviest stage, and where
  // the last stage begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::vector<double> before = WeightsBefore(layers);
  const size_t n = layers.size();
  std::vector<double> least(before);
  std::vector<std::vector<size_t>> begins(stages.count, std::vector<size_t>(n + 1, 0));
  for (size_t stage = 1; stage < stages.count; ++stage) {
    std::vector<double> next(n + 1, kNever);
    for (size_t end = stage + 1; end <= n; ++end) {
      for (size_t begin = stage; begin < end; ++begin) {
        if (!may[begin]) continue;
        const double greatest = std::max(least[begin], before[end] - before[begin]);
        if (greatest >= next[end]) continue;
        next[end] = greatest;
        begins[stage][end] = begin;
      }
    }
    least = std::move(next);
  }
  std::vector<size_t> cut(stages.count, 0);
  size_t end = n;
  for (size_t stage = stages.count; stage-- > 1;) cut[stage] = end = begins[stage][end];
  return cut;
}

std::string StagesText(std::span<const StageLayer> layers, std::span<const size_t> begins) {
  std::string text;
  for (size_t s = 0; s < begins.size(); ++s) {
    const size_t end = s + 1 < begins.size() ? begins[s + 1] : layers.size();
    int64_t bytes = 0, multiply_adds = 0;
    for (size_t i = begins[s]; i < end; ++i) {
      bytes += layers[i].bytes;
      multiply_adds += layers[i].multiply_adds;
    }
    const std::string& first = layers[begins[s]].name;
    const std::string& last = layers[end - 1].name;
    absl::StrAppend(&text,
                    absl::StrFormat("stage %d: %s%s, %s, %d bytes of parameters, %d "
                                    "multiply-adds to train on one example\n",
                                    s + 1, first, end - begins[s] == 1 ? "" : " to " + last,
                                    Counted(end - begins[s], "layer"), bytes, multiply_adds));
  }
  return text;
}

}  // namespace paracord
