// Checks for the tests of every format.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/data_source.h"
#include "nlohmann/json.hpp"

namespace paracord {

using OpenedSource = absl::StatusOr<std::unique_ptr<DataSource>>;

// Returns all records of a source, in order.
inline Batch ReadAllRecords(const OpenedSource& source) {
  INFO(source.status());
  REQUIRE(source.ok());
  std::vector<uint64_t> records((*source)->records());
  std::iota(records.begin(), records.end(), 0);
  Batch batch;
  const absl::Status read = (*source)->Read(records, batch);
  INFO(read);
  REQUIRE(read.ok());
  batch.source = nullptr;
  return batch;
}

// Pairs of refused options and texts that the error must contain.
using RefusedOptions = std::vector<std::pair<nlohmann::json, std::vector<std::string>>>;

inline void CheckRefused(const RefusedOptions& table, auto open) {
  for (const auto& [options, messages] : table) {
    const OpenedSource source = open(options);
    INFO(options << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    for (const std::string& message : messages) {
      INFO(message);
      CHECK(std::string(source.status().message()).find(message) != std::string::npos);
    }
  }
}

}  // namespace paracord
