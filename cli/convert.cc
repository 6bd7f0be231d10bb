// paracord convert: a job's data as a TFRecord file of tf.train.Example.
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "cli/commands.h"
#include "cli/out_file.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job.h"
#include "data/example_writer.h"
#include "data/gzip_file.h"

namespace paracord {
namespace {

absl::Status Write(Files& files, const DataSource& source, const std::string& path, bool gzip) {
  std::set<std::string> whole;
  while (true) {
    ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, files.Create(path));
    if (gzip) file = std::make_unique<GzipFile>(std::move(file));
    TfRecordWriter writer(*file);
    ASSIGN_OR_RETURN(const bool written, WriteExamples(source, whole, writer));
    if (written) return file->Sync();
  }
}

absl::Status Convert(const std::string& job_path, const std::string& which,
                     const std::string& out_path, std::ostream& out) {
  InputFiles files;
  ASSIGN_OR_RETURN(const Job job, ReadJobFile(files, AbsolutePath(job_path)));
  if (which != "train" && which != "test") {
    return absl::InvalidArgumentError("--data: must be train or test");
  }
  if (which == "test" && !job.test) {
    return absl::InvalidArgumentError("--data: the job has no test data");
  }
  const std::string path = AbsolutePath(out_path);
  RETURN_IF_ERROR(CheckOutFile(files, path));
  ASSIGN_OR_RETURN(const auto source,
                   OpenDataSource(files, which == "test" ? *job.test : job.train));
  RETURN_IF_ERROR(CheckOutFile(files, path));
  ASSIGN_OR_RETURN(const nlohmann::json spec, ExamplesSpec(source->schema(), path));
  RETURN_IF_ERROR(ReplaceOutFile(files, path, [&](const std::string& temporary) {
    absl::Status status = Write(files, *source, temporary, absl::EndsWith(path, ".gz"));
    // The check is repeated, since some inputs are opened only when their record is read.
    if (status.ok()) status = CheckOutFile(files, path);
    return status;
  }));
  out << path << ": " << source->records() << " examples, to be read with\n"
      << TextOf(spec) << "\n";
  return absl::OkStatus();
}

}  // namespace

int RunConvert(Args args, std::ostream& out, std::ostream& err) {
  std::string job, path, data = "train";
  Flags flags("paracord convert",
              "Writes a job's data, in the order of the records, as a TFRecord file of "
              "tf.train.Example, and says what reads it again.");
  flags.Positional("JOB", "the job file, which says what the data are", &job);
  flags.String("data", "WHICH", "the job's train or test data", &data);
  flags.String("out", "FILE", "the file to write, replaced as a whole; gzip if it ends in .gz",
               &path);
  const auto code = flags.ParseOrExit(args, "paracord convert", out, err);
  if (code.has_value()) return *code;
  if (path.empty()) return Fail("convert", "needs --out FILE", ExitCode::kConfiguration, err);
  const absl::Status status = Convert(job, data, path, out);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  return Fail("convert", status.message(), ExitCodeOfWrite(status), err);
}

}  // namespace paracord
