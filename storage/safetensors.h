// The safetensors format (github.com/huggingface/safetensors, README "Format"): a little-endian
// header length in 8 bytes, a JSON header, then the tensors' bytes without gaps. Used for
// checkpoints, exports and initial weights, so that Python reads and writes them. The writer stores
// F32, and text as U8, and computes a checksum of the whole file. Blocking; any thread for file
// work, one thread for each writer.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/partitions.h"

namespace paracord {

// The limit of the format's own library, in bytes.
inline constexpr uint64_t kSafetensorsHeaderMax = 100000000;

struct TensorInfo {
  std::string name;
  std::string dtype = "F32";  // spelling of the format
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes [begin, end) after the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // ascending `begin`
  std::map<std::string, std::string> metadata;  // __metadata__
  uint64_t data_begin = 0;                      // file offset of the tensors' bytes

  const TensorInfo* Find(std::string_view name) const;  // null if absent
};

std::string ShapeText(std::span<const uint64_t> shape);  // "(3, 4)"

// Parses strictly. Returns INVALID_ARGUMENT for gaps, overlaps, a wrong end, duplicate names,
// unknown dtypes, and a header above kSafetensorsHeaderMax. `data_bytes`: bytes after the header.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         uint64_t data_bytes);

// Writes a file from front to back in one pass. Names and shapes are known in advance, so the
// header comes first. Computes the checksum on the way.
class SafetensorsWriter {
 public:
  // `tensors` are in the order of their bytes. U8 tensors come last, so that the rest stays
  // aligned. Create fills in begin and end.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      Files& files, const std::string& path, std::vector<TensorInfo> tensors,
      const std::map<std::string, std::string>& metadata);

  // Appends the next bytes of the tensors. Calls may have any size.
  absl::Status Append(std::span<const float> values);
  absl::Status Append(std::string_view bytes);
  // Called after the last byte. Syncs the file, but not its directory.
  absl::Status Finish();

  uint64_t bytes() const { return bytes_; }    // of the file so far
  uint32_t crc32c() const { return crc32c_; }  // of these bytes

 private:
  SafetensorsWriter(std::unique_ptr<WriteFile> file, std::string path, uint64_t bytes_total);

  const std::unique_ptr<WriteFile> file_;
  const std::string path_;
  uint64_t bytes_total_;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

// Memory for elements in order: contiguous, or runs of `run` elements, `stride` elements apart, of
// each of which perhaps only the first `kept` elements have a place.
template <class T>
struct PlacedIn {
  template <class Memory>
  requires std::convertible_to<Memory&, std::span<T>> PlacedIn(
      Memory&& memory)  // NOLINT(google-explicit-constructor): as a span is made of it
      : PlacedIn(std::span<T>(memory).data(), std::span<T>(memory).size()) {}
  PlacedIn(T* to, uint64_t count) : PlacedIn(to, count, count, count) {}
  PlacedIn(T* to, uint64_t count, uint64_t run_elements, uint64_t stride_elements)
      : PlacedIn(to, count, run_elements, stride_elements, run_elements) {}
  PlacedIn(T* to, uint64_t count, uint64_t run_elements, uint64_t stride_elements,
           uint64_t kept_elements)
      : data(to), size(count), run(run_elements), stride(stride_elements), kept(kept_elements) {}

  // Copy elements to or from this memory, starting at element `first`. Those without a place are
  // left out.
  void Put(uint64_t first, std::span<const T> elements) const {
    ForRuns(first, elements.size(), [&](T* at, uint64_t done, uint64_t count) {
      std::memcpy(at, elements.data() + done, count * sizeof(T));
    });
  }
  void Take(uint64_t first, std::span<T> elements) const {
    ForRuns(first, elements.size(), [&](const T* at, uint64_t done, uint64_t count) {
      std::memcpy(elements.data() + done, at, count * sizeof(T));
    });
  }

  T* data;
  uint64_t size;  // number of elements
  uint64_t run, stride, kept;

 private:
  template <class Move>
  void ForRuns(uint64_t first, uint64_t all, const Move& move) const {
    for (uint64_t done = 0; done < all;) {
      const uint64_t at = first + done, in_run = at % run;
      const uint64_t count = std::min(all - done, run - in_run);
      if (in_run < kept) {
        move(data + at / run * stride + in_run, done, std::min(count, kept - in_run));
      }
      done += count;
    }
  }
};

// Memory for the bytes of a tensor, in order. Empty: the tensor is not wanted.
using BytesPlace = std::vector<PlacedIn<char>>;

// An open file with a validated header. Errors name the file.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(Files& files,
                                                               const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return file_->size(); }

  // Reads elements [begin, begin + out.size()) of a tensor in header().tensors. Types other than
  // F32 are converted (storage/tensor_numbers.h).
  absl::Status ReadElements(const TensorInfo& tensor, uint64_t begin, std::span<float> out) const;

  // Reads the bytes [begin, begin + out.size()) of a tensor unchanged.
  absl::Status ReadBytes(const TensorInfo& tensor, uint64_t begin, std::span<char> out) const;

  // Reads the whole file once, several ranges in parallel, and returns its checksum. Calls `place`
  // for each tensor, in file order, before reading. The memory is valid only if the checksum
  // matches.
  absl::StatusOr<uint32_t> ReadAll(const std::function<BytesPlace(const TensorInfo&)>& place) const;

 private:
  SafetensorsFile(std::unique_ptr<ReadFile> file, std::string path, SafetensorsHeader header,
                  std::string head);

  const std::unique_ptr<ReadFile> file_;
  const std::string path_;
  const SafetensorsHeader header_;
  const std::string head_;  // bytes before the tensors, as validated
};

}  // namespace paracord
