#include "cli/data_look.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "config/job_data.h"
#include "config/json_fields.h"
#include "config/program_spec.h"
#include "data/file_glob.h"
#include "keras/build.h"
#include "program/workload.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

constexpr uint64_t kWholeBytesMax = uint64_t{256} << 20;
constexpr uint64_t kFirstRecords = 1000;

// Whether the file begins like gzip or, in a TFRecord, like zlib.
bool LooksPacked(const ReadFile& file, bool zlib) {
  char begin[2] = {};
  if (file.size() < 2 || !file.ReadAt(0, begin).ok()) return false;
  return (begin[0] == '\x1f' && begin[1] == '\x8b') || (zlib && begin[0] == 'x');
}

// Adds each line of an error of the source `key`. Errors of storage may pass, and are left out.
bool Note(const std::string& key, const absl::Status& status, Problems& problems) {
  if (!absl::IsInvalidArgument(status)) return status.ok();
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    problems.Add(key, std::string(line));
  }
  return false;
}

// Returns `spec` for a process that reads only the first records; nullopt if finding them would
// read more than kWholeBytesMax, or needs an object store.
std::optional<DataSpec> OfFirstRecords(Files& files, DataSpec spec) {
  const bool tfrecord = spec.format == "tfrecord";
  uint64_t bytes = 0;
  bool packed = false;
  for (const SourcePath& source : PathsOf(spec)) {
    if (!SchemeOf(source.path).empty()) return std::nullopt;
    if (source.key == "folder") continue;  // only the first images are opened
    if (source.key.ends_with(".folder")) return std::nullopt;
    const auto paths = ExpandGlob(files, source.path);
    if (!paths.ok()) return std::nullopt;
    for (const std::string& path : *paths) {
      const auto file = files.Open(path);
      if (!file.ok()) return std::nullopt;
      bytes += (*file)->size();
      packed = packed || LooksPacked(**file, tfrecord);
    }
  }
  spec.held_bytes_max = spec.unpacked_bytes_max = kWholeBytesMax;
  if (spec.format == "images") spec.walked_max = kFirstRecords;
  if (bytes <= kWholeBytesMax) return spec;
  if ((spec.format != "csv" && !tfrecord) || packed) return std::nullopt;
  spec.walked_max = kFirstRecords;
  spec.options.erase("part");  // a part is a share of all records, which are not counted here
  return spec;
}

// Adds a line about a value for which a batch of the source `key` will fail.
void NoteDoubt(const std::string& key, const absl::Status& status,
               std::vector<std::string>& doubts) {
  if (!absl::IsInvalidArgument(status)) return;
  doubts.push_back(absl::StrCat(key, ": ", std::string(status.message()),
                                ": its batch will fail, and \"failures\" says what then"));
}

// Opens a source. Returns null if the source has a problem, which is noted, or is not read here.
std::unique_ptr<DataSource> OpenFirst(Files& files, const std::string& key, const DataSpec& spec,
                                      Problems& problems, std::vector<std::string>& doubts) {
  const std::optional<DataSpec> bounded = OfFirstRecords(files, spec);
  if (!bounded.has_value()) return nullptr;
  auto source = OpenDataSource(files, *bounded);
  if (!Note(key, source.status(), problems)) return nullptr;
  const auto read = ReadFirstRecords(**source, [](const Batch&) { return absl::OkStatus(); });
  if (!Note(key, read, problems)) return nullptr;
  NoteDoubt(key, CheckFirstValues(**source), doubts);
  return *std::move(source);
}

// Adds the problems that the job's model finds in the data; `test` may be null.
void LookWithModel(const Job& job, const DataSource& train, const DataSource* test,
                   Problems& problems, std::vector<std::string>& doubts) {
  Job small = job;
  small.batch = job.accumulate;  // since nothing is computed, slices of one example are enough
  const auto program = BuildKerasProgram(small, train.schema(), MakeCpuOps(/*threads=*/1));
  if (!Note("", program.status(), problems)) return;
  LookupCounts counts;
  NoteDoubt("data.train", LookAtFirst(train, **program, counts), doubts);
  if (test != nullptr) NoteDoubt("data.test", LookAtFirst(*test, **program, counts), doubts);
}

}  // namespace

absl::Status LookAtFirst(const DataSource& source, GradientProgram& program, LookupCounts& counts) {
  absl::Status refused;
  const auto look = [&](const Batch& batch) { return refused = program.LookAt(batch, counts); };
  ReadFirstRecords(source, look).IgnoreError();
  return refused;
}

absl::Status CheckFirstRecords(Files& files, const Job& job, std::vector<std::string>& doubts) {
  Problems problems;
  const auto train = OpenFirst(files, "data.train", job.train, problems, doubts);
  auto test =
      job.test.has_value() ? OpenFirst(files, "data.test", *job.test, problems, doubts) : nullptr;
  if (train != nullptr && test != nullptr &&
      !Note("", CheckSameColumns(train->schema(), test->schema()), problems)) {
    test = nullptr;
  }
  if (train != nullptr && !IsProgram(job.model)) {
    LookWithModel(job, *train, test.get(), problems, doubts);
  }
  return problems.ToStatus();
}

}  // namespace paracord
