// A share of the records of another source: {"part": {"from": 0, "to": 0.9, "seed": 7}} leaves out
// the last tenth of them. With a seed the records are shuffled before they are divided, in an order
// that depends only on the seed and the number of records, so that two shares with equal seeds can
// exclude each other. Constant once made; thread-safe if the other source is.
#pragma once

#include <memory>
#include <optional>

#include "config/json_fields.h"
#include "data/data_source.h"

namespace paracord {

struct PartSpec {
  double from = 0, to = 1;
  std::optional<uint64_t> seed;
};

PartSpec ReadPartSpec(const nlohmann::json& value, const std::string& path, Problems& problems);

// Returns INVALID_ARGUMENT if the share has no records.
absl::StatusOr<std::unique_ptr<DataSource>> MakePart(std::unique_ptr<DataSource> whole,
                                                     const PartSpec& spec);

}  // namespace paracord
