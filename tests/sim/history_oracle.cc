#include "sim/history_oracle.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

using nlohmann::json;

uint64_t ExamplesAt(const DataPlan& plan, uint64_t place) {
  const BatchId batch = BatchAt(plan, 0, place);
  return BatchExamples(plan, batch.split(), batch.batch());
}

// Checks the sum of the losses of an epoch in which every batch was reported.
std::string CheckLosses(const json& entry, const DataPlan& plan,
                        const std::set<uint64_t>& failing) {
  const uint64_t batches = BatchesPerEpoch(plan);
  const uint64_t rejected = entry.at("rejected");
  const double examples = entry.at("examples");
  if (entry.at("batches") == 0) return "";
  double left = std::round(entry.at("train").at("loss").get<double>() * examples);
  uint64_t missing = 0;
  double counted = 0;
  for (uint64_t place = 0; place < batches; ++place) {
    const double digit = std::fmod(left, 4);
    left = (left - digit) / 4;
    if (digit > 1) return absl::StrCat("batch ", place, " counts ", digit, " times");
    if (digit == 1) counted += static_cast<double>(ExamplesAt(plan, place));
    // A batch is also rejected if too many workers die while they compute it.
    if (digit == 0) ++missing;
    if (digit == 1 && failing.contains(place)) {
      return absl::StrCat("batch ", place, " counts, and nobody can compute it");
    }
  }
  if (left != 0) return absl::StrCat("there are losses of more than ", batches, " batches");
  // A batch that was reported may be rejected later, when its update was lost with a ps. Its report
  // still counts, and the history says so.
  if (missing + entry.value("rejected_told", uint64_t{0}) != rejected) {
    return absl::StrCat(missing, " batches do not count");
  }
  if (counted != examples) return absl::StrCat("batches that count have ", counted, " examples");
  return "";
}

}  // namespace

std::string CheckHistory(const json& summary, const DataPlan& plan, uint64_t epochs,
                         const std::set<uint64_t>& failing, bool all_told) {
  if (!summary.contains("history")) return "there is no history";
  const bool whole = summary.at("recoveries").at("coordinator") == 0;
  const json& history = summary.at("history");
  uint64_t before = 0;
  for (const json& entry : history) {
    const auto wrong = [&](const std::string& what) {
      return absl::StrCat("the history is wrong, ", what, ": ", entry.dump());
    };
    const uint64_t epoch = entry.at("epoch"), batches = entry.at("batches");
    if (epoch <= before || epoch > epochs) return wrong("epochs do not ascend");
    if (whole && epoch != before + 1) return wrong("an epoch is missing");
    before = epoch;
    if (batches + entry.at("rejected").get<uint64_t>() != BatchesPerEpoch(plan)) {
      return wrong("the epoch has other batches");
    }
    const uint64_t untold = entry.value("untold", uint64_t{0});
    if (untold > batches) return wrong("more are untold than there are");
    if (untold > 0 && all_told) return wrong("somebody did not tell");
    if (untold > 0) continue;
    if (std::string losses = CheckLosses(entry, plan, failing); !losses.empty()) {
      return wrong(losses);
    }
  }
  return whole && before != epochs ? absl::StrCat("the history ends with epoch ", before) : "";
}

}  // namespace paracord
