// paracord convert: a job's data as a TFRecord file of tf.train.Example.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "cli/commands.h"
#include "cli/keras_file.h"
#include "cli/out_file.h"
#include "cli/user_job.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_file.h"
#include "config/json_fields.h"
#include "config/limits.h"
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
  ASSIGN_OR_RETURN(const Job job, ReadUserJob(files, AbsolutePath(job_path)));
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

// Writes the model of a Keras file as JSON, and its weights as safetensors if `weights_path` is not
// empty.
absl::Status ConvertModel(const std::string& model_path, const std::string& out_path,
                          const std::string& weights_path, std::ostream& out) {
  InputFiles files;
  const std::string from = AbsolutePath(model_path), to = AbsolutePath(out_path);
  // A child process reads the file, so it is opened here, too: outputs must not replace it.
  RETURN_IF_ERROR(files.Open(from).status());
  ASSIGN_OR_RETURN(const std::string text, KerasModelText(files, from));
  const auto write = [&](const std::string& path, const std::string& bytes) {
    return ReplaceOutFile(files, path, [&](const std::string& temporary) -> absl::Status {
      ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, files.Create(temporary));
      RETURN_IF_ERROR(file->Append(bytes));
      return file->Sync();
    });
  };
  std::string weights;
  if (!weights_path.empty()) {
    Job job;
    ASSIGN_OR_RETURN(job.model, ParseJson(text, kJobBytesMax, kJobDepthMax));
    const absl::StatusOr<std::vector<VariableSpec>> variables = VariablesOfModel(job);
    if (!variables.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          from, ": its weights cannot be named: ", std::string(variables.status().message())));
    }
    ASSIGN_OR_RETURN(weights, KerasWeights(files, from, *variables, /*partial=*/false));
    RETURN_IF_ERROR(CheckOutFile(files, AbsolutePath(weights_path)));
  }
  RETURN_IF_ERROR(CheckOutFile(files, to));
  RETURN_IF_ERROR(write(to, text + "\n"));
  out << to << ": the model, for the job's key model\n";
  if (weights_path.empty()) return absl::OkStatus();
  const std::string weights_to = AbsolutePath(weights_path);
  RETURN_IF_ERROR(write(weights_to, weights));
  out << weights_to << ": the weights, for its key initial_weights (the state of an optimizer is "
      << "not taken)\n";
  return absl::OkStatus();
}

}  // namespace

int RunConvert(Args args, std::ostream& out, std::ostream& err) {
  std::string job, path, weights, data = "train";
  Flags flags("paracord convert",
              "Writes a job's data, in the order of the records, as a TFRecord file of "
              "tf.train.Example, and says what reads it again. Of a model that Keras saved "
              "(.keras or .h5) it writes the JSON.");
  flags.Positional("JOB", "the job file, which says what the data are; or a model.keras", &job);
  flags.String("data", "WHICH", "the job's train or test data", &data);
  flags.String("out", "FILE", "the file to write, replaced as a whole; gzip if it ends in .gz",
               &path);
  flags.String("weights", "FILE", "of a model.keras: write its weights there, as safetensors",
               &weights);
  const auto code = flags.ParseOrExit(args, "paracord convert", out, err);
  if (code.has_value()) return *code;
  if (path.empty()) return Fail("convert", "needs --out FILE", ExitCode::kConfiguration, err);
  const bool model = IsKerasFileName(job);
  if (!model && !weights.empty()) {
    return Fail("convert", "--weights is for a model.keras", ExitCode::kConfiguration, err);
  }
  const absl::Status status =
      model ? ConvertModel(job, path, weights, out) : Convert(job, data, path, out);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  return Fail("convert", status.message(), ExitCodeOfWrite(status), err);
}

}  // namespace paracord
