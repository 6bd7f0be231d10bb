// Memory for the rows of a growing table, numbered from 0: a row keeps its place, memory grows by
// extents of doubling size that are touched row by row, and large ones are in huge pages. It can
// be read as it is at one moment (an image) while rows are written: rows lie in chunks of a few
// KiB, and a chunk that the image has not read yet is copied before its rows change. One thread at
// a time, but that different rows may be read and written by many.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace paracord {

class RowMemory {
 public:
  explicit RowMemory(uint64_t row_floats);
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  uint64_t row_floats() const { return row_floats_; }
  uint64_t rows() const { return rows_; }
  float* Row(uint32_t row) const {
    const uint64_t q = (uint64_t{row} >> shift_) + 1;
    const auto extent = static_cast<size_t>(std::bit_width(q) - 1);
    const uint64_t first = ((uint64_t{1} << extent) - 1) << shift_;
    return extents_[extent] + (row - first) * row_floats_;
  }
  // Adds a row, whose memory is uninitialised; a row has fewer than 2^32 - 1 before it.
  uint32_t Append();
  // Adds so many, and returns their memory in order.
  std::vector<std::span<float>> AppendMany(uint64_t rows);
  uint64_t bytes() const { return rows_ * row_floats_ * sizeof(float); }

  // Begins an image of the rows that there are now, in place of any before it; returns the number
  // of its chunks.
  uint64_t BeginImage();
  // Reads a chunk of the image, once.
  std::vector<float> ReadImage(uint64_t chunk);
  void EndImage();
  bool has_image() const { return image_rows_ != 0; }
  // Called before rows change. Cheap if there is no image.
  void BeforeWrite(std::span<const uint32_t> rows) {
    if (image_rows_ != 0) Save(rows);
  }
  uint64_t saved_bytes() const;  // copies that an image still has to read

 private:
  uint64_t ExtentBytes(size_t extent) const;
  void Save(std::span<const uint32_t> rows);
  uint64_t RowsOfChunk(uint64_t chunk) const;
  void Copy(uint64_t chunk, std::vector<float>& to) const;

  const uint64_t row_floats_;
  const uint32_t shift_;        // the first extent has 1 << shift_ rows
  const uint32_t chunk_shift_;  // and a chunk 1 << chunk_shift_
  uint64_t rows_ = 0;
  std::array<float*, 33> extents_{};
  uint64_t image_rows_ = 0;  // 0: there is no image
  std::vector<bool> done_;   // of the image: read, or saved
  absl::flat_hash_map<uint64_t, std::vector<float>> saved_;
};

}  // namespace paracord
