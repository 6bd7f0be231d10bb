// A share of another source's records: {"part": {"from": 0, "to": 0.9, "seed": 7}} holds out the
// last tenth. With a seed the records are shuffled before the cut, in an order that all shares of
// the seed have in common. Constant after construction; thread-safe if the other source is.
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
