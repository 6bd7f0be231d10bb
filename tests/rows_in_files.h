// Compares the rows that a reader leaves in a checkpoint's files with those that it reads whole.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/mix.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "storage/chain.h"
#include "storage/checkpoint_rows.h"

namespace paracord {

// Returns the rows of the checkpoint's tables; an error is that of reading the checkpoint.
inline absl::StatusOr<CheckpointRows> LeaveRows(Files& files, const std::string& directory,
                                                const Manifest& manifest,
                                                std::vector<std::vector<float>>* values = nullptr) {
  ASSIGN_OR_RETURN(const std::vector<bool> left, TablesToLeave(files, directory, manifest, 0));
  CheckpointRows rows(manifest, left);
  VariableIds ids;
  KnownDamage known;
  ASSIGN_OR_RETURN(std::vector<std::vector<float>> read,
                   ReadVariables(files, directory, manifest, &ids, known, &rows));
  if (values != nullptr) *values = std::move(read);
  return rows;
}

// Compares a table's rows, read in another order than they have in the table, and for a growing
// table with ids among them that have no row. `ids` are those of a growing table.
inline void CheckSameTable(const CheckpointRows& rows, size_t v, const VariableSpec& variable,
                           const std::vector<uint64_t>& ids, const std::vector<float>& values) {
  const uint64_t width = RowElements(variable), count = values.size() / width;
  std::vector<uint64_t> wanted;
  for (uint64_t i = 0; i < count; ++i) {
    wanted.push_back(IsGrowing(variable) ? ids[i] : i);
    if (IsGrowing(variable) && i % 3 == 0) wanted.push_back(Mix64(i) + 12345);
  }
  std::ranges::sort(wanted, {}, [](uint64_t id) { return Mix64(id); });
  std::vector<float> read(wanted.size() * width);
  std::vector<char> there;
  const absl::Status status = rows.Read(v, wanted, read, there);
  INFO(status);
  REQUIRE(status.ok());
  bool same = true;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto known = std::ranges::lower_bound(ids, wanted[i]);
    const bool has = !IsGrowing(variable) || (known != ids.end() && *known == wanted[i]);
    const uint64_t place =
        IsGrowing(variable) ? static_cast<uint64_t>(known - ids.begin()) : wanted[i];
    same = same && there[i] == has;
    same = same && (!has || std::equal(&values[place * width], &values[place * width] + width,
                                       &read[i * width]));
  }
  CHECK(same);
}

inline void CheckRowsInFiles(Files& files, const std::string& directory) {
  const Manifest manifest = *ReadManifest(files, directory);
  VariableIds ids;
  const auto whole = ReadVariables(files, directory, manifest, &ids);
  REQUIRE(whole.ok());
  std::vector<std::vector<float>> others;
  const auto rows = LeaveRows(files, directory, manifest, &others);
  INFO(rows.status());
  REQUIRE(rows.ok());
  bool any = false;
  for (size_t v = 0; v < manifest.variables.size(); ++v) {
    if (!rows->Has(v)) {
      CHECK(others[v] == (*whole)[v]);
      continue;
    }
    any = true;
    CHECK(others[v].empty());
    CheckSameTable(*rows, v, manifest.variables[v], ids[v], (*whole)[v]);
  }
  CHECK(any);
}

}  // namespace paracord
