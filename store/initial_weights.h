// The job's initial weights, a safetensors file: which of its tensors belongs to which variable,
// and the numbers. Blocking. The errors of InitialWeights name the file and the problem.
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

// Returns for each variable the index of its tensor. That is the tensor of the variable's name,
// with or without Keras 2's ":0" (the gamma of a LayerScale is "variable_1" in Keras 3). If there
// is none, it is the only tensor whose name ends like the variable's or the other way round
// ("sequential/dense/kernel" for "dense/kernel": Keras' `path` of a variable depends on how the
// model was made). INVALID_ARGUMENT names what is ambiguous, or a variable without a tensor. With
// `partial`, a variable without a tensor gets kNoTensor instead, unless no variable has one.
inline constexpr size_t kNoTensor = static_cast<size_t>(-1);
absl::StatusOr<std::vector<size_t>> FindVariables(std::span<const std::string_view> tensors,
                                                  std::span<const VariableSpec> variables,
                                                  bool partial = false);

class InitialWeights {
 public:
  // Opens the file and checks that it has all variables as numbers in their shapes (if the job's
  // weights are partial, some variables or rows). Rows of growing tables may be left out. Returns
  // null if the job has no initial weights.
  static absl::StatusOr<std::unique_ptr<InitialWeights>> Open(
      Files& files, const Job& job, std::span<const VariableSpec> variables);

  // Whether the file has all values of the variable; false for every growing table.
  bool Has(size_t variable) const { return tensors_[variable] != kNoTensor; }
  // Whether the file has rows of a growing table, as `<variable>/ids` and `<variable>/rows`.
  bool HasRows(size_t variable) const { return rows_[variable].has_value(); }
  // Calls `take` for each row of a growing table in the file. If `take` fails, returns its error,
  // prefixed with the file's name. INVALID_ARGUMENT: ids do not ascend, or an element is not
  // finite.
  using TakeRowFn = std::function<absl::Status(uint64_t id, std::span<const float> row)>;
  absl::Status ReadRows(size_t variable, const TakeRowFn& take) const;
  // Returns a line for people that names the variables that are drawn, and the tensors of the file
  // that no variable takes; "" if there are neither.
  std::string Drawn(std::span<const VariableSpec> variables) const;
  // Fills `value` with a variable's elements from `begin` on. INVALID_ARGUMENT: one is not finite.
  absl::Status Read(size_t variable, uint64_t begin, const Block& value) const;
  // Reads all tensors that belong to variables, to check their elements. Errors as Read and
  // ReadRows.
  absl::Status CheckFinite() const;

 private:
  struct RowTensors {
    size_t ids = 0, rows = 0;
  };
  absl::Status FindAll(std::span<const VariableSpec> variables,
                       std::span<const std::string_view> names, bool partial);
  // INVALID_ARGUMENT names a tensor that was surely meant for a growing table, if the file has no
  // rows of that table.
  absl::Status CheckGrowing(std::span<const VariableSpec> variables,
                            std::span<const std::string_view> names) const;
  std::set<size_t> Taken() const;  // tensors that belong to a variable
  // The tensors with the rows of a growing table; nullopt: none.
  absl::StatusOr<std::optional<RowTensors>> FindRows(const VariableSpec& variable) const;
  absl::Status ReadFinite(const TensorInfo& tensor, uint64_t begin, std::span<float> values) const;

  explicit InitialWeights(std::unique_ptr<SafetensorsFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<SafetensorsFile> file_;
  std::vector<size_t> tensors_;                  // one for each variable
  std::vector<std::optional<RowTensors>> rows_;  // one for each variable
};

}  // namespace paracord
