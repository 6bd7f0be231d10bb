#include "worker/data/data_source.h"

#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/data/array_source.h"
#include "worker/data/csv_source.h"
#include "worker/data/image_source.h"
#include "worker/data/text_source.h"
#include "worker/data/tf_record.h"
#include "worker/unknown_name.h"

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

}  // namespace

std::string Where(const Batch& batch, size_t example) {
  return batch.source != nullptr && example < batch.records.size()
             ? batch.source->Where(batch.records[example])
             : absl::StrCat("example ", example, " of the batch");
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(Files& files, const DataSpec& spec) {
  std::vector<std::string_view> known;
  for (const Format& format : kFormats) {
    if (format.name == spec.format) return format.open(files, spec);
    known.push_back(format.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data format \"", spec.format, "\"", NotSupported(spec.format, known)));
}

}  // namespace paracord
