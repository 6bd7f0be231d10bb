#include "cli/label_guess.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/input_look.h"
#include "common/status_macros.h"
#include "config/nearest.h"

namespace paracord {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kLabels[] = {"label", "target", "y",      "class",  "click",
                                        "churn", "income", "rating", "clicked"};

// Returns the index of the column, or the number of columns.
size_t PlaceOfName(const CsvLook& look, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(look.columns, name, &ColumnLook::name) -
                             look.columns.begin());
}

absl::StatusOr<size_t> NamedLabel(const LabelsOf& of) {
  const size_t found = PlaceOfName(of.look, *of.label);
  if (found < of.look.columns.size()) return found;
  std::vector<std::string_view> names;
  for (const ColumnLook& column : of.look.columns) names.push_back(column.name);
  return absl::InvalidArgumentError(absl::StrCat(
      "--label ", *of.label, ": ", of.path, " has no such column", NearestHint(*of.label, names)));
}

absl::StatusOr<size_t> LikelyLabel(const LabelsOf& of) {
  if (of.label.has_value()) return NamedLabel(of);
  const bool two_classes = of.compiled.losses.empty()
                               ? LastActivation(of.model, 0) == "sigmoid"
                               : of.compiled.losses[0].name == "binary_crossentropy";
  const auto takes = [&](size_t column, bool fitting) {
    const ColumnLook& look = of.look.columns[column];
    const bool of_input = std::ranges::any_of(
        of.model.inputs, [&](const Endpoint& input) { return input.Is(look.name); });
    return !of_input && look.values > 0 && (!fitting || !two_classes || look.HasTwoClasses());
  };
  const size_t none = of.look.columns.size();
  for (const std::string_view name : kLabels) {
    const size_t place = PlaceOfName(of.look, name);
    if (place < none && takes(place, true)) return place;
  }
  // The last column whose values fit, or else the last.
  for (const bool fitting : {true, false}) {
    for (size_t i = none; i > 0; --i) {
      if (takes(i - 1, fitting) && !of.look.columns[i - 1].NumbersRows()) return i - 1;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(of.path, ": every column is an input: name the label with --label"));
}

// Describes a label for an output, which is compiled with `loss` unless that is null.
ordered_json LabelSpec(const ColumnLook& column, const NamedSpec* loss,
                       std::vector<std::string>& guesses) {
  const bool hot = loss != nullptr && loss->name == "categorical_crossentropy";
  if ((column.is_number() && !hot) || column.words.size() > kClassesMax) return column.name;
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
  guesses.push_back(
      absl::StrCat("classes of ", column.name, ", from 0 on: ", absl::StrJoin(words, ", ")));
  return spec;
}

// Returns the loss that the model is compiled with for an output; null if none.
const NamedSpec* LossOfOutput(const LabelsOf& of, size_t output) {
  const auto found = std::ranges::find_if(of.compiled.losses, [&](const NamedSpec& loss) {
    return loss.output.empty() || loss.output == absl::StrCat("#", output) ||
           of.model.outputs[output].Is(loss.output);
  });
  return found == of.compiled.losses.end() ? nullptr : &*found;
}

// Takes the column of each output's name. An output without a loss needs no label.
absl::StatusOr<GuessedLabels> LabelsByName(const LabelsOf& of) {
  GuessedLabels labels;
  labels.spec = ordered_json::array();
  std::vector<std::string> names, lacking;
  for (size_t i = 0; i < of.model.outputs.size(); ++i) {
    const NamedSpec* const loss = LossOfOutput(of, i);
    if (loss == nullptr && !of.compiled.losses.empty()) continue;
    const std::string& name = of.model.outputs[i].name();
    const size_t place = PlaceOfName(of.look, name);
    (place < of.look.columns.size() ? names : lacking).push_back(name);
    if (place == of.look.columns.size()) continue;
    ordered_json spec = LabelSpec(of.look.columns[place], loss, labels.guesses);
    if (spec.is_string()) spec = {{"column", name}};
    spec["output"] = name;
    labels.spec.push_back(std::move(spec));
    labels.columns.insert(place);
  }
  const std::string by_hand =
      "; for others write \"label\" by hand, [{\"column\": COLUMN, \"output\": OUTPUT}, ...]";
  if (of.label.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--label ", *of.label, ": the model has several outputs, whose labels are the columns of ",
        "their names", by_hand));
  }
  if (!lacking.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        of.path, ": has no column ", absl::StrJoin(lacking, ", "), ", and each of the model's ",
        of.model.outputs.size(), " outputs learns the column of its name: name it so", by_hand));
  }
  labels.guesses.push_back(
      absl::StrCat("labels: ", absl::StrJoin(names, ", "), ", by the names of the outputs"));
  return labels;
}

}  // namespace

std::string LikelyLoss(const std::string& activation) {
  return activation == "sigmoid"   ? "binary_crossentropy"
         : activation == "softmax" ? "sparse_categorical_crossentropy"
                                   : "mse";
}

absl::StatusOr<GuessedLabels> GuessLabels(const LabelsOf& of) {
  if (of.model.outputs.size() > 1) return LabelsByName(of);
  ASSIGN_OR_RETURN(const size_t label, LikelyLabel(of));
  const ColumnLook& column = of.look.columns[label];
  GuessedLabels labels;
  labels.guesses.push_back(absl::StrCat("label: ", column.name, " (--label names another)"));
  const NamedSpec* const loss = of.compiled.losses.empty() ? nullptr : &of.compiled.losses[0];
  labels.spec = LabelSpec(column, loss, labels.guesses);
  labels.columns.insert(label);
  return labels;
}

}  // namespace paracord
