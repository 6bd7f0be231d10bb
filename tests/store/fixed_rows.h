// A partition of a fixed table with equal initial rows, and the contents of its images, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/table_partition.h"

namespace paracord {

inline std::unique_ptr<TablePartition> MakeFixedRows(const Optimizer& optimizer,
                                                     const std::vector<uint64_t>& shape,
                                                     float value, uint64_t row_begin = 0) {
  TableContents contents;
  contents.fixed = std::make_unique<FixedTable>(optimizer, shape, row_begin, /*trained=*/true);
  const PlacedIn<float> values = contents.fixed->PlaceOf(contents.fixed->columns()[0]);
  values.Put(0, std::vector<float>(values.size, value));
  contents.fixed->FillSlots();
  Partition::Facts facts{.id = 0,
                         .name = "v",
                         .shape = shape,
                         .trained = true,
                         .bytes = values.size * sizeof(float),
                         .row_begin = row_begin};
  return std::make_unique<TablePartition>(std::move(facts), 1, std::move(contents));
}

// Returns the tensors of an image that refers to its partition, by name.
inline std::map<std::string, std::string> TensorsIn(PartitionImage& image) {
  std::string bytes;
  REQUIRE(image
              .Write([&](std::string_view more) {
                bytes += more;
                return absl::OkStatus();
              })
              .ok());
  std::map<std::string, std::string> tensors;
  for (const TensorInfo& tensor : image.tensors()) {
    uint64_t size = tensor.dtype == "F32" ? sizeof(float) : 1;
    for (const uint64_t axis : tensor.shape) size *= axis;
    tensors[tensor.name] = bytes.substr(0, size);
    bytes.erase(0, size);
  }
  REQUIRE(bytes.empty());
  return tensors;
}

// Returns the tensors of a partition at one instant, by name.
inline std::map<std::string, std::string> TensorsOf(const Partition& partition) {
  const std::unique_ptr<PartitionImage> image = partition.NewImage(/*copied=*/false, {});
  image->Refer();
  return TensorsIn(*image);
}

inline std::vector<float> TensorOf(const Partition& partition, const std::string& name) {
  const std::string bytes = TensorsOf(partition).at(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace paracord
