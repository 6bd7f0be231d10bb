// An HDF5 file in memory, as far as Keras' files of weights need it: the names in groups,
// attributes that are strings, and arrays of numbers. Errors, also of damage, name the file and the
// object. Blocking, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/hdf5_library.h"

namespace paracord {

class Hdf5File {
 public:
  struct Numbers {
    std::vector<uint64_t> shape;  // empty: a scalar
    std::vector<float> values;
  };

  // Opens the file with the contents `bytes`. `name` is the file's name in errors.
  // FAILED_PRECONDITION: libhdf5 cannot be used here. DATA_LOSS: `bytes` are no sound HDF5 file.
  static absl::StatusOr<std::unique_ptr<Hdf5File>> Open(std::string bytes, std::string name);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  // Returns the sorted names in a group. "/" is the outermost group. NOT_FOUND: no such group.
  absl::StatusOr<std::vector<std::string>> Names(const std::string& group) const;
  // Returns the strings of an object's attribute: one string if the attribute is a scalar; none if
  // the object lacks the attribute or the attribute is an empty array. NOT_FOUND: no such object.
  absl::StatusOr<std::vector<std::string>> Strings(const std::string& object,
                                                   const std::string& attribute) const;
  // Reads an array of floating-point numbers or integers as float32. Returns nullopt if `dataset`
  // is a group. NOT_FOUND if there is no such object.
  absl::StatusOr<std::optional<Numbers>> Read(const std::string& dataset) const;

 private:
  Hdf5File(const Hdf5Library& hdf5, std::string name, hid_t file, uint64_t bytes)
      : hdf5_(hdf5), name_(std::move(name)), file_(file), bytes_(bytes) {}

  absl::Status Damaged(const std::string& object) const;
  absl::StatusOr<std::vector<uint64_t>> ShapeOf(hid_t space, const std::string& object,
                                                uint64_t element_bytes) const;

  const Hdf5Library& hdf5_;
  const std::string name_;
  const hid_t file_;
  const uint64_t bytes_;  // size of the whole file
};

}  // namespace paracord
