// Writes the TFRecord container (tensorflow/core/lib/io/record_writer.h): of each record its length
// (8 bytes, little-endian), the masked CRC-32C of the length, the data, the masked CRC-32C of the
// data. What a record holds is the caller's business. Owned and used by one thread; the file is
// synced by its owner.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// A checksum of data that holds checksums is weak, so the stored ones are changed.
uint32_t MaskedCrc(std::string_view bytes);

class TfRecordWriter {
 public:
  explicit TfRecordWriter(WriteFile& file) : file_(file) {}
  absl::Status Append(std::string_view data);

 private:
  WriteFile& file_;
};

}  // namespace paracord
