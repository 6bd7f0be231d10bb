// The readers of formats for whole arrays: entries of the table in data_source.cc. Features and
// labels are a single array, or an object of arrays by the model's inputs or outputs.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

// {features, labels, weights, scale}: IDX files, plain or gzip; features are multiplied by scale.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(Files& files, const DataSpec& spec);
// {features, labels, weights}: .npy files. A Fortran-order file must be small enough to be held.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpy(Files& files, const DataSpec& spec);
// {file, features, labels, weights, scale}: .npz files; arrays are named by key.
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpz(Files& files, const DataSpec& spec);

}  // namespace paracord
