// Leaves out unreadable records of another source, up to a number of them ({"bad_records": {"skip":
// 10}}). A batch then has fewer examples, and only good ones in `records`. Thread-safe if the other
// source is.
#pragma once

#include <cstdint>
#include <memory>

#include "config/json_fields.h"
#include "data/data_source.h"

namespace paracord {

inline constexpr char kBadRecordsKey[] = "bad_records";
// The most that `skip` may be: the number of each bad record is held in memory.
inline constexpr uint64_t kBadRecordsMax = 1'000'000;

// Returns how many unreadable records the options of a source allow; 0 if the key is missing.
uint64_t BadRecordsSkipped(const nlohmann::json& options, Problems& problems);

// Makes a source that leaves out at most `skip` different records, and logs the first few. Beyond
// that number, or if all records of a batch are bad, Read returns the error of `source`.
std::unique_ptr<DataSource> MakeSkipping(std::unique_ptr<DataSource> source, uint64_t skip);

}  // namespace paracord
