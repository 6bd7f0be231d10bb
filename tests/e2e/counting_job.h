// A job whose right result is known to the last bit. One Dense layer with zero kernel and zero
// inputs puts out its bias. The loss is the mean absolute error against targets out of reach, and
// SGD has a rate equal to the number of units. The gradient of each bias element is -1/units for a
// batch of any power of two, so each batch adds 1 to each element. The test metric is kTarget minus
// the number of batches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paracord::e2e {

inline constexpr float kTarget = 4194304;  // 2^22: float32 is exact below
inline constexpr uint64_t kUnits = 4096;
inline constexpr uint64_t kBatch = 16;
inline constexpr uint64_t kRecords = 37 * kBatch + 4;  // the last batch is smaller
inline constexpr uint64_t kBatchesPerEpoch = 38;
inline constexpr uint64_t kTestRecords = 1604;

void WriteNpy(const std::string& path, const std::vector<uint64_t>& shape,
              const std::vector<float>& values);
void WriteNpy(const std::string& path, const std::vector<uint64_t>& shape,
              const std::vector<uint64_t>& values);  // written as int64

// Writes data and job into `dir`, with `patch` merged into job.json (RFC 7396). Returns the path of
// job.json.
std::string WriteCountingJob(const std::string& dir, const nlohmann::json& patch);

// Sets record `record` of the training targets to NaN.
void SpoilRecord(const std::string& dir, uint64_t record);

// Fails the test unless the newest checkpoint in `dir` is complete, each bias element counts
// `batches` applied batches, and summary.json agrees. `updates`: updates made of the batches, by
// default one for each batch.
void CheckCounted(const std::string& dir, uint64_t batches, uint64_t rejected = 0,
                  std::optional<uint64_t> updates = std::nullopt);

// Returns all variables of the newest checkpoint, concatenated.
std::vector<float> NewestValues(const std::string& dir);

// Returns the directory of the newest checkpoint.
std::string NewestCheckpoint(const std::string& dir);

}  // namespace paracord::e2e
