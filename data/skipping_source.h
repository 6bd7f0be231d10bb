// Leaves out the records of another source that cannot be read, up to a number of them
// ({"bad_records": {"skip": 10}}). A batch then has fewer examples, as its `records` say, and is
// the same whoever reads it. Thread-safe if the other source is.
#pragma once

#include <cstdint>
#include <memory>

#include "config/json_fields.h"
#include "data/data_source.h"

namespace paracord {

inline constexpr char kBadRecordsKey[] = "bad_records";
// A source that keeps a note of each bad record has to bound them.
inline constexpr uint64_t kBadRecordsMax = 1'000'000;

// Returns how many records that cannot be read the options of a source let pass.
uint64_t BadRecordsSkipped(const nlohmann::json& options, Problems& problems);

// Lets at most `skip` different records be left out by this process, and logs the first of them.
// Beyond, and where a batch has no other record, Read fails as that of `source` does.
std::unique_ptr<DataSource> MakeSkipping(std::unique_ptr<DataSource> source, uint64_t skip);

}  // namespace paracord
