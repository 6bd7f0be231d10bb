#include "store/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/status_macros.h"
#include "config/nearest.h"
#include "config/partitions.h"
#include "storage/tensor_numbers.h"

namespace paracord {
namespace {

constexpr size_t kNamesShown = 6;

bool EndsWithPath(std::string_view path, std::string_view end) {
  return path.size() > end.size() && path.ends_with(end) &&
         path[path.size() - end.size() - 1] == '/';
}

absl::Status NoTensor(const std::string& variable, std::span<const std::string_view> tensors) {
  std::string hint = NearestHint(variable, tensors);
  if (hint.empty() && tensors.size() > kNamesShown) {
    hint = absl::StrCat("; it holds ", JoinNames(tensors.first(kNamesShown)), " and ",
                        tensors.size() - kNamesShown, " more");
  }
  return absl::InvalidArgumentError(absl::StrCat("holds no tensor ", variable, hint));
}

// Returns the name without what Keras 2 ("dense/kernel:0") and Keras 3 ("scale/variable_7") append.
// The gamma of a LayerScale is all that Keras 3 leaves without a name.
std::string Named(std::string_view name) {
  if (name.ends_with(":0")) name.remove_suffix(2);
  std::string_view unnamed = name.substr(0, name.find_last_not_of("0123456789") + 1);
  if (unnamed.ends_with("_")) unnamed.remove_suffix(1);
  constexpr std::string_view kUnnamed = "/variable";
  if (!unnamed.ends_with(kUnnamed)) return std::string(name);
  unnamed.remove_suffix(kUnnamed.size());
  return absl::StrCat(std::string(unnamed), "/gamma");
}

// Returns the only tensor whose path ends like the name, or the other way round.
absl::StatusOr<size_t> OnlyOneLike(const std::string& name,
                                   const std::map<std::string, size_t>& others,
                                   std::span<const std::string_view> tensors, bool partial) {
  std::optional<size_t> found;
  for (const auto& [path, tensor] : others) {
    if (!EndsWithPath(path, name) && !EndsWithPath(name, path)) continue;
    if (found.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("holds no tensor ", name, ", but ", std::string(tensors[*found]), " and ",
                       std::string(tensors[tensor]), ", which end alike"));
    }
    found = tensor;
  }
  if (!found.has_value() && !partial) return NoTensor(name, tensors);
  return found.value_or(kNoTensor);
}

// Whether a tensor was surely meant for the growing table, whose rows have tensors of their own:
// the tensor is named like the table, like the table's module ("user" for "user.weight"), or like a
// path of the table, with "/ids" and "/rows" or without.
bool MeansTable(std::string_view tensor, const std::string& table) {
  for (const std::string_view end : {"/ids", "/rows"}) {
    if (tensor.ends_with(end)) tensor.remove_suffix(end.size());
  }
  const std::string named = Named(tensor);
  const bool owner = table.size() > named.size() && table.starts_with(named) &&
                     table.find_first_of("/.", named.size() + 1) == std::string::npos &&
                     (table[named.size()] == '/' || table[named.size()] == '.');
  return named == table || owner || EndsWithPath(named, table) || EndsWithPath(table, named);
}

absl::Status InWeights(const absl::Status& status, const std::string& where = "") {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("initial_weights: ", where, status.message()));
}

absl::Status Fits(const TensorInfo& tensor, const VariableSpec& variable, bool partial) {
  const std::vector<uint64_t> wanted(variable.shape().begin(), variable.shape().end());
  if (tensor.shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has shape ",
                                                   ShapeText(tensor.shape), ", the variable's is ",
                                                   ShapeText(wanted),
                                                   partial ? "; give the layer another name to "
                                                             "have it drawn"
                                                           : ""));
  }
  return ToFloats(tensor, {}, {});  // an error if the type is wrong
}

}  // namespace

absl::StatusOr<std::vector<size_t>> FindVariables(std::span<const std::string_view> tensors,
                                                  std::span<const VariableSpec> variables,
                                                  bool partial) {
  std::map<std::string, size_t> others;
  for (size_t t = 0; t < tensors.size(); ++t) others.emplace(tensors[t], t);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const std::string named = Named(tensors[t]);
    if (named != tensors[t] && others.emplace(named, t).second)
      others.erase(std::string(tensors[t]));
  }
  std::vector<std::optional<size_t>> found(variables.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    const auto same = others.find(variables[v].name());
    if (same == others.end()) continue;
    found[v] = same->second;
    others.erase(same);
  }
  std::set<size_t> taken;
  std::vector<size_t> result;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!found[v].has_value()) {
      ASSIGN_OR_RETURN(found[v], OnlyOneLike(variables[v].name(), others, tensors, partial));
      if (found[v] != kNoTensor && !taken.insert(*found[v]).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", std::string(tensors[*found[v]]),
                         " could be several variables: name it as validate does"));
      }
    }
    result.push_back(*found[v]);
  }
  const bool none =
      std::all_of(result.begin(), result.end(), [](size_t tensor) { return tensor == kNoTensor; });
  if (partial && none && !variables.empty()) {
    const absl::Status missing = NoTensor(variables[0].name(), tensors);
    return absl::InvalidArgumentError(
        absl::StrCat("holds no variable of the model: it ", std::string(missing.message())));
  }
  return result;
}

absl::StatusOr<std::unique_ptr<InitialWeights>> InitialWeights::Open(
    Files& files, const Job& job, std::span<const VariableSpec> variables) {
  if (!job.initial_weights.file.has_value()) return nullptr;
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> file =
      SafetensorsFile::Open(files, *job.initial_weights.file);
  RETURN_IF_ERROR(InWeights(file.status()));
  auto weights = std::unique_ptr<InitialWeights>(new InitialWeights(*std::move(file)));
  const std::string where = absl::StrCat(*job.initial_weights.file, ": ");
  const std::vector<TensorInfo>& tensors = weights->file_->header().tensors;
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  const bool partial = job.initial_weights.partial;
  RETURN_IF_ERROR(InWeights(weights->FindAll(variables, names, partial), where));
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!weights->Has(v)) continue;
    RETURN_IF_ERROR(InWeights(Fits(tensors[weights->tensors_[v]], variables[v], partial), where));
  }
  return weights;
}

absl::StatusOr<std::optional<InitialWeights::RowTensors>> InitialWeights::FindRows(
    const VariableSpec& variable) const {
  if (!IsGrowing(variable)) return std::nullopt;
  const std::vector<TensorInfo>& tensors = file_->header().tensors;
  const auto find = [&](const char* end) {
    const std::string name = variable.name() + end;
    return static_cast<size_t>(std::ranges::find(tensors, name, &TensorInfo::name) -
                               tensors.begin());
  };
  const RowTensors found{.ids = find("/ids"), .rows = find("/rows")};
  if (found.ids == tensors.size() && found.rows == tensors.size()) return std::nullopt;
  if (found.ids == tensors.size() || found.rows == tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat("holds one of ", variable.name(), "/ids and ",
                                                   variable.name(), "/rows; give both"));
  }
  const TensorInfo& ids = tensors[found.ids];
  const TensorInfo& rows = tensors[found.rows];
  std::vector<uint64_t> wanted(variable.shape().begin(), variable.shape().end());
  wanted[0] = ids.shape.empty() ? 0 : ids.shape[0];
  if ((ids.dtype != "I64" && ids.dtype != "U64") || ids.shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", ids.name, " is ", ids.dtype,
                                                   " of shape ", ShapeText(ids.shape),
                                                   ", and ids are I64, one for each row"));
  }
  if (rows.shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", rows.name, " has shape ",
                                                   ShapeText(rows.shape), ", and the rows of its ",
                                                   "ids are ", ShapeText(wanted)));
  }
  RETURN_IF_ERROR(ToFloats(rows, {}, {}));  // an error if the type is wrong
  return found;
}

absl::Status InitialWeights::ReadRows(size_t variable, const TakeRowFn& take) const {
  const std::vector<TensorInfo>& tensors = file_->header().tensors;
  const TensorInfo& ids = tensors[rows_[variable]->ids];
  const TensorInfo& rows = tensors[rows_[variable]->rows];
  uint64_t width = 1;
  for (size_t i = 1; i < rows.shape.size(); ++i) width *= rows.shape[i];
  const uint64_t most = std::max<uint64_t>(kChunkElements / width, 1);
  std::vector<uint64_t> some;
  std::vector<float> values;
  uint64_t before = 0;
  for (uint64_t first = 0; first < ids.shape[0]; first += some.size()) {
    some.resize(std::min(most, ids.shape[0] - first));
    values.resize(some.size() * width);
    RETURN_IF_ERROR(InWeights(
        file_->ReadBytes(ids, first * sizeof(uint64_t),
                         {reinterpret_cast<char*>(some.data()), some.size() * sizeof(uint64_t)})));
    RETURN_IF_ERROR(ReadFinite(rows, first * width, values));
    for (size_t i = 0; i < some.size(); ++i) {
      absl::Status taken = absl::OkStatus();
      if (first + i > 0 && some[i] <= before) {
        taken = absl::InvalidArgumentError(
            absl::StrCat("id ", some[i], " follows ", before, ", and ids ascend without repeats"));
      } else {
        taken = take(some[i], std::span(values).subspan(i * width, width));
      }
      RETURN_IF_ERROR(InWeights(taken, absl::StrCat(file_->path(), ": tensor ", ids.name, ": ")));
      before = some[i];
    }
  }
  return absl::OkStatus();
}

absl::Status InitialWeights::FindAll(std::span<const VariableSpec> variables,
                                     std::span<const std::string_view> names, bool partial) {
  // Rows of a growing table that the file lacks are drawn when they are created.
  std::vector<VariableSpec> looked_for;
  bool any_rows = false;
  for (const VariableSpec& variable : variables) {
    ASSIGN_OR_RETURN(rows_.emplace_back(), FindRows(variable));
    any_rows = any_rows || rows_.back().has_value();
    if (!IsGrowing(variable)) looked_for.push_back(variable);
  }
  absl::StatusOr<std::vector<size_t>> found = FindVariables(names, looked_for, partial);
  if (!found.ok() && any_rows && partial &&
      absl::StartsWith(found.status().message(), "holds no variable")) {
    found = std::vector<size_t>(looked_for.size(), kNoTensor);
  }
  if (!found.ok() && !partial && absl::StartsWith(found.status().message(), "holds no tensor")) {
    found = absl::InvalidArgumentError(
        absl::StrCat(std::string(found.status().message()),
                     "; to draw what the file lacks, write {\"file\": ..., \"partial\": true}"));
  }
  RETURN_IF_ERROR(found.status());
  for (auto next = found->begin(); const VariableSpec& variable : variables) {
    tensors_.push_back(IsGrowing(variable) ? kNoTensor : *next++);
  }
  return CheckGrowing(variables, names);
}

absl::Status InitialWeights::CheckGrowing(std::span<const VariableSpec> variables,
                                          std::span<const std::string_view> names) const {
  const std::set<size_t> taken = Taken();
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!IsGrowing(variables[v]) || HasRows(v)) continue;
    const std::string& table = variables[v].name();
    for (size_t t = 0; t < names.size(); ++t) {
      if (taken.contains(t) || !MeansTable(names[t], table)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", std::string(names[t]), " gives the growing table ", table,
          " no rows: write these as ", table, "/rows, and their ids, ascending, as ", table,
          "/ids of I64 (as `paracord export` does), or leave the tensor out to have them drawn"));
    }
  }
  return absl::OkStatus();
}

std::set<size_t> InitialWeights::Taken() const {
  std::set<size_t> taken(tensors_.begin(), tensors_.end());
  for (const std::optional<RowTensors>& rows : rows_) {
    if (rows.has_value()) taken.insert({rows->ids, rows->rows});
  }
  return taken;
}

std::string InitialWeights::Drawn(std::span<const VariableSpec> variables) const {
  static constexpr size_t kShown = 20;
  const auto listed = [](std::span<const std::string_view> names) {
    const size_t shown = std::min(names.size(), kShown);
    return absl::StrCat(
        JoinNames(names.first(shown)),
        shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "");
  };
  std::vector<std::string_view> drawn, left;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!Has(v) && !HasRows(v)) drawn.push_back(variables[v].name());
  }
  const std::set<size_t> taken = Taken();
  const std::vector<TensorInfo>& tensors = file_->header().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!taken.contains(t)) left.push_back(tensors[t].name);
  }
  if (drawn.empty() && left.empty()) return "";
  return absl::StrCat(
      "initial_weights: ", variables.size() - drawn.size(), " of ", variables.size(),
      " variables are from the file", drawn.empty() ? "" : "; drawn: ", listed(drawn),
      left.empty() ? "" : "; tensors of the file that no variable takes: ", listed(left));
}

absl::Status InitialWeights::Read(size_t variable, uint64_t begin, const Block& value) const {
  const TensorInfo& tensor = file_->header().tensors[tensors_[variable]];
  for (const ChunkRef& chunk : value.chunks()) {
    RETURN_IF_ERROR(ReadFinite(tensor, begin, chunk.mutable_values()));
    begin += chunk.values().size();
  }
  return absl::OkStatus();
}

absl::Status InitialWeights::CheckFinite() const {
  for (size_t v = 0; v < rows_.size(); ++v) {
    if (!HasRows(v)) continue;
    RETURN_IF_ERROR(ReadRows(v, [](uint64_t, std::span<const float>) { return absl::OkStatus(); }));
  }
  std::vector<float> values(kChunkElements);
  for (const size_t t : tensors_) {
    if (t == kNoTensor) continue;
    const TensorInfo& tensor = file_->header().tensors[t];
    uint64_t left = 1;
    for (const uint64_t size : tensor.shape) left *= size;
    for (uint64_t begin = 0; left > 0;) {
      const std::span<float> now = std::span(values).first(std::min<uint64_t>(left, values.size()));
      RETURN_IF_ERROR(ReadFinite(tensor, begin, now));
      begin += now.size();
      left -= now.size();
    }
  }
  return absl::OkStatus();
}

absl::Status InitialWeights::ReadFinite(const TensorInfo& tensor, uint64_t begin,
                                        std::span<float> values) const {
  RETURN_IF_ERROR(InWeights(file_->ReadElements(tensor, begin, values)));
  if (AllFinite(values)) return absl::OkStatus();
  const auto wrong = std::find_if_not(values.begin(), values.end(),
                                      [](float value) { return std::isfinite(value); });
  return absl::InvalidArgumentError(absl::StrCat(
      "initial_weights: ", file_->path(), ": tensor ", tensor.name, ": element ",
      begin + static_cast<uint64_t>(wrong - values.begin()), " is ", *wrong, ", as float32"));
}

}  // namespace paracord
