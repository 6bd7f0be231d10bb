#include "cli/job_guess.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/csv_look.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/named_spec.h"
#include "config/nearest.h"
#include "keras/json.h"

namespace paracord {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kLabels[] = {"label", "target", "y",      "class",  "click",
                                        "churn", "income", "rating", "clicked"};
constexpr int kBatch = 256;
constexpr size_t kClassesMax = 1000;

// An input of the model, and what the layers behind it make of its numbers.
struct Input {
  std::string name;
  std::string dtype;
  std::optional<size_t> numbers;  // of an example; none: any
  std::optional<double> rows;     // of the Embedding that reads it
  bool looks_up = false;          // its numbers are ids
  bool scaled = false;            // a layer normalizes them
};

bool IsTestFile(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(path.substr(path.rfind('/') + 1));
  return absl::StrContains(name, "test") || absl::StrContains(name, "valid");
}

// Follows what an input gives through layers that only move numbers.
void FollowInput(const ModelSpec& model, size_t node, size_t depth, Input& input) {
  constexpr size_t kFollowedMax = 16;
  if (depth > kFollowedMax) return;
  for (size_t user = 0; user < model.nodes.size(); ++user) {
    const NodeSpec& call = model.nodes[user];
    if (std::ranges::find(call.inputs, node) == call.inputs.end()) continue;
    const LayerSpec& layer = model.layers[call.layer];
    if (LooksUpIds(layer)) {
      input.looks_up = true;
      const auto rows = layer.config.find("input_dim");
      if (rows != layer.config.end() && rows->is_number()) {
        input.rows = std::min(input.rows.value_or(INFINITY), rows->get<double>());
      }
    }
    input.scaled = input.scaled || layer.class_name == "Normalization" ||
                   layer.class_name == "BatchNormalization" ||
                   layer.class_name == "LayerNormalization" || layer.class_name == "Discretization";
    if (layer.class_name == "Concatenate" || layer.class_name == "Flatten" ||
        layer.class_name == "Reshape") {
      FollowInput(model, user, depth + 1, input);
    }
  }
}

std::vector<Input> InputsOf(const ModelSpec& model) {
  std::vector<Input> inputs;
  for (const Endpoint& endpoint : model.inputs) {
    const json& config = model.layers[model.nodes[endpoint.node].layer].config;
    Input input;
    input.name = endpoint.name();
    const auto dtype = config.find("dtype");
    if (dtype != config.end() && dtype->is_string()) input.dtype = dtype->get<std::string>();
    for (const char* key : {"batch_shape", "batch_input_shape"}) {
      const auto shape = config.find(key);
      if (shape == config.end() || !shape->is_array() || shape->empty()) continue;
      size_t numbers = 1;
      bool known = true;
      for (size_t i = 1; i < shape->size(); ++i) {
        known = known && (*shape)[i].is_number_unsigned();
        if (known) numbers *= (*shape)[i].get<size_t>();
      }
      if (known) input.numbers = numbers;
    }
    FollowInput(model, endpoint.node, 0, input);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// The activation of the layer that gives the model's only output; "" if there are several.
std::string LastActivation(const ModelSpec& model) {
  if (model.outputs.size() != 1) return "";
  const LayerSpec& layer = model.layers[model.nodes[model.outputs[0].node].layer];
  if (layer.class_name == "Softmax") return "softmax";
  const auto activation = layer.config.find("activation");
  if (activation == layer.config.end()) return "";
  return activation->is_string() ? activation->get<std::string>() : "";
}

double Rounded(double number) {
  if (number == 0 || !std::isfinite(number)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(number))) - 3);
  return std::stod(absl::StrCat(std::round(number / unit) * unit));
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
    if (train_[0].ends_with(".npy")) {
      ASSIGN_OR_RETURN(data, Arrays());
    } else {
      ASSIGN_OR_RETURN(data, Columns());
    }
    GuessedJob guessed;
    guessed.job["data"] = std::move(data);
    if (!growing_.empty()) {
      for (const std::string& layer : growing_) {
        guessed.job["tables"][layer]["kind"] = "growing";
      }
    }
    guessed.job["batch"] = kBatch;
    guessed.job["epochs"] = 3;
    Learning(guessed.job);
    guessed.guesses = std::move(guesses_);
    return guessed;
  }

 private:
  void Say(const std::string& line) { guesses_.push_back(line); }

  // Features and labels in turn, of training and then of tests.
  absl::StatusOr<ordered_json> Arrays() {
    std::vector<std::string> rest = train_;
    rest.insert(rest.end(), test_.begin(), test_.end());
    const bool pairs = rest.size() == 2 || (rest.size() == 4 && test_.size() != 1);
    if (!pairs || model_.inputs.size() > 1) {
      return absl::InvalidArgumentError(
          "of .npy files init takes features and labels of one input, and the same of tests, in "
          "this order; docs/data-formats.md has what a job says of others");
    }
    ordered_json data;
    data["train"]["format"] = "npy";
    data["train"]["features"] = rest[0];
    data["train"]["labels"] = rest[1];
    Say(absl::StrCat("features: ", rest[0], "; labels: ", rest[1]));
    if (rest.size() == 2) {
      HoldBack(data);
      return data;
    }
    data["test"]["features"] = rest[2];
    data["test"]["labels"] = rest[3];
    Say(absl::StrCat("test features: ", rest[2], "; test labels: ", rest[3]));
    return data;
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
    ASSIGN_OR_RETURN(const size_t label, FindLabel());
    ordered_json train;
    train["format"] = "csv";
    train["files"] = train_;
    if (look_.delimiter != ",") {
      train["delimiter"] = look_.delimiter;
      Say(absl::StrCat("delimiter: ", look_.delimiter == "\t" ? "a tab" : look_.delimiter));
    }
    taken_.insert(label);
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
    train["label"] = LabelSpec(look_.columns[label]);
    std::vector<std::string> left;
    for (size_t i = 0; i < look_.columns.size(); ++i) {
      if (!taken_.contains(i)) left.push_back(look_.columns[i].name);
    }
    if (!left.empty()) Say(absl::StrCat("not used: ", absl::StrJoin(left, ", ")));
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

  absl::StatusOr<size_t> FindLabel() {
    const auto named = [&](std::string_view name) {
      return static_cast<size_t>(std::ranges::find(look_.columns, name, &ColumnLook::name) -
                                 look_.columns.begin());
    };
    if (of_.label.has_value()) {
      const size_t found = named(*of_.label);
      if (found < look_.columns.size()) return found;
      std::vector<std::string_view> names;
      for (const ColumnLook& column : look_.columns) names.push_back(column.name);
      return absl::InvalidArgumentError(absl::StrCat("--label ", *of_.label, ": ", train_[0],
                                                     " has no such column",
                                                     NearestHint(*of_.label, names)));
    }
    size_t label = look_.columns.size();
    for (const std::string_view name : kLabels) {
      if (label == look_.columns.size()) label = named(name);
    }
    for (size_t i = look_.columns.size(); label == look_.columns.size() && i > 0; --i) {
      const bool of_input = std::ranges::any_of(model_.inputs, [&](const Endpoint& input) {
        return input.Is(look_.columns[i - 1].name);
      });
      if (!of_input) label = i - 1;
    }
    if (label == look_.columns.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(train_[0], ": every column is an input: name the label with --label"));
    }
    Say(absl::StrCat("label: ", look_.columns[label].name, " (--label names another)"));
    return label;
  }

  // Gives each input its columns: those of its name first, the next numbers then.
  absl::Status TakeColumns(ordered_json& features) {
    const std::vector<Input> inputs = InputsOf(model_);
    std::map<std::string, std::vector<size_t>> columns;
    for (const Input& input : inputs) {
      for (size_t i = 0; i < look_.columns.size(); ++i) {
        if (look_.columns[i].name != input.name || taken_.contains(i)) continue;
        columns[input.name].push_back(i);
        taken_.insert(i);
      }
    }
    for (const Input& input : inputs) {
      std::vector<size_t>& own = columns[input.name];
      if (own.empty()) own = NextColumns(input, inputs.size());
      const size_t wanted = input.numbers.value_or(own.size());
      const bool list = own.size() == 1 && look_.columns[own[0]].list;
      if (own.empty() || (own.size() != wanted && !list)) {
        return absl::InvalidArgumentError(
            absl::StrCat(train_[0], ": input ", input.name, " takes ", wanted == 0 ? 1 : wanted,
                         input.dtype == "string" ? " texts" : " numbers", ", and ", own.size(),
                         " columns are left for it: name a column like the input, or write its "
                         "features by hand"));
      }
      for (const size_t column : own) {
        RETURN_IF_ERROR(TakeColumn(input, inputs.size(), look_.columns[column], features));
      }
    }
    return absl::OkStatus();
  }

  std::vector<size_t> NextColumns(const Input& input, size_t inputs) {
    std::vector<size_t> found;
    const size_t most = input.numbers.value_or(inputs == 1 ? look_.columns.size() : 1);
    for (size_t i = 0; i < look_.columns.size() && found.size() < most; ++i) {
      const ColumnLook& column = look_.columns[i];
      const bool fits = input.dtype == "string" ? !column.is_number() : column.is_number();
      if (taken_.contains(i) || !fits) continue;
      found.push_back(i);
      taken_.insert(i);
    }
    if (!found.empty() && inputs > 1) {
      std::vector<std::string> names;
      for (const size_t column : found) names.push_back(look_.columns[column].name);
      Say(absl::StrCat("input ", input.name, ": ", absl::StrJoin(names, ", ")));
    }
    return found;
  }

  absl::Status TakeColumn(const Input& input, size_t inputs, const ColumnLook& column,
                          ordered_json& features) {
    ordered_json spec;
    spec["column"] = column.name;
    if (inputs > 1) spec["input"] = input.name;
    const bool integer = absl::StrContains(input.dtype, "int") || input.looks_up;
    if (input.dtype == "string") {
      spec["kind"] = "string";
    } else if (integer && (column.whole || (column.list && column.list_whole))) {
      spec["kind"] = "id";
    } else if (!column.is_number() && !(column.list && column.list_whole)) {
      return absl::InvalidArgumentError(absl::StrCat(
          train_[0], ": column ", column.name, " has words (\"", *column.words.begin(),
          "\"), and input ", input.name, " takes numbers: give the model a StringLookup, or the ",
          "column \"kind\": \"categorical\" or \"hashed\""));
    }
    if (column.list) {
      spec["separator"] = "|";
      spec["length"] = input.numbers.value_or(column.longest);
      Say(absl::StrCat(column.name, ": a list of up to ", column.longest, " values"));
    }
    const bool number = !spec.contains("kind") && !column.list;
    if (column.lacks) {
      if (number) spec["default"] = Rounded(column.Median());
      if (spec.value("kind", "") == "string") spec["default"] = "";
      if (spec.value("kind", "") == "id") spec["default"] = "0";
    }
    if (number && !input.scaled && column.Deviation() > 0) {
      spec["mean"] = Rounded(column.Mean());
      spec["std"] = Rounded(column.Deviation());
    }
    if (input.rows.has_value() && spec.value("kind", "") == "id" && !column.list &&
        column.Largest() >= *input.rows) {
      Grow(input, column);
    }
    features.push_back(spec.size() == 1 ? ordered_json(column.name) : std::move(spec));
    return absl::OkStatus();
  }

  // Lets the Embedding take any id.
  void Grow(const Input& input, const ColumnLook& column) {
    for (const NodeSpec& call : model_.nodes) {
      const LayerSpec& layer = model_.layers[call.layer];
      const bool reads = std::ranges::any_of(call.inputs, [&](size_t node) {
        return std::ranges::any_of(model_.inputs, [&](const Endpoint& endpoint) {
          return endpoint.node == node && endpoint.name() == input.name;
        });
      });
      if (!reads || !LooksUpIds(layer)) continue;
      growing_.insert(layer.name);
      Say(absl::StrCat("tables: ", layer.name, " grows, since ", column.name, " has ids above its ",
                       *input.rows, " rows"));
    }
  }

  ordered_json LabelSpec(const ColumnLook& column) {
    const bool hot =
        !compiled_.losses.empty() && compiled_.losses[0].name == "categorical_crossentropy";
    if (column.is_number() && !hot) return column.name;
    if (column.words.size() > kClassesMax) return column.name;
    std::vector<std::string> words(column.words.begin(), column.words.end());
    if (column.is_number()) {
      std::ranges::sort(words, [](const std::string& a, const std::string& b) {
        return std::stod(a) < std::stod(b);
      });
    }
    ordered_json spec;
    spec["column"] = column.name;
    spec["kind"] = "categorical";
    spec["vocabulary"] = words;
    if (hot) spec["one_hot"] = true;
    Say(absl::StrCat("classes of ", column.name, ", from 0 on: ", absl::StrJoin(words, ", ")));
    return spec;
  }

  // What the model's compile_config leaves out.
  void Learning(ordered_json& job) {
    const std::string activation = LastActivation(model_);
    if (compiled_.losses.empty()) {
      const std::string loss = activation == "sigmoid"   ? "binary_crossentropy"
                               : activation == "softmax" ? "sparse_categorical_crossentropy"
                                                         : "mse";
      job["loss"] = loss;
      Say(absl::StrCat("loss: ", loss, ", by the last layer's activation (",
                       activation.empty() ? "none" : activation, ")"));
    }
    if (!compiled_.metrics.has_value() || compiled_.metrics->empty()) {
      if (activation == "sigmoid") job["metrics"] = {"auc"};
      if (activation == "softmax") job["metrics"] = {"accuracy"};
    }
    const bool lazy = !growing_.empty();  // a growing table needs an optimizer by rows
    if (!compiled_.optimizer.has_value() || lazy) {
      job["optimizer"]["name"] = lazy ? "adagrad" : "adam";
      if (lazy) Say("optimizer: adagrad, which changes only the rows that a batch reads");
    }
  }

  Files& files_;
  const GuessOf& of_;
  ModelSpec model_;
  CompileConfig compiled_;
  Problems ignored_;
  std::vector<std::string> train_, test_;
  CsvLook look_;
  std::set<size_t> taken_;         // columns
  std::set<std::string> growing_;  // layers
  std::vector<std::string> guesses_;
};

}  // namespace

absl::StatusOr<GuessedJob> GuessJob(Files& files, const GuessOf& of) {
  if (of.data.empty()) return absl::InvalidArgumentError("name the files of data");
  return Guesser(files, of).Guess();
}

}  // namespace paracord
