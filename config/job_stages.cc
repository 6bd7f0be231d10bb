#include "config/job_stages.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "config/program_spec.h"

namespace paracord {
namespace {

using nlohmann::json;

void ReadLayersOfStages(JsonFields& fields, const json& names, StagesSpec& stages) {
  if (names.empty() || names.size() >= kStagesMax) {
    return fields.Problem(
        "stages", absl::StrCat("must name 1 to ", kStagesMax - 1, " layers, names ", names.size()));
  }
  std::vector<std::string> begins;
  for (const json& name : names) {
    if (!name.is_string()) {
      return fields.Problem("stages",
                            absl::StrCat("must have names of layers, has ", JsonExcerpt(name)));
    }
    begins.push_back(name.get<std::string>());
    if (std::ranges::count(begins, begins.back()) > 1) {
      return fields.Problem("stages", absl::StrCat("names ", JsonExcerpt(name), " twice"));
    }
  }
  stages.count = static_cast<uint32_t>(begins.size()) + 1;
  stages.begins = std::move(begins);
}

// Reports the job's keys that conflict with a model cut into stages.
void ReportMisfitsOfStages(JsonFields& fields, const Job& job) {
  if (IsProgram(job.model)) {
    return fields.Problem("stages",
                          "cuts a model of Keras layers, and the job's `model` is a program: leave "
                          "stages out");
  }
  if (job.accumulate == 1) {
    fields.Problem("stages",
                   "computes the slices of a batch side by side, and with `accumulate` 1 a batch "
                   "has one: give accumulate 8, say, or leave stages out");
  }
  const GuaranteesSpec& guarantees = job.guarantees;
  if (guarantees.strategy == "mirrored" || guarantees.strategy == "central_storage") {
    fields.Problem("stages",
                   absl::StrCat("has all devices of a worker compute one batch, and with "
                                "`strategy` \"",
                                guarantees.strategy,
                                "\" each computes one of its own: leave one of the two out"));
  }
  if (guarantees.cross_device_ops != CrossDeviceOps::kAuto) {
    fields.Problem("stages",
                   "has all devices of a worker compute one batch, and `cross_device_ops` says how "
                   "they add up several: leave one of the two out");
  }
}

}  // namespace

void ReadStages(JsonFields& fields, Job& job) {
  const json* const value = fields.FindValue("stages");
  if (value == nullptr) return;
  StagesSpec stages;
  if (value->is_array()) {
    ReadLayersOfStages(fields, *value, stages);
  } else if (value->is_number_integer() && *value >= 2 && *value <= kStagesMax) {
    stages.count = value->get<uint32_t>();
  } else {
    fields.Problem("stages", absl::StrCat("must be a number from 2 to ", kStagesMax,
                                          " or a list of layers, is ", JsonExcerpt(*value)));
  }
  if (stages.count > 1) ReportMisfitsOfStages(fields, job);
  job.guarantees.stages = std::move(stages);
}

void StagesToJson(const StagesSpec& stages, json& job) {
  if (!stages.begins.empty()) {
    job["stages"] = stages.begins;
  } else if (stages.count > 1) {
    job["stages"] = stages.count;
  }
}

}  // namespace paracord
