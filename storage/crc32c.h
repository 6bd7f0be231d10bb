// CRC-32C (Castagnoli), the checksum of everything that Paracord writes to disk. A pure function
// over bytes, by ISA-L; about 10 GB/s. It finds damage, and does not authenticate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "isa-l/crc.h"

namespace paracord {

// `crc` is the checksum of the bytes before, or 0 at the start. Crc32c("123456789") is 0xe3069283.
inline uint32_t Crc32c(std::span<const char> bytes, uint32_t crc = 0) {
  constexpr size_t kStepBytes = size_t{1} << 30;  // ISA-L takes an int
  while (!bytes.empty()) {
    const size_t step = std::min(bytes.size(), kStepBytes);
    // The buffer is only read; the C interface lacks the const.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    crc = ~crc32_iscsi(data, static_cast<int>(step), ~crc);
    bytes = bytes.subspan(step);
  }
  return crc;
}

// Returns the checksum of two adjacent runs of bytes from their own checksums, so that ranges of a
// file can be read at once.
uint32_t Crc32cOfBoth(uint32_t first, uint32_t second, uint64_t second_bytes);

}  // namespace paracord
