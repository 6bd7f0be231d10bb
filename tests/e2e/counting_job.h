// A job whose right result is known to the last bit: one Dense layer with zero kernel and zero
// inputs, whose outputs are its bias; mean absolute error against a target that is never reached;
// SGD with a rate equal to the number of units. The gradient of each element of the bias is
// -1/units for every batch of any size that is a power of two, so each batch adds exactly 1 to
// every element, and the test metric is exactly kTarget minus the batches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paracord::e2e {

inline constexpr float kTarget = 4194304;  // 2^22: what is below is exact in float32
inline constexpr uint64_t kUnits = 4096;
inline constexpr uint64_t kBatch = 16;
inline constexpr uint64_t kRecords = 37 * kBatch + 4;  // the last batch is smaller
inline constexpr uint64_t kBatchesPerEpoch = 38;
inline constexpr uint64_t kTestRecords = 1604;

void WriteNpy(const std::string& path, const std::vector<uint64_t>& shape,
              const std::vector<float>& values);
void WriteNpy(const std::string& path, const std::vector<uint64_t>& shape,
              const std::vector<uint64_t>& values);  // as int64

// Writes data and job below `dir`, with `patch` merged into job.json (RFC 7396). Returns the path
// of the job.
std::string WriteCountingJob(const std::string& dir, const nlohmann::json& patch);

// Sets record `record` of the training targets to NaN.
void SpoilRecord(const std::string& dir, uint64_t record);

// Fails the test unless the newest checkpoint below `dir` is complete and each element of the bias
// says that exactly `batches` were applied, and summary.json says the same. `updates`: that were
// made of the batches, where that is not one of each.
void CheckCounted(const std::string& dir, uint64_t batches, uint64_t rejected = 0,
                  std::optional<uint64_t> updates = std::nullopt);

// Returns all variables of the newest checkpoint, one after the other.
std::vector<float> NewestValues(const std::string& dir);

// Returns the newest checkpoint's directory.
std::string NewestCheckpoint(const std::string& dir);

}  // namespace paracord::e2e
