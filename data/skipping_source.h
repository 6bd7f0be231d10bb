// Leaves out unreadable records of another source, up to a number ({"bad_records": {"skip": 10}}).
// A batch with unreadable records has fewer examples, and the good records alone in `records`, for
// every reader alike. Thread-safe if the other source is.
#pragma once

#include <cstdint>
#include <memory>

#include "config/json_fields.h"
#include "data/data_source.h"

namespace paracord {

inline constexpr char kBadRecordsKey[] = "bad_records";
// The most that `skip` may be, because each bad record's number is held in memory.
inline constexpr uint64_t kBadRecordsMax = 1'000'000;

// Returns how many unreadable records the options of a source tolerate, 0 without the key.
uint64_t BadRecordsSkipped(const nlohmann::json& options, Problems& problems);

// Lets this process leave out at most `skip` different records, and logs the first few. Beyond the
// limit, or for a batch of bad records only, Read fails like the Read of `source`.
std::unique_ptr<DataSource> MakeSkipping(std::unique_ptr<DataSource> source, uint64_t skip);

}  // namespace paracord
