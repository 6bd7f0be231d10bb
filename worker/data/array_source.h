// The readers of formats that hold whole arrays, kept in memory: entries of the table in
// data_source.cc.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/data_source.h"

namespace paracord {

// {features, labels, scale}: IDX files, plain or gzip; features are multiplied by scale.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(Files& files, const DataSpec& spec);
// {features, labels}: .npy files in C order.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpy(Files& files, const DataSpec& spec);

}  // namespace paracord
