// Writes the TFRecord container (tensorflow/core/lib/io/record_writer.h): for each record its
// length (8 bytes, little-endian), the masked CRC-32C of the length, the data, the masked CRC-32C
// of the data. The caller decides what a record holds. Owned and used by one thread; its owner
// syncs the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Returns the masked CRC-32C. It is masked because a checksum over data that holds checksums is
// weak.
uint32_t MaskedCrc(std::string_view bytes);

class TfRecordWriter {
 public:
  explicit TfRecordWriter(WriteFile& file) : file_(file) {}
  absl::Status Append(std::string_view data);

 private:
  WriteFile& file_;
};

}  // namespace paracord
