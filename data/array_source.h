// The readers of formats for whole arrays: entries of the table in data_source.cc. Features and
// labels are a single array each, or an object that has an array for each input or output by name.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

// Reads IDX files, plain or gzip: keys features, labels, weights, and scale, which multiplies
// features.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(Files& files, const DataSpec& spec);
// Reads .npy files: keys features, labels, weights. A Fortran-order file must fit into memory.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpy(Files& files, const DataSpec& spec);
// Reads .npz files: keys file, features, labels, weights, scale; arrays are named by their keys.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpz(Files& files, const DataSpec& spec);

}  // namespace paracord
