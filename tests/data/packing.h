// Makes compressed and container files by hand, for tests of readers.
#pragma once

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "storage/tf_record_writer.h"

namespace paracord {

// `window_bits` as in deflateInit2: 16 + MAX_WBITS for gzip, -MAX_WBITS for plain deflate.
inline std::string Deflate(const std::string& bytes, int window_bits) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(bytes.size() + bytes.size() / 1000 + 100, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

inline std::string Gzip(const std::string& bytes) { return Deflate(bytes, 16 + MAX_WBITS); }

class StringFile : public WriteFile {
 public:
  std::string bytes;
  absl::Status Append(std::string_view more) override {
    bytes.append(more);
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
};

// Returns a TFRecord file of `records`.
inline std::string Container(const std::vector<std::string>& records) {
  StringFile file;
  TfRecordWriter writer(file);
  for (const std::string& record : records) REQUIRE(writer.Append(record).ok());
  return file.bytes;
}

}  // namespace paracord
