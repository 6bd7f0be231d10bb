// paracord predict: the outputs of a trained model for records without labels, a row each.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "cli/left_out.h"
#include "cli/out_file.h"
#include "cli/predict_data.h"
#include "cli/predict_model.h"
#include "cli/predict_serve.h"
#include "cli/prediction_writer.h"
#include "cli/progress_line.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "config/flags.h"
#include "config/job_settings.h"
#include "data/batch_loader.h"
#include "data/gzip_file.h"

namespace paracord {
namespace {

constexpr size_t kLoaded = 2;  // batches loaded ahead of the computing
constexpr char kRowColumn[] = "row";
constexpr int64_t kProgressMs = 500;

struct PredictFlags {
  PredictModelFlags model;
  std::vector<std::string> data;
  std::string out = "-";
  std::string format;
  std::string columns;
  bool json = false;
  bool serve = false;
};

std::atomic<bool> stop_asked = false;

// While it lives, SIGINT and SIGTERM ask for a stop between two batches.
class StopOnSignal {
 public:
  StopOnSignal() {
    stop_asked = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { stop_asked = true; };
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~StopOnSignal() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_ = {}, terminate_ = {};
};

// The files that predict reads. After a stop is requested every read fails, so that the opening of
// large data ends.
class StoppableFiles : public InputFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, InputFiles::Open(path));
    return std::make_unique<Stoppable>(std::move(file));
  }

 private:
  class Stoppable : public ReadFile {
   public:
    explicit Stoppable(std::unique_ptr<ReadFile> file) : file_(std::move(file)) {}
    uint64_t size() const override { return file_->size(); }
    absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
      if (stop_asked) return absl::CancelledError("stopped");
      return file_->ReadAt(offset, out);
    }
    std::string identity() const override { return file_->identity(); }

   private:
    const std::unique_ptr<ReadFile> file_;
  };
};

// Standard output as a file.
class StreamFile : public WriteFile {
 public:
  explicit StreamFile(std::ostream& out) : out_(out) {}
  absl::Status Append(std::string_view bytes) override {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
    return Written();
  }
  absl::Status Sync() override {
    out_.flush();
    return Written();
  }

 private:
  absl::Status Written() const {
    if (out_.good()) return absl::OkStatus();
    return absl::AbortedError("standard output does not take what is written");
  }

  std::ostream& out_;
};

// Shows how many records are done: on a terminal in a line that is redrawn, for programs as one
// JSON object a line.
class RowProgress {
 public:
  RowProgress(uint64_t records, bool as_json, std::ostream& err)
      : records_(records),
        json_(as_json),
        bar_(!as_json && isatty(STDERR_FILENO) != 0),
        err_(err) {}

  void Show(uint64_t done) {
    const int64_t now_ms = SteadyMs();
    if ((!json_ && !bar_) || now_ms < shown_ms_ + kProgressMs) return;
    shown_ms_ = now_ms;
    const double seconds = static_cast<double>(now_ms - begin_ms_) / 1000;
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    if (json_) {
      err_ << TextOf(nlohmann::json({{"event", "progress"},
                                     {"rows", done},
                                     {"rows_total", records_},
                                     {"rows_per_second", rate}}))
           << "\n";
      return;
    }
    const double share =
        static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(records_, 1));
    const auto marks = static_cast<size_t>(share * 24);
    err_ << absl::StrFormat("\r\x1b[K[%s%s] %3.0f %%  %s rows", std::string(marks, '#'),
                            std::string(24 - marks, '.'), share * 100,
                            Grouped(static_cast<double>(done)));
    if (rate > 0) {
      err_ << "  " << Grouped(rate) << " rows/s  "
           << TimeText(static_cast<double>(records_ - done) / rate) << " left";
    }
    err_ << std::flush;
    line_ = true;
  }
  // Clears the progress line for the text that follows.
  ~RowProgress() {
    if (line_) err_ << "\r\x1b[K" << std::flush;
  }
  RowProgress(const RowProgress&) = delete;
  RowProgress& operator=(const RowProgress&) = delete;

 private:
  const uint64_t records_;
  const bool json_, bar_;
  std::ostream& err_;
  const int64_t begin_ms_ = SteadyMs();
  int64_t shown_ms_ = begin_ms_;
  bool line_ = false;
};

absl::StatusOr<PredictionFormat> FormatOf(const PredictFlags& flags) {
  std::string name = flags.format;
  if (name.empty() && flags.out != "-") {
    for (const char* const known : {"csv", "csv.gz", "jsonl", "npy"}) {
      if (absl::EndsWith(flags.out, absl::StrCat(".", known))) name = known;
    }
    if (name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--out: ", flags.out,
          " ends in none of .csv, .csv.gz, .jsonl and .npy: --format says what to write"));
    }
  }
  if (name.empty() || name == "csv" || name == "csv.gz") return PredictionFormat::kCsv;
  if (name == "jsonl") return PredictionFormat::kJsonl;
  if (name == "npy") return PredictionFormat::kNpy;
  return absl::InvalidArgumentError(
      absl::StrCat("--format: ", name, " is none of csv, csv.gz, jsonl and npy"));
}

class Prediction {
 public:
  Prediction(PredictFlags flags, std::ostream& out, std::ostream& err)
      : flags_(std::move(flags)), out_(out), err_(err) {}

  absl::Status Run();
  ExitCode code() const { return code_; }  // after an error of Run

 private:
  bool streams() const { return flags_.out == "-"; }
  absl::Status CheckOut();
  absl::Status Open();
  // Predicts for all records. `path` is the file to write.
  absl::Status PredictAll(const std::string& path);
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenOut(const std::string& path,
                                                     const std::string& name);
  std::unique_ptr<WriteFile> Compressed(std::unique_ptr<WriteFile> file) const;
  absl::StatusOr<std::vector<std::string>> Copied(uint64_t first, size_t records) const;
  absl::Status Write(const std::string& path, uint64_t first, size_t records,
                     const std::vector<Column>& outputs);
  void CountNotFinite(const std::vector<Column>& outputs, const Batch& examples, size_t records);
  void SayEnd() const;

  PredictFlags flags_;
  std::ostream& out_;
  std::ostream& err_;
  StoppableFiles files_;
  ExitCode code_ = ExitCode::kConfiguration;
  PredictionFormat format_ = PredictionFormat::kCsv;
  std::vector<std::string> columns_;  // requested columns
  std::vector<std::string> fields_;   // present in the source
  std::unique_ptr<PredictModel> model_;
  std::unique_ptr<PredictionWriter> writer_;  // made with the first outputs
  uint64_t nans_ = 0;
  std::string first_nan_;  // the record of the first NaN
  LeftOut left_out_;
};

absl::Status Prediction::CheckOut() {
  if (streams()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOutFile(files_, flags_.out));
  const std::string& dir = flags_.model.dir;
  return dir.empty() ? absl::OkStatus() : CheckNotOfJob("--out", dir, flags_.out);
}

absl::Status Prediction::Open() {
  ASSIGN_OR_RETURN(format_, FormatOf(flags_));
  RETURN_IF_ERROR(CheckOut());
  ASSIGN_OR_RETURN(model_, PredictModel::Choose(files_, flags_.model, err_, code_));
  ASSIGN_OR_RETURN(const DataSpec data, PredictData(model_->job(), flags_.data));
  RETURN_IF_ERROR(model_->Open(data));
  columns_ = absl::StrSplit(flags_.columns, ',', absl::SkipEmpty());
  for (const std::string& name : columns_) {
    if (std::ranges::count(columns_, name) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("--columns: names ", name, " twice"));
    }
    if (name != kRowColumn) fields_.push_back(name);
  }
  const absl::Status known = model_->source().Fields({}, fields_).status();
  if (!known.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--columns: ", std::string(known.message())));
  }
  return CheckOut();
}

absl::StatusOr<std::unique_ptr<WriteFile>> Prediction::OpenOut(const std::string& path,
                                                               const std::string& name) {
  if (streams()) {
    if (!name.empty()) {
      return absl::InvalidArgumentError(
          "--out: the model has several outputs, which are an array each: give a folder");
    }
    return Compressed(std::make_unique<StreamFile>(out_));
  }
  if (!name.empty()) {
    std::string file = name;
    std::ranges::replace(file, '/', '_');
    RETURN_IF_ERROR(files_.MakeDirectories(path));
    return files_.Create(absl::StrCat(path, "/", file, ".npy"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, files_.Create(path));
  return Compressed(std::move(file));
}

std::unique_ptr<WriteFile> Prediction::Compressed(std::unique_ptr<WriteFile> file) const {
  const bool asked = absl::EndsWith(flags_.format.empty() ? flags_.out : flags_.format, ".gz");
  return asked ? std::make_unique<GzipFile>(std::move(file)) : std::move(file);
}

absl::StatusOr<std::vector<std::string>> Prediction::Copied(uint64_t first, size_t records) const {
  if (columns_.empty()) return std::vector<std::string>();
  std::vector<uint64_t> numbers(records);
  for (size_t i = 0; i < records; ++i) numbers[i] = first + i;
  ASSIGN_OR_RETURN(std::vector<std::string> fields,
                   left_out_.Fields(model_->source(), numbers, fields_));
  if (fields_.size() == columns_.size()) return fields;
  std::vector<std::string> copied;
  size_t next = 0;
  for (const uint64_t number : numbers) {
    for (const std::string& name : columns_) {
      copied.push_back(name == kRowColumn ? absl::StrCat(number) : std::move(fields[next++]));
    }
  }
  return copied;
}

void Prediction::CountNotFinite(const std::vector<Column>& outputs, const Batch& examples,
                                size_t records) {
  for (const Column& output : outputs) {
    size_t each = 1;
    for (const uint64_t axis : output.shape) each *= axis;
    for (size_t i = 0; i < records * each; ++i) {
      if (!std::isnan(output.values[i])) continue;
      if (nans_++ == 0) first_nan_ = Where(examples, i / each);
    }
  }
}

absl::Status Prediction::Write(const std::string& path, uint64_t first, size_t records,
                               const std::vector<Column>& outputs) {
  if (writer_ == nullptr) {
    PredictionTable table;
    table.copied = columns_;
    table.records = model_->source().records();
    table.at_once = streams();
    for (const Column& output : outputs) table.outputs.push_back({output.name, output.shape, {}});
    code_ = ExitCode::kConfiguration;
    const auto open = [&](const std::string& name) { return OpenOut(path, name); };
    ASSIGN_OR_RETURN(writer_, MakePredictionWriter(format_, table, open));
  }
  code_ = ExitCode::kFailed;
  ASSIGN_OR_RETURN(const std::vector<std::string> copied, Copied(first, records));
  const absl::Status written = writer_->Add(copied, outputs, records);
  if (!written.ok() && !streams()) code_ = ExitCodeOfWrite(written);
  return written;
}

absl::Status Prediction::PredictAll(const std::string& path) {
  const uint64_t records = model_->source().records();
  const uint64_t batch = model_->batch();
  BatchLoader loader(model_->source(), kLoaded);
  loader.Start([this, records, batch](uint64_t index, std::vector<uint64_t>& to) {
    const uint64_t first = index * batch;
    if (first >= records) return uint64_t{0};
    const auto count = static_cast<uint32_t>(std::min(batch, records - first));
    for (uint64_t i = 0; i < model_->SizeFor(count); ++i) {
      to.push_back(first + std::min<uint64_t>(i, count - 1));  // repeats the last record
    }
    return uint64_t{0};
  });
  RowProgress progress(records, flags_.json, err_);
  for (uint64_t first = 0; first < records;) {
    if (stop_asked) {
      code_ = ExitCode::kDrained;
      return absl::CancelledError(absl::StrCat("stopped after ", first, " of ", records, " rows"));
    }
    code_ = ExitCode::kFailed;
    const absl::StatusOr<const Batch*> loaded = loader.Next();
    if (stop_asked) continue;  // a failed read may be caused by the stop
    ASSIGN_OR_RETURN(const Batch* const examples, loaded);
    if (examples == nullptr) return absl::InternalError("the records end too early");
    ASSIGN_OR_RETURN(std::vector<Column> outputs, model_->Predict(*examples));
    const size_t count = std::min(batch, records - first);
    CountNotFinite(outputs, *examples, std::min<size_t>(count, examples->examples));
    outputs = left_out_.Fill(std::move(outputs), *examples, first, count);
    RETURN_IF_ERROR(Write(path, first, count, outputs));
    first += count;
    progress.Show(first);
  }
  const absl::Status ended = writer_->End();
  if (!ended.ok() && !streams()) code_ = ExitCodeOfWrite(ended);
  return ended;
}

void Prediction::SayEnd() const {
  const uint64_t records = model_->source().records();
  if (flags_.json) {
    err_ << TextOf(nlohmann::json({{"event", "end"},
                                   {"rows", records},
                                   {"nan", nans_},
                                   {"bad_records", left_out_.count()},
                                   {"model", model_->name()},
                                   {"out", flags_.out}}))
         << "\n";
    return;
  }
  if (left_out_.count() > 0) err_ << "paracord predict: " << left_out_.Line() << "\n";
  if (nans_ > 0) {
    err_ << "paracord predict: " << nans_ << " of the numbers are no numbers (NaN), first for "
         << first_nan_ << "\n";
  }
  if (!streams()) {
    out_ << flags_.out << ": " << records << " rows, by " << model_->name() << "\n";
  }
}

absl::Status Prediction::Run() {
  const StopOnSignal signals;
  const absl::Status opened = Open();
  if (stop_asked) {
    code_ = ExitCode::kDrained;
    return absl::CancelledError("stopped before the first row");
  }
  RETURN_IF_ERROR(opened);
  if (streams()) {
    RETURN_IF_ERROR(PredictAll(""));
  } else {
    RETURN_IF_ERROR(ReplaceOutFile(files_, flags_.out, [&](const std::string& temporary) {
      absl::Status status = PredictAll(temporary);
      // The check is repeated, since some inputs are opened only when their record is read.
      if (status.ok()) status = CheckOut();
      return status;
    }));
  }
  SayEnd();
  return absl::OkStatus();
}

std::string WhatIsMissing(const PredictFlags& flags) {
  const PredictModelFlags& model = flags.model;
  if (flags.serve && (!flags.data.empty() || !flags.columns.empty() || flags.out != "-")) {
    return "--serve takes records and gives predictions by standard input and output alone";
  }
  if (flags.serve && model.dir.empty() && model.weights.empty() && !model.job.empty()) return "";
  if (model.dir.empty() == model.weights.empty()) return "needs --dir DIR, or --weights FILE";
  if (!model.weights.empty() && model.job.empty())
    return "--weights needs the JOB that they are of";
  if (!model.weights.empty() && model.step.has_value()) return "--step is a checkpoint's, of --dir";
  return "";
}

// Writes the predictions, and returns the exit code.
int PredictToFile(PredictFlags flags, std::ostream& out, std::ostream& err) {
  Prediction prediction(std::move(flags), out, err);
  const absl::Status status = prediction.Run();
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  // RunProgram says, once for all commands, that standard output takes no more.
  if (!out.good()) return static_cast<int>(prediction.code());
  return Fail("predict", status.message(), prediction.code(), err);
}

}  // namespace

int RunPredict(Args args, std::ostream& out, std::ostream& err) {
  PredictFlags own;
  Flags flags("paracord predict",
              "Writes what a trained model predicts, a row for each record, in their order. The\n"
              "records need no labels. Without JOB the job is the checkpoint's own.");
  flags.String("dir", "DIR", "the job's directory, which holds the checkpoints", &own.model.dir);
  flags.Integer(
      "step", "N",
      "the checkpoint of this step; default: the newest healthy one, or the best with restore_best",
      0, INT64_MAX, &own.model.step);
  flags.String("weights", "FILE",
               "in place of DIR: the variables, as export writes them; needs JOB",
               &own.model.weights);
  flags.Strings("data", "FILE",
                "what to predict for, read as data.predict says, else data.test, else data.train; "
                "INPUT=FILE for arrays by input; may be given again; default: the files of "
                "data.predict, else of data.test",
                &own.data);
  flags.String("out", "FILE",
               "the file to write, replaced as a whole: .csv, .csv.gz, .jsonl or .npy (of several "
               "outputs a folder of them); - is standard output",
               &own.out);
  flags.String("format", "FORMAT", "csv, csv.gz, jsonl or npy, whatever the file's name says",
               &own.format);
  flags.String(
      "columns", "NAME,NAME",
      "columns of the data to copy in front of the predictions; row is the record's number",
      &own.columns);
  flags.Integer("batch", "N", "records that are computed together; default: the job's batch", 1,
                1 << 24, &own.model.batch);
  flags.String("device", "DEVICE", "what to compute on: auto, cpu, cuda:N or pjrt:PATH",
               &own.model.device);
  flags.String("memory-limit", "BYTES", kValuesLimitHelp, &own.model.memory_limit);
  flags.Switch("allow-programs",
               "run the command of a checkpoint's program: code of whoever trained it",
               &own.model.allow_programs);
  flags.Switch("json", "progress and the end as JSON objects on standard error", &own.json);
  flags.Switch(
      "serve",
      "answer requests on standard input (docs/serve.md), as paracord.predictor makes them",
      &own.serve);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &own.model.set);
  flags.OptionalPositional("JOB", "a job file in place of the checkpoint's own", &own.model.job);
  const auto code = flags.ParseOrExit(args, "paracord predict", out, err);
  if (code.has_value()) return *code;
  const std::string missing = WhatIsMissing(own);
  if (!missing.empty()) return Fail("predict", missing, ExitCode::kConfiguration, err);
  if (own.out != "-") own.out = AbsolutePath(own.out);
  for (std::string* path : {&own.model.dir, &own.model.weights, &own.model.job}) {
    if (!path->empty()) *path = AbsolutePath(*path);
  }
  if (own.serve) {
    ExitCode failed = ExitCode::kConfiguration;
    const absl::Status served = ServePredictions(own.model, std::cin, std::cout, err, failed);
    if (served.ok()) return static_cast<int>(ExitCode::kDone);
    return Fail("predict", served.message(), failed, err);
  }
  return PredictToFile(std::move(own), out, err);
}

}  // namespace paracord
