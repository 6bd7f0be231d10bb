// Named tensors in a safetensors file, as commands take and give them: float32 inside, integers
// accepted where a file is read. Blocking, in main's thread. Errors name the file and the tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
};

// As ReplaceOutFile.
absl::Status WriteTensors(Files& files, const std::string& path,
                          std::span<const NamedTensor> tensors,
                          const std::map<std::string, std::string>& metadata);

struct ReadTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
  std::vector<std::string> strings = {};  // in place of the values
  std::vector<ExactInteger> exact = {};   // of kWhole: the large ones among the values
};

// How a tensor is read. kText: U8, of which the last axis is the bytes of a string, with zeros
// behind it. kWhole: as kNumbers, but integers that float32 does not have are there as exact ones,
// too.
enum class TensorForm { kNumbers, kWhole, kText };

// All tensors of a file, in the order of the file, as storage/tensor_numbers.h has them. `form_of`
// null: all are numbers.
absl::StatusOr<std::vector<ReadTensor>> ReadTensors(
    Files& files, const std::string& path,
    const std::function<TensorForm(const std::string& name)>& form_of = nullptr);

}  // namespace paracord
