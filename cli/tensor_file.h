// Named tensors in a safetensors file, which commands read and write. In memory and in written
// files their elements are float32, except ids; a file to read may have other types. Blocking, in
// main's thread. Errors name the file and the tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "data/data_source.h"

namespace paracord {

struct NamedTensor {
  std::string name;
  std::vector<uint64_t> shape;  // empty: a scalar
  std::span<const float> values;
  // If set, the elements are these ids in place of `values`, and are written as I64 (two's
  // complement).
  std::optional<std::span<const uint64_t>> ids = {};
};

// Writes the file `path` as a whole or not at all, by ReplaceOutFile.
absl::Status WriteTensors(Files& files, const std::string& path,
                          std::span<const NamedTensor> tensors,
                          const std::map<std::string, std::string>& metadata);

struct ReadTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
  std::vector<std::string> strings = {};  // for kText: the elements, in place of `values`
  std::vector<ExactInteger> exact = {};   // for kWhole: integers that float32 cannot hold
};

// How a tensor is read. kNumbers converts elements to float32. kWhole does so, too, and lists the
// integers that float32 cannot hold in `exact`. kText reads strings from U8: the last axis is the
// bytes of a string, padded with zeros.
enum class TensorForm { kNumbers, kWhole, kText };

// Returns all tensors in the order of the file. Numbers are converted as storage/tensor_numbers.h
// says. `form_of` returns how the tensor `name` is read; null: each tensor as kNumbers.
absl::StatusOr<std::vector<ReadTensor>> ReadTensors(
    Files& files, const std::string& path,
    const std::function<TensorForm(const std::string& name)>& form_of = nullptr);

}  // namespace paracord
