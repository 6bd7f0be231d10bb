#include "data/data_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/unknown_name.h"
#include "data/array_source.h"
#include "data/csv_source.h"
#include "data/image_source.h"
#include "data/inputs_source.h"
#include "data/mix_source.h"
#include "data/part_source.h"
#include "data/skipping_source.h"
#include "data/text_source.h"
#include "data/tf_record.h"
#include "data/transform.h"

namespace paracord {
namespace {

struct Format {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<DataSource>> (*open)(Files&, const DataSpec&);
};

constexpr std::array<Format, 7> kFormats{{{"csv", OpenCsv},
                                          {"idx", OpenIdx},
                                          {"images", OpenImages},
                                          {"npy", OpenNpy},
                                          {"npz", OpenNpz},
                                          {"text", OpenText},
                                          {"tfrecord", OpenTfRecord}}};

constexpr size_t kMixMax = 64;

using Opened = absl::StatusOr<std::unique_ptr<DataSource>>;

Opened OpenFormat(Files& files, const DataSpec& spec) {
  std::vector<std::string_view> known;
  for (const Format& format : kFormats) {
    if (format.name == spec.format) return format.open(files, spec);
    known.push_back(format.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data format \"", spec.format, "\"", NotSupported(spec.format, known)));
}

// Opens a source, without skipping bad records.
Opened OpenWhole(Files& files, const DataSpec& spec);

// Opens every source of a mix, to report the problems of all together.
Opened OpenMix(Files& files, const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (mix)", problems);
  const nlohmann::json* entries = fields.FindValue("mix");
  const nlohmann::json* const skips = fields.FindValue(kBadRecordsKey);
  std::vector<WeightedSource> sources;
  if (entries == nullptr || !entries->is_array() || entries->empty() || entries->size() > kMixMax) {
    fields.Problem("mix", absl::StrCat("must be a list of 1 to ", kMixMax, " sources"));
    entries = nullptr;
  }
  for (size_t i = 0; entries != nullptr && i < entries->size(); ++i) {
    const std::string path = absl::StrCat("mix[", i, "]");
    DataSpec each = spec;  // with the limits of the process, and without labels if it needs none
    each.format = (*entries)[i].value("format", "");
    each.options = (*entries)[i];
    if (each.options.contains(kBadRecordsKey)) {
      problems.Add(absl::StrCat(path, ".", kBadRecordsKey), "belongs to the whole mix");
    } else if (skips != nullptr) {
      each.options[kBadRecordsKey] = *skips;
    }
    Problems own;
    JsonFields own_fields(each.options, path, own);
    WeightedSource source;
    own_fields.Number("weight", 1e-9, 1e9, source.weight);
    each.options.erase("format");
    each.options.erase("weight");
    Opened opened = OpenWhole(files, each);
    for (const std::string& line : own.lines()) problems.Add("", line);
    if (!opened.ok()) problems.Add(path, std::string(opened.status().message()));
    if (opened.ok()) source.source = *std::move(opened);
    sources.push_back(std::move(source));
  }
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  return MakeMix(std::move(sources));
}

Opened OpenWhole(Files& files, const DataSpec& spec) {
  // `part` and `transform` work for any format, and are taken out of the format's options.
  DataSpec inner = spec;
  Problems problems;
  std::optional<PartSpec> part;
  std::vector<TransformStep> steps;
  if (const auto at = spec.options.find("part"); at != spec.options.end()) {
    part = ReadPartSpec(*at, "part", problems);
    inner.options.erase("part");
  }
  if (const auto at = spec.options.find("transform"); at != spec.options.end()) {
    steps = ReadTransform(*at, "transform", problems);
    inner.options.erase("transform");
  }
  Opened opened = spec.format == "mix" ? OpenMix(files, inner) : OpenFormat(files, inner);
  if (!problems.empty()) {
    if (!opened.ok()) problems.Add("", std::string(opened.status().message()));
    return problems.ToStatus();
  }
  RETURN_IF_ERROR(opened.status());
  std::unique_ptr<DataSource> source = *std::move(opened);
  if (part.has_value()) {
    ASSIGN_OR_RETURN(source, MakePart(std::move(source), *part));
  }
  if (!steps.empty()) {
    ASSIGN_OR_RETURN(source, MakeTransformed(std::move(source), std::move(steps)));
  }
  if (spec.inputs_alone) source = InputsOf(std::move(source));
  return source;
}

}  // namespace

std::string Where(const Batch& batch, size_t example) {
  return batch.source != nullptr && example < batch.records.size()
             ? batch.source->Where(batch.records[example])
             : absl::StrCat("example ", example, " of the batch");
}

std::optional<size_t> WholeNumbers(const Column& column, std::vector<int64_t>& out) {
  const std::vector<float>& values = column.values;
  out.resize(values.size());
  auto exact = column.exact.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    if (exact != column.exact.end() && exact->element == i) {
      out[i] = (exact++)->value;
    } else if (std::abs(values[i]) < static_cast<float>(kExactBelow)) {
      out[i] = static_cast<int64_t>(values[i]);
    } else {
      return i;
    }
  }
  return std::nullopt;
}

const ExactInteger* FirstBeyondInt64(const Column& column) {
  const auto found = std::ranges::find_if(column.exact, [&](const ExactInteger& each) {
    return each.value < 0 && column.values[each.element] > 0;
  });
  return found == column.exact.end() ? nullptr : &*found;
}

std::string DigitsOf(const Column& column, size_t element, int64_t whole) {
  const bool beyond = whole < 0 && column.values[element] > 0;
  return beyond ? absl::StrCat(static_cast<uint64_t>(whole)) : absl::StrCat(whole);
}

std::string WhyNoId(float value) {
  constexpr float k64Bits = 18446744073709551616.0f;
  return absl::StrCat("id ", value,
                      std::abs(value) >= k64Bits
                          ? " is beyond the 64 bits of an id"
                          : " is no whole number that float32 tells from others; give it as an "
                            "integer");
}

std::string FirstNotFinite(const Batch& batch) {
  for (const auto& [what, columns] :
       {std::pair("input", &batch.inputs), std::pair("target", &batch.targets),
        std::pair("weight", &batch.weights)}) {
    for (const Column& column : *columns) {
      if (AllFinite(column.values)) continue;
      const auto bad = std::find_if(column.values.begin(), column.values.end(),
                                    [](float value) { return !std::isfinite(value); });
      const size_t each = column.values.size() / batch.examples;
      const auto example = static_cast<size_t>(bad - column.values.begin()) / each;
      return absl::StrCat(Where(batch, example), ": ", what,
                          column.name.empty() ? "" : " \"" + column.name + "\"", " is ", *bad);
    }
  }
  return "";
}

absl::StatusOr<std::vector<std::string>> DataSource::Fields(
    std::span<const uint64_t> /*records*/, std::span<const std::string> names) const {
  if (names.empty()) return std::vector<std::string>();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", names[0], "\": only csv, tfrecord and images have columns that can be copied"));
}

size_t CheckedAtOnce(const Batch& schema) {
  constexpr double kRecordsAtOnce = 16, kFloatsAtOnce = 1 << 20;
  double floats = 1;
  for (const auto* columns : {&schema.inputs, &schema.targets, &schema.weights}) {
    for (const Column& column : *columns) {
      double size = 1;
      for (const uint64_t dim : column.shape) size *= static_cast<double>(dim);
      floats += size;
    }
  }
  return static_cast<size_t>(std::clamp(kFloatsAtOnce / floats, 1.0, kRecordsAtOnce));
}

absl::Status ReadFirstRecords(const DataSource& source,
                              const std::function<absl::Status(const Batch&)>& look) {
  constexpr uint64_t kRecordsLooked = 1000, kFloatsLooked = uint64_t{16} << 20;
  const size_t at_once = CheckedAtOnce(source.schema());
  Batch batch;
  uint64_t floats = 0;
  for (uint64_t record = 0; record < std::min(source.records(), kRecordsLooked);) {
    std::vector<uint64_t> some;
    while (some.size() < at_once && record < source.records()) some.push_back(record++);
    RETURN_IF_ERROR(source.Read(some, batch));
    RETURN_IF_ERROR(look(batch));
    for (const Column& column : batch.inputs) floats += column.values.size();
    if (floats > kFloatsLooked) break;
  }
  return absl::OkStatus();
}

absl::Status CheckFirstValues(const DataSource& source) {
  return ReadFirstRecords(source, [](const Batch& batch) {
    const std::string bad = FirstNotFinite(batch);
    return bad.empty() ? absl::OkStatus() : absl::InvalidArgumentError(bad);
  });
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(Files& files, const DataSpec& spec) {
  Problems problems;
  const uint64_t skip = BadRecordsSkipped(spec.options, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  ASSIGN_OR_RETURN(std::unique_ptr<DataSource> source, OpenWhole(files, spec));
  return skip > 0 ? MakeSkipping(std::move(source), skip) : std::move(source);
}

}  // namespace paracord
