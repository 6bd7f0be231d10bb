// The readers of the formats idx, npy and npz: entries of the table in data_source.cc. Features and
// labels are a single array each, or several arrays, each with the name of its input or output.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

// Reads IDX files, plain or gzip. Keys: features, labels, weights, scale (a factor of features).
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(Files& files, const DataSpec& spec);
// Reads .npy files. Keys: features, labels, weights. A file in Fortran order must fit into memory.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpy(Files& files, const DataSpec& spec);
// Reads .npz files. Keys: file, scale, and features, labels, weights, which name arrays of the
// file.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpz(Files& files, const DataSpec& spec);

}  // namespace paracord
