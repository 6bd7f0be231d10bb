#include "cli/predict_serve.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/compute_batch.h"
#include "cli/predict_data.h"
#include "cli/prediction_writer.h"
#include "cli/request_rows.h"
#include "cli/user_job.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/program_spec.h"
#include "data/skipping_source.h"
#include "objects/all_files.h"
#include "storage/safetensors.h"

namespace paracord {
namespace {

constexpr char kRequestPath[] = "/(request)";
constexpr char kRowsPath[] = "/(rows of the request)";
constexpr char kReplyPath[] = "/(reply)";
constexpr char kCsvTensor[] = "csv", kIdsTensor[] = "ids";

// The process's files, the tensors of a request's frame, and the outputs of its answer.
class FrameFiles : public AllFiles {
 public:
  std::map<std::string, std::string> held;

  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    const auto found = held.find(path);
    if (found == held.end()) return AllFiles::Open(path);
    return std::make_unique<Reader>(found->second);
  }
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override {
    if (path != kReplyPath) return AllFiles::Create(path);
    held[path].clear();
    return std::make_unique<Writer>(held[path]);
  }

 private:
  class Reader : public ReadFile {
   public:
    explicit Reader(const std::string& bytes) : bytes_(bytes) {}
    uint64_t size() const override { return bytes_.size(); }
    absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
      if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
        return absl::OutOfRangeError("the request is shorter");
      }
      std::memcpy(out.data(), bytes_.data() + offset, out.size());
      return absl::OkStatus();
    }

   private:
    const std::string& bytes_;
  };
  class Writer : public WriteFile {
   public:
    explicit Writer(std::string& bytes) : bytes_(bytes) {}
    absl::Status Append(std::string_view bytes) override {
      bytes_ += bytes;
      return absl::OkStatus();
    }
    absl::Status Sync() override { return absl::OkStatus(); }

   private:
    std::string& bytes_;
  };
};

// A tensor of an answer.
struct Answer {
  std::string name;
  std::string dtype = "F32";
  std::vector<uint64_t> shape;
  std::string bytes;
};
using Answers = std::vector<Answer>;
using Texts = std::map<std::string, std::string>;  // besides the tensors

template <class T>
void AppendBytes(const T* values, size_t count, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

uint64_t EachOf(const Column& column) {
  return std::accumulate(column.shape.begin(), column.shape.end(), uint64_t{1},
                         std::multiplies<>());
}

// Repeats the last example until there are `size` examples.
void FillUp(uint32_t size, Batch& batch) {
  for (Column& column : batch.inputs) {
    const uint64_t each = EachOf(column), last = (batch.examples - 1) * each;
    std::vector<ExactInteger> exact;
    for (const ExactInteger& one : column.exact) {
      if (one.element >= last) exact.push_back(one);
    }
    for (uint32_t i = batch.examples; i < size; ++i) {
      for (uint64_t k = 0; k < each; ++k) {
        if (column.text) column.strings.push_back(column.strings[last + k]);
        if (!column.text) column.values.push_back(column.values[last + k]);
      }
      for (const ExactInteger& one : exact) {
        column.exact.push_back({one.element + (i - batch.examples + 1) * each, one.value});
      }
    }
  }
  batch.examples = size;
}

class Server {
 public:
  Server(const PredictModelFlags& flags, std::ostream& notes) : flags_(flags), notes_(notes) {}

  absl::Status Start(ExitCode& code);
  // The first frame, and the answer to a request.
  std::string Hello();
  std::string Reply(std::string request);

 private:
  absl::StatusOr<Answers> AnswerTo(const SafetensorsFile& request);
  absl::StatusOr<Answers> AnswerToRecords(const SafetensorsFile& request, bool inputs);
  absl::StatusOr<Answers> AnswerToRows(const SafetensorsFile& request);
  absl::Status Add(Batch batch, bool inputs, Answers& answers);
  absl::Status AddInputs(const Batch& batch, Answers& answers);
  absl::Status AddOutputs(Batch batch, Answers& answers);
  absl::StatusOr<std::string> Frame(Answers answers, const Texts& texts);

  const PredictModelFlags flags_;
  std::ostream& notes_;
  FrameFiles files_;
  std::unique_ptr<PredictModel> model_;  // null: there are no values
  Job job_;
  std::optional<RequestRows> rows_;  // nullopt: the job's data are no csv
  InputForms forms_;
  nlohmann::json id_columns_;  // names, patterns and numbers of columns whose decimals are ids
  bool trims_ = false;         // blanks around fields are left out
  std::set<std::string> ids_;  // inputs whose features are all ids
  bool built_ = false;
};

// Returns the inputs all of whose features are ids in a description of csv data.
std::set<std::string> InputsOfIds(const DataSpec& rows) {
  std::set<std::string> ids, others;
  const nlohmann::json features = rows.options.value("features", nlohmann::json());
  for (const nlohmann::json& feature : features.is_array() ? features : nlohmann::json::array()) {
    if (!feature.is_object()) continue;
    (feature.value("kind", "") == "id" ? ids : others).insert(feature.value("input", ""));
  }
  std::erase_if(ids, [&](const std::string& name) { return others.contains(name); });
  return ids;
}

// Returns a list of the columns whose decimal numbers are ids of 64 bits as they are.
nlohmann::json IdColumns(const DataSpec& rows) {
  nlohmann::json columns = nlohmann::json::array();
  const nlohmann::json features = rows.options.value("features", nlohmann::json());
  for (const nlohmann::json& feature : features.is_array() ? features : nlohmann::json{features}) {
    if (!feature.is_object() || feature.value("kind", nlohmann::json()) != "id") continue;
    if (feature.value("hash", nlohmann::json()) == nlohmann::json(true)) continue;
    if (feature.contains("column")) columns.push_back(feature["column"]);
  }
  return columns;
}

absl::Status Server::Start(ExitCode& code) {
  code = ExitCode::kConfiguration;
  if (flags_.dir.empty() && flags_.weights.empty()) {
    ASSIGN_OR_RETURN(job_, ReadUserJob(files_, flags_.job, flags_.set));
  } else {
    ASSIGN_OR_RETURN(model_, PredictModel::Choose(files_, flags_, notes_, code));
    job_ = model_->job();
  }
  ASSIGN_OR_RETURN(forms_, InputForms::Of(job_.model));
  const std::string path = kRowsPath;
  absl::StatusOr<DataSpec> data = PredictData(job_, {&path, 1});
  if (data.ok() && data->format == "csv") {  // other formats have an array for each input
    data->inputs_alone = true;
    data->options.erase(kBadRecordsKey);  // a request has an answer for each of its rows
    ids_ = InputsOfIds(*data);
    trims_ = data->options.value("trim", nlohmann::json()) == nlohmann::json(true);
    rows_ = RequestRows(*std::move(data));
    id_columns_ = IdColumns(rows_->Of(""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Server::Frame(Answers answers, const Texts& texts) {
  std::stable_partition(answers.begin(), answers.end(),
                        [](const Answer& one) { return one.dtype != "U8"; });
  std::vector<TensorInfo> infos;
  for (const Answer& answer : answers) infos.push_back({answer.name, answer.dtype, answer.shape});
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Create(files_, kReplyPath, std::move(infos), texts));
  for (const Answer& answer : answers) RETURN_IF_ERROR(writer->Append(answer.bytes));
  RETURN_IF_ERROR(writer->Finish());
  return std::exchange(files_.held[kReplyPath], "");
}

std::string Server::Hello() {
  const Texts texts = {{"paracord", "predict"},
                       {"batch", absl::StrCat(job_.batch)},
                       {"rows", rows_.has_value() ? "csv" : ""},
                       {"ids", TextOf(id_columns_)},
                       {"trim", trims_ ? "yes" : ""},
                       {"model", model_ == nullptr ? "" : model_->name()}};
  return Frame({}, texts).value_or("");
}

std::string Server::Reply(std::string request) {
  files_.held[kRequestPath] = std::move(request);
  absl::StatusOr<Answers> answers = Answers();
  const auto parsed = SafetensorsFile::Open(files_, kRequestPath);
  answers = parsed.ok() ? AnswerTo(**parsed) : absl::StatusOr<Answers>(parsed.status());
  absl::StatusOr<std::string> frame = std::string();
  if (answers.ok()) frame = Frame(*answers, {});
  const absl::Status failed = answers.ok() ? frame.status() : answers.status();
  files_.held.clear();
  if (failed.ok()) return *std::move(frame);
  return Frame({}, {{"error", std::string(failed.message())}}).value_or("");
}

absl::StatusOr<Answers> Server::AnswerTo(const SafetensorsFile& request) {
  const auto want = request.header().metadata.find("want");
  const std::string what = want == request.header().metadata.end() ? "outputs" : want->second;
  if (what == "rows") return AnswerToRows(request);
  if (what != "inputs" && what != "outputs") {
    return absl::InvalidArgumentError(absl::StrCat("a request wants \"", what, "\""));
  }
  if (what == "outputs" && model_ == nullptr) {
    return absl::InvalidArgumentError("there is no checkpoint, which a prediction needs");
  }
  return AnswerToRecords(request, what == "inputs");
}

absl::StatusOr<Answers> Server::AnswerToRecords(const SafetensorsFile& request, bool inputs) {
  Answers answers;
  const TensorInfo* const csv = request.header().Find(kCsvTensor);
  if (csv == nullptr) {
    ASSIGN_OR_RETURN(Batch batch,
                     ReadBatch(files_, job_.model, kRequestPath, /*inputs_alone=*/true));
    RETURN_IF_ERROR(Add(std::move(batch), inputs, answers));
    return answers;
  }
  if (!rows_.has_value()) {
    return absl::InvalidArgumentError("the job's data are no csv: give arrays by input");
  }
  std::string text(csv->end - csv->begin, '\0');
  RETURN_IF_ERROR(request.ReadBytes(*csv, 0, text));
  const DataSpec& rows = rows_->Of(text);
  files_.held[kRowsPath] = std::move(text);
  ASSIGN_OR_RETURN(const std::unique_ptr<DataSource> source, OpenDataSource(files_, rows));
  for (uint64_t first = 0; first < source->records(); first += job_.batch) {
    std::vector<uint64_t> records(std::min<uint64_t>(job_.batch, source->records() - first));
    std::iota(records.begin(), records.end(), first);
    Batch batch;
    RETURN_IF_ERROR(source->Read(records, batch));
    RETURN_IF_ERROR(Add(std::move(batch), inputs, answers));
  }
  return answers;
}

absl::Status Server::Add(Batch batch, bool inputs, Answers& answers) {
  return inputs ? AddInputs(batch, answers) : AddOutputs(std::move(batch), answers);
}

// Appends to the answer of that name; the first batch creates it.
Answer& TensorOf(const std::string& name, const std::string& dtype,
                 const std::vector<uint64_t>& shape, uint64_t examples, Answers& answers) {
  const auto found = std::ranges::find(answers, name, &Answer::name);
  if (found != answers.end()) {
    found->shape[0] += examples;
    return *found;
  }
  Answer& answer = answers.emplace_back();
  answer.name = name;
  answer.dtype = dtype;
  answer.shape = {examples};
  answer.shape.insert(answer.shape.end(), shape.begin(), shape.end());
  return answer;
}

absl::Status Server::AddInputs(const Batch& batch, Answers& answers) {
  const bool unknown = IsProgram(job_.model) && !IsStableHlo(job_.model);
  for (const Column& column : batch.inputs) {
    const std::string name = absl::StrCat("inputs/", column.name);
    if (column.text) {
      // JSON has strings of any length, and tensors of bytes one for all.
      const uint64_t each = EachOf(column);
      nlohmann::json texts = nlohmann::json::array();
      for (uint64_t i = 0; i < batch.examples; ++i) {
        const auto own = std::span(column.strings).subspan(i * each, each);
        texts.push_back(each == 1 ? nlohmann::json(own[0])
                                  : nlohmann::json(std::vector(own.begin(), own.end())));
      }
      const std::string text = absl::StrCat(TextOf(texts), "\n");
      Answer& answer = TensorOf(name, "U8", {}, text.size(), answers);
      answer.bytes += text;
      continue;
    }
    std::vector<int64_t> whole;
    // For a program of unknown input types, numbers that float32 cannot hold count as whole.
    const bool wants =
        ids_.contains(column.name) ||
        (unknown ? !column.exact.empty() : forms_[column.name] == TensorForm::kWhole);
    const bool is_whole = wants && !WholeNumbers(column, whole).has_value();
    Answer& answer =
        TensorOf(name, is_whole ? "I64" : "F32", column.shape, batch.examples, answers);
    if (is_whole && answer.dtype == "I64") {
      AppendBytes(whole.data(), whole.size(), answer.bytes);
    } else if (answer.dtype == "F32") {
      AppendBytes(column.values.data(), column.values.size(), answer.bytes);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", column.name, "\" has numbers that are not whole"));
    }
  }
  return absl::OkStatus();
}

absl::Status Server::AddOutputs(Batch batch, Answers& answers) {
  const uint32_t examples = batch.examples;
  if (examples > job_.batch) {
    return absl::InvalidArgumentError(absl::StrCat("a request has ", examples,
                                                   " examples, and at most ", job_.batch,
                                                   " are computed together"));
  }
  if (!built_) {
    Batch schema;
    for (const Column& column : batch.inputs) {
      schema.inputs.push_back({column.name, column.shape, {}, column.text});
    }
    RETURN_IF_ERROR(model_->Build(schema));
    built_ = true;
  }
  FillUp(model_->SizeFor(examples), batch);
  ASSIGN_OR_RETURN(const std::vector<Column> outputs, model_->Predict(batch));
  for (const Column& output : outputs) {
    const std::string name = absl::StrCat("output/", PredictionName(output));
    Answer& answer = TensorOf(name, "F32", output.shape, examples, answers);
    AppendBytes(output.values.data(), examples * EachOf(output), answer.bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<Answers> Server::AnswerToRows(const SafetensorsFile& request) {
  const auto& texts = request.header().metadata;
  const auto table = texts.find("table");
  const TensorInfo* const ids = request.header().Find(kIdsTensor);
  if (table == texts.end() || ids == nullptr || ids->dtype != "I64" || model_ == nullptr) {
    return absl::InvalidArgumentError("rows need a checkpoint, a `table` and I64 `ids`");
  }
  std::vector<uint64_t> wanted((ids->end - ids->begin) / sizeof(uint64_t));
  RETURN_IF_ERROR(request.ReadBytes(
      *ids, 0, {reinterpret_cast<char*>(wanted.data()), wanted.size() * sizeof(uint64_t)}));
  ASSIGN_OR_RETURN(const std::vector<float> rows, model_->Rows(table->second, wanted));
  Answers answers(1);
  answers[0].name = "rows";
  answers[0].shape = {wanted.size(), wanted.empty() ? 0 : rows.size() / wanted.size()};
  AppendBytes(rows.data(), rows.size(), answers[0].bytes);
  return answers;
}

bool Send(const std::string& frame, std::ostream& out) {
  const uint64_t size = frame.size();
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out.write(frame.data(), static_cast<std::streamsize>(size));
  return out.flush().good();
}

// Reads a frame of `size` bytes. Memory grows with the bytes that arrive, not with `size`.
std::string ReadFrame(uint64_t size, std::istream& in) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::string frame;
  while (frame.size() < size && in.good()) {
    const size_t before = frame.size();
    frame.resize(before + std::min(kPieceBytes, size - before));
    in.read(frame.data() + before, static_cast<std::streamsize>(frame.size() - before));
    frame.resize(before + static_cast<size_t>(in.gcount()));
  }
  return frame;
}

}  // namespace

absl::Status ServePredictions(const PredictModelFlags& flags, std::istream& in, std::ostream& out,
                              std::ostream& notes, ExitCode& code) {
  Server server(flags, notes);
  RETURN_IF_ERROR(server.Start(code));
  code = ExitCode::kFailed;
  const auto gone = absl::AbortedError("standard output does not take an answer");
  if (!Send(server.Hello(), out)) return gone;
  while (true) {
    uint64_t size = 0;
    in.read(reinterpret_cast<char*>(&size), sizeof size);
    if (in.gcount() == 0) return absl::OkStatus();
    const bool whole = in.gcount() == sizeof size && size <= kFrameBytesMax;
    std::string request = whole ? ReadFrame(size, in) : "";
    if (!whole || request.size() < size) {
      return absl::InvalidArgumentError(absl::StrCat("a request of ", size, " bytes is no frame"));
    }
    if (!Send(server.Reply(std::move(request)), out)) return gone;
  }
}

}  // namespace paracord
