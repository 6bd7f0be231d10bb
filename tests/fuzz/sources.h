// Opens a data source over files in memory and reads its first records, as a worker does.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/json_text.h"
#include "data/data_source.h"
#include "tests/data/memory_files.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

inline void ReadSource(MemoryFiles& files, const std::string& format,
                       const nlohmann::json& options) {
  const auto source = OpenDataSource(files, {format, options});
  if (!source.ok()) {
    Demand(!source.status().message().empty(), "a refusal says why");
    return;
  }
  const uint64_t records = (*source)->records();
  Demand(records > 0, "a source has records");
  (void)(*source)->fingerprint();
  (void)(*source)->Describe();
  (void)(*source)->Warnings();
  std::vector<uint64_t> first(std::min<uint64_t>(records, 20));
  std::iota(first.begin(), first.end(), 0);
  first.push_back(records - 1);
  Batch batch;
  if ((*source)->Read(first, batch).ok()) {
    Demand(batch.examples == first.size(), "a batch has the records that were asked for");
    (void)FirstNotFinite(batch);
    for (const Column& column : batch.inputs) {
      size_t elements = batch.examples;
      for (const uint64_t axis : column.shape) elements *= axis;
      Demand((column.text ? column.strings.size() : column.values.size()) == elements,
             "a column has as many elements as its shape");
    }
  }
  (void)(*source)->Where(records - 1);
}

// Reads the bytes as a file of a format. The first byte chooses the options.
inline void ReadFileSource(const std::string& format, std::span<const char* const> options,
                           const uint8_t* data, size_t size) {
  Input input(data, size);
  nlohmann::json chosen = JsonOf(options[input.Number(options.size() - 1)]);
  chosen["files"] = "/d";
  MemoryFiles files;
  files.contents["/d"] = input.Rest();
  ReadSource(files, format, chosen);
}

// Reads the bytes as the features and the labels of a source of arrays.
inline void ReadArraySource(const std::string& format, const uint8_t* data, size_t size) {
  MemoryFiles files;
  files.contents["/x"].assign(reinterpret_cast<const char*>(data), size);
  ReadSource(files, format, {{"features", "/x"}, {"labels", "/x"}});
}

}  // namespace paracord::fuzz
