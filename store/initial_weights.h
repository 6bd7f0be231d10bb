// The job's initial weights: which tensors of the file are which variables, and their numbers.
// Blocking. Errors name the file, and what is wrong with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/job.h"
#include "proto/paracord.pb.h"
#include "storage/safetensors.h"
#include "store/block.h"

namespace paracord {

// For each variable its place among `tensors`: that of its name, with or without Keras 2's ":0"
// (the gamma of a LayerScale is "variable_1" in Keras 3), or else the only one whose name goes on
// in front of it or ends it ("sequential/dense/kernel" for "dense/kernel" and the other way round:
// what Keras has as a variable's `path` depends on how the model was made). INVALID_ARGUMENT says
// which has none; with `partial` it has kNoTensor then, and only a file without any is an error.
inline constexpr size_t kNoTensor = static_cast<size_t>(-1);
absl::StatusOr<std::vector<size_t>> FindVariables(std::span<const std::string_view> tensors,
                                                  std::span<const VariableSpec> variables,
                                                  bool partial = false);

class InitialWeights {
 public:
  // All variables are there, or those that the file has if it is a part, of their shapes, in
  // numbers. Null: the job has no such file.
  static absl::StatusOr<std::unique_ptr<InitialWeights>> Open(
      Files& files, const Job& job, std::span<const VariableSpec> variables);

  // Whether the file has the variable. One that it lacks is drawn.
  bool Has(size_t variable) const { return tensors_[variable] != kNoTensor; }
  // Whether the file has rows of a growing table, as `<variable>/ids` and `<variable>/rows`.
  bool HasRows(size_t variable) const { return rows_[variable].has_value(); }
  // Hands out these rows one by one, until `take` fails, whose error is named after the file.
  // INVALID_ARGUMENT: ids do not ascend, or an element is not finite.
  using TakeRowFn = std::function<absl::Status(uint64_t id, std::span<const float> row)>;
  absl::Status ReadRows(size_t variable, const TakeRowFn& take) const;
  // Names the variables that are drawn and the tensors of the file that no variable takes, in one
  // line for people; empty if there are neither.
  std::string Drawn(std::span<const VariableSpec> variables) const;
  // The elements of a variable that it has, from `begin` on. INVALID_ARGUMENT: one is not finite.
  absl::Status Read(size_t variable, uint64_t begin, const Block& value) const;
  // Reads all that are somebody's.
  absl::Status CheckFinite() const;

 private:
  struct RowTensors {
    size_t ids = 0, rows = 0;
  };
  absl::Status FindAll(std::span<const VariableSpec> variables,
                       std::span<const std::string_view> names, bool partial);
  // INVALID_ARGUMENT names a tensor that was meant for a growing table, and gives it nothing.
  absl::Status CheckGrowing(std::span<const VariableSpec> variables,
                            std::span<const std::string_view> names) const;
  std::set<size_t> Taken() const;  // the tensors that some variable takes
  // The tensors that have the rows of a growing table; nullopt if there are none.
  absl::StatusOr<std::optional<RowTensors>> FindRows(const VariableSpec& variable) const;
  absl::Status ReadFinite(const TensorInfo& tensor, uint64_t begin, std::span<float> values) const;

  explicit InitialWeights(std::unique_ptr<SafetensorsFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<SafetensorsFile> file_;
  std::vector<size_t> tensors_;                  // by variable
  std::vector<std::optional<RowTensors>> rows_;  // the same
};

}  // namespace paracord
