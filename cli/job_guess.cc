#include "cli/job_guess.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/csv_look.h"
#include "cli/file_roles.h"
#include "cli/input_look.h"
#include "cli/label_guess.h"
#include "cli/left_columns.h"
#include "common/file_kind.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/named_spec.h"
#include "data/csv_columns.h"
#include "data/data_source.h"
#include "keras/json.h"

namespace paracord {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// How a job trains: small data, of which 256 examples are a large part, need smaller batches and
// more epochs until a model has learned something.
constexpr uint64_t kSmallBytes = 1 << 20;
constexpr int kBatch = 256, kBatchOfSmall = 32;
constexpr int kEpochs = 3, kEpochsOfSmall = 20;

// Whether a column has values other than numbers and lists of whole numbers.
bool HasWords(const ColumnLook& column) {
  return column.values > 0 && !column.is_number() && !(column.list && column.list_whole);
}

class Guesser {
 public:
  Guesser(Files& files, const GuessOf& of) : files_(files), of_(of) {}

  absl::StatusOr<GuessedJob> Guess() {
    ASSIGN_OR_RETURN(model_, ReadKerasModel(of_.model));
    compiled_ = ReadCompileConfig(of_.model, ignored_);
    for (const std::string& path : of_.data) {
      (IsTestFile(path) && of_.data.size() > 1 ? test_ : train_).push_back(path);
    }
    if (train_.empty()) std::swap(train_, test_);
    ordered_json data;
    inputs_ = LookAtInputs(model_);
    if (train_[0].ends_with(".npy")) {
      ASSIGN_OR_RETURN(data, Arrays());
    } else {
      ASSIGN_OR_RETURN(data, Columns());
    }
    GuessedJob guessed;
    guessed.job["data"] = std::move(data);
    if (!growing_.empty()) {
      for (const std::string& layer : growing_) {
        guessed.job["tables"][layer] = {{"kind", "growing"}, {"update", "lazy"}};
      }
    }
    guessed.job["batch"] = small_ ? kBatchOfSmall : kBatch;
    guessed.job["epochs"] = small_ ? kEpochsOfSmall : kEpochs;
    Say(absl::StrCat("batches of ", small_ ? kBatchOfSmall : kBatch, " and ",
                     small_ ? kEpochsOfSmall : kEpochs, " epochs",
                     small_ ? ", because the data are small" : ""));
    Learning(guessed.job);
    guessed.guesses = std::move(guesses_);
    return guessed;
  }

 private:
  void Say(const std::string& line) { guesses_.push_back(line); }

  uint64_t BytesOfTraining() {
    uint64_t bytes = 0;
    for (const std::string& path : train_) {
      const auto file = files_.Open(path);
      if (file.ok()) bytes += (*file)->size();
    }
    return bytes;
  }

  // Features and labels: in turn for a model of one input, else by the names of the files.
  absl::StatusOr<ordered_json> Arrays() {
    std::vector<std::string> rest = train_;
    rest.insert(rest.end(), test_.begin(), test_.end());
    const bool pairs = rest.size() == 2 || (rest.size() == 4 && test_.size() != 1);
    if (model_.outputs.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("of .npy files init takes the labels of one output, and the model has ",
                       model_.outputs.size(), ": write \"labels\" by hand, {OUTPUT: FILE, ...}"));
    }
    ordered_json data;
    if (inputs_.size() == 1 && pairs) {
      data["train"] = {{"format", "npy"}, {"features", rest[0]}, {"labels", rest[1]}};
      Say(absl::StrCat("features: ", rest[0], "; labels: ", rest[1]));
      if (rest.size() == 4) {
        data["test"] = {{"features", rest[2]}, {"labels", rest[3]}};
        Say(absl::StrCat("test features: ", rest[2], "; test labels: ", rest[3]));
      }
    } else {
      data["train"]["format"] = "npy";
      RETURN_IF_ERROR(TakeArrays(train_, "", data["train"]));
      if (!test_.empty()) RETURN_IF_ERROR(TakeArrays(test_, "test ", data["test"]));
    }
    if (!data.contains("test")) HoldBack(data);
    RETURN_IF_ERROR(LookAtArrays(data["train"]["features"]));
    return data;
  }

  // Gives each input the file of its name; the one remaining file has the labels.
  absl::Status TakeArrays(const std::vector<std::string>& paths, const char* of,
                          ordered_json& source) {
    std::vector<std::string> left = paths;
    ordered_json features;
    std::vector<std::string> lacking;
    for (const InputLook& input : inputs_) {
      const auto own = std::ranges::find(left, input.name, NameOfArray);
      if (own == left.end()) {
        lacking.push_back(input.name);
        continue;
      }
      features[input.name] = *own;
      left.erase(own);
    }
    if (of_.label.has_value()) {
      std::erase_if(left, [&](const auto& path) { return NameOfArray(path) != *of_.label; });
    }
    if (!lacking.empty() || left.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "of .npy files init takes features and labels in this order, or files that are named "
          "like the model's inputs (",
          absl::StrJoin(inputs_, ", ",
                        [](std::string* out, const InputLook& input) {
                          absl::StrAppend(out, input.name, ".npy");
                        }),
          ") and one of labels; ",
          lacking.empty() ? absl::StrCat(left.size(), " are left for the labels")
                          : absl::StrCat("none is named like ", absl::StrJoin(lacking, ", ")),
          "; docs/data-formats.md has what a job says of others"));
    }
    source["features"] = std::move(features);
    source["labels"] = left[0];
    Say(absl::StrCat(of, "labels: ", left[0], "; the other files by the names of the inputs"));
    return absl::OkStatus();
  }

  // Lets tables grow for large ids, and refuses words where the model takes numbers.
  absl::Status LookAtArrays(const ordered_json& features) {
    DataSpec spec;
    spec.format = "npy";
    spec.options["features"] = json::parse(features.dump());
    spec.inputs_alone = true;
    ASSIGN_OR_RETURN(const std::unique_ptr<DataSource> source, OpenDataSource(files_, spec));
    return ReadFirstRecords(*source, [&](const Batch& batch) -> absl::Status {
      for (const Column& column : batch.inputs) {
        const bool only = column.name.empty();
        const auto named = std::ranges::find(inputs_, column.name, &InputLook::name);
        RETURN_IF_ERROR(LookAtArray(batch, column, only ? inputs_[0] : *named));
      }
      return absl::OkStatus();
    });
  }

  absl::Status LookAtArray(const Batch& batch, const Column& column, const InputLook& input) {
    const auto word = std::ranges::find_if(column.strings, IsCsvWord);
    if (word != column.strings.end() && input.dtype != "string") {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(batch, 0), ": has words (\"", *word, "\"), and input ", input.name,
                       " takes numbers: write the arrays as columns of a CSV, where init makes ids "
                       "of words"));
    }
    const bool outside = std::ranges::any_of(column.values, [&](float value) {
      return value < 0 || value >= input.rows.value_or(INFINITY);
    });
    if (outside) Grow(input, input.name, "ids outside of");
    return absl::OkStatus();
  }

  // Leaves a tenth of the records to tests.
  void HoldBack(ordered_json& data) {
    const auto part = [](double from, double to) {
      return ordered_json{{"from", from}, {"to", to}, {"seed", 1}};
    };
    data["train"]["part"] = part(0, 0.9);
    data["test"]["part"] = part(0.9, 1);
    Say("test: a tenth of the records, drawn by the seed of `part`");
  }

  absl::StatusOr<ordered_json> Columns() {
    ASSIGN_OR_RETURN(look_, LookAtCsv(files_, train_[0]));
    small_ = BytesOfTraining() < kSmallBytes;
    ASSIGN_OR_RETURN(GuessedLabels labels,
                     GuessLabels({look_, model_, compiled_, of_.label, train_[0]}));
    for (const std::string& guess : labels.guesses) Say(guess);
    ordered_json train;
    train["format"] = "csv";
    train["files"] = train_;
    if (look_.delimiter != ",") {
      train["delimiter"] = look_.delimiter;
      Say(absl::StrCat("delimiter: ", look_.delimiter == "\t" ? "a tab" : look_.delimiter));
    }
    taken_ = labels.columns;
    ordered_json features = ordered_json::array();
    RETURN_IF_ERROR(TakeColumns(features));
    std::set<std::string> missing;
    for (const size_t column : taken_) {
      missing.insert(look_.columns[column].missing.begin(), look_.columns[column].missing.end());
    }
    if (!missing.empty()) {
      train["missing"] = missing;
      Say(absl::StrCat("missing: ", absl::StrJoin(missing, ", "), " and empty fields"));
    }
    train["features"] = std::move(features);
    train["label"] = std::move(labels.spec);
    SayWhatIsLeft();
    ordered_json data;
    data["train"] = std::move(train);
    if (test_.empty()) {
      HoldBack(data);
    } else {
      data["test"]["files"] = test_;
      Say(absl::StrCat("test: ", absl::StrJoin(test_, ", ")));
    }
    return data;
  }

  // Says of each column without an input why it has none.
  void SayWhatIsLeft() {
    std::vector<ColumnLook> left;
    for (size_t i = 0; i < look_.columns.size(); ++i) {
      if (!taken_.contains(i)) left.push_back(look_.columns[i]);
    }
    for (const std::string& line : LeftColumnLines(left, by_order_)) Say(line);
  }

  // Gives each input the columns of its name, or else the next numbers.
  absl::Status TakeColumns(ordered_json& features) {
    std::map<std::string, std::vector<size_t>> columns;
    for (const InputLook& input : inputs_) {
      for (size_t i = 0; i < look_.columns.size(); ++i) {
        if (look_.columns[i].name != input.name || taken_.contains(i)) continue;
        columns[input.name].push_back(i);
        taken_.insert(i);
      }
    }
    for (const InputLook& input : inputs_) {
      std::vector<size_t>& own = columns[input.name];
      if (own.empty()) own = NextColumns(input);
      const size_t wanted = input.numbers.value_or(own.size());
      // Lists have several values; so do words that become vectors.
      const bool wide =
          own.size() == 1 &&
          (look_.columns[own[0]].list ||
           (input.dtype != "string" && !input.looks_up && HasWords(look_.columns[own[0]])));
      if (own.empty() || (own.size() != wanted && !wide)) {
        return absl::InvalidArgumentError(
            absl::StrCat(train_[0], ": input ", input.name, " takes ", wanted == 0 ? 1 : wanted,
                         input.dtype == "string" ? " texts" : " numbers", ", and ", own.size(),
                         " columns are left for it", RowNumbersLeft(),
                         ": name a column like the input, or write its features by hand"));
      }
      for (const size_t column : own) {
        RETURN_IF_ERROR(TakeColumn(input, look_.columns[column], features));
      }
    }
    return absl::OkStatus();
  }

  // Names the columns that no input of numbers is given: ", without id".
  std::string RowNumbersLeft() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < look_.columns.size(); ++i) {
      if (taken_.contains(i) || !look_.columns[i].NumbersRows()) continue;
      const std::string& name = look_.columns[i].name;
      names.push_back(name.empty() ? "the first column, which has no name" : name);
    }
    return names.empty() ? "" : absl::StrCat(", without ", absl::StrJoin(names, ", "));
  }

  std::vector<size_t> NextColumns(const InputLook& input) {
    std::vector<size_t> found;
    const size_t most = input.numbers.value_or(inputs_.size() == 1 ? look_.columns.size() : 1);
    // An only input of any width takes every column that fits.
    const bool open = !input.numbers.has_value() && inputs_.size() == 1;
    for (size_t i = 0; i < look_.columns.size() && found.size() < most; ++i) {
      const ColumnLook& column = look_.columns[i];
      const bool fits =
          input.dtype == "string" ? !column.is_number()
          : input.looks_up
              ? (column.whole && !column.CountsRows()) || HasWords(column)
              : (column.is_number() && !column.NumbersRows()) || (open && column.HasFewWords());
      if (taken_.contains(i) || column.name.empty() || !fits) continue;
      found.push_back(i);
      taken_.insert(i);
      if (column.is_number()) by_order_.push_back(column.name);
    }
    if (!found.empty() && inputs_.size() > 1) {
      std::vector<std::string> names;
      for (const size_t column : found) names.push_back(look_.columns[column].name);
      Say(absl::StrCat("input ", input.name, ": ", absl::StrJoin(names, ", ")));
    }
    return found;
  }

  absl::Status TakeColumn(const InputLook& input, const ColumnLook& column,
                          ordered_json& features) {
    ordered_json spec;
    spec["column"] = column.name;
    if (inputs_.size() > 1) spec["input"] = input.name;
    const bool integer = absl::StrContains(input.dtype, "int") || input.looks_up;
    if (input.dtype == "string") {
      spec["kind"] = "string";
    } else if (HasWords(column)) {
      RETURN_IF_ERROR(TakeWords(input, column, spec));
    } else if (integer && (column.whole || column.list)) {
      spec["kind"] = "id";
      if (column.smallest < 0 || column.largest >= input.rows.value_or(INFINITY)) {
        Grow(input, column.name, "ids outside of");
      }
    }
    if (column.list) {
      spec["separator"] = "|";
      spec["length"] = input.numbers.value_or(column.longest);
      Say(absl::StrCat(column.name, ": a list of up to ", column.longest, " values"));
    }
    const bool number = !spec.contains("kind") && !column.list;
    FillIn(column, number, spec);
    if (number && !input.scaled && column.Deviation() > 0) {
      spec["mean"] = RoundedBy(column.Mean(), column.Deviation());
      spec["std"] = RoundedBy(column.Deviation(), column.Deviation());
    }
    features.push_back(spec.size() == 1 ? ordered_json(column.name) : std::move(spec));
    return absl::OkStatus();
  }

  // Chooses the fill value for missing values; an empty list needs none.
  void FillIn(const ColumnLook& column, bool number, ordered_json& spec) {
    const std::string kind = spec.value("kind", "");
    if (!column.lacks() || (!number && kind.empty())) return;
    std::string by;
    if (number) {
      spec["default"] = RoundedBy(column.Median(), column.Median());
      by = absl::StrCat(TextOf(spec["default"]), ", their median,");
    } else {
      const bool id = kind == "id" && !HasWords(column);
      spec["default"] = id ? "0" : "";
      by = id ? "the id 0" : "the empty word";
    }
    Say(absl::StrCat(column.name, ": ", column.lacking, " of the first ",
                     column.lacking + column.values, " values are missing, for which ", by,
                     " stands (\"default\")"));
  }

  // Makes numbers of words: ids where rows of a table may grow, bins for an Embedding behind other
  // layers, and a vector with one 1 for an input of as many numbers as there are words.
  absl::Status TakeWords(const InputLook& input, const ColumnLook& column, ordered_json& spec) {
    const size_t words = column.words.size();
    const size_t unknown = input.numbers.value_or(words + 1) - words;
    if (!input.tables.empty()) {
      spec["kind"] = "id";
      Say(absl::StrCat(column.name, ": the words become ids of 64 bits (\"kind\": \"id\")"));
      Grow(input, column.name, "words, which are hashed beyond");
    } else if (input.rows.has_value()) {
      spec["kind"] = "hashed";
      spec["bins"] = static_cast<uint64_t>(*input.rows);
      Say(absl::StrCat(column.name, ": the words are hashed to ", *input.rows, " numbers"));
    } else if (!column.list && words > 1 && words <= kClassesMax && unknown <= 1 &&
               (unknown == 1 || !column.lacks())) {
      spec["kind"] = "categorical";
      spec["vocabulary"] = column.words;
      spec["oov"] = unknown;
      spec["one_hot"] = true;
      Say(absl::StrCat(column.name, ": a vector with one 1 for each of ",
                       absl::StrJoin(column.words, ", ")));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          train_[0], ": column ", column.name, " has words (\"", *column.words.begin(),
          "\"), and input ", input.name, " takes numbers: give the model a StringLookup or an ",
          "Embedding there, or the column \"kind\": \"categorical\" or \"hashed\""));
    }
    return absl::OkStatus();
  }

  // Lets the Embeddings of an input take any id.
  void Grow(const InputLook& input, const std::string& column, const char* why) {
    for (const std::string& table : input.tables) {
      if (!growing_.insert(table).second) continue;
      Say(absl::StrCat("tables: ", table, " grows, since ", column, " has ", why, " its ",
                       input.rows.value_or(0), " rows"));
    }
  }

  // Fills in what the model's compile_config leaves out.
  void Learning(ordered_json& job) {
    for (size_t i = 0; i < model_.outputs.size() && compiled_.losses.empty(); ++i) {
      const bool one = model_.outputs.size() == 1;
      const std::string activation = LastActivation(model_, i), loss = LikelyLoss(activation);
      const std::string& name = model_.outputs[i].name();
      (one ? job["loss"] : job["loss"][name]) = loss;
      Say(absl::StrCat("loss", one ? "" : " of " + name, ": ", loss,
                       ", by the last layer's activation (",
                       activation.empty() ? "none" : activation, ")"));
    }
    const bool measured = compiled_.metrics.has_value() && !compiled_.metrics->empty();
    if (model_.outputs.size() == 1 && !measured) {
      const std::string activation = LastActivation(model_, 0);
      if (activation == "sigmoid") job["metrics"] = {"auc"};
      if (activation == "softmax") job["metrics"] = {"accuracy"};
    }
    if (!compiled_.optimizer.has_value()) {
      job["optimizer"]["name"] = "adam";
      Say("optimizer: adam, since the model is not compiled");
    }
    if (!growing_.empty()) {
      Say("tables: the optimizer changes only the rows that a batch reads (\"update\": \"lazy\")");
    }
  }

  Files& files_;
  const GuessOf& of_;
  ModelSpec model_;
  std::vector<InputLook> inputs_;
  CompileConfig compiled_;
  Problems ignored_;
  std::vector<std::string> train_, test_;
  bool small_ = false;  // the training data have fewer than kSmallBytes
  CsvLook look_;
  std::set<size_t> taken_;             // indices of columns
  std::vector<std::string> by_order_;  // number columns taken by inputs of other names
  std::set<std::string> growing_;      // layers
  std::vector<std::string> guesses_;
};

}  // namespace

absl::StatusOr<GuessedJob> GuessJob(Files& files, const GuessOf& of) {
  if (of.data.empty()) return absl::InvalidArgumentError("name the files of data");
  return Guesser(files, of).Guess();
}

}  // namespace paracord
