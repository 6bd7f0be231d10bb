// The safetensors format (github.com/huggingface/safetensors, README "Format"): 8 bytes
// little-endian header length, a JSON header, then the tensors' bytes without holes. Checkpoints,
// exports and initial weights are such files, so Python reads and writes them. It writes F32, and
// text as U8; a checksum covers the whole file. Blocking; any thread that does file work, one
// thread a writer.
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

// The format's own library has this limit, in bytes.
inline constexpr uint64_t kSafetensorsHeaderMax = 100000000;

struct TensorInfo {
  std::string name;
  std::string dtype = "F32";  // as the format spells it
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes [begin, end) after the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // ascending by begin
  std::map<std::string, std::string> metadata;  // __metadata__
  uint64_t data_begin = 0;                      // of the tensors' bytes, in the file

  const TensorInfo* Find(std::string_view name) const;  // null if there is none
};

std::string ShapeText(std::span<const uint64_t> shape);  // "(3, 4)"

// Parses strictly: INVALID_ARGUMENT for everything that the format forbids (holes, overlap, a wrong
// end, a name twice, an unknown dtype, a header above kSafetensorsHeaderMax). `data_bytes` follow
// the header.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         uint64_t data_bytes);

// Writes a file from front to back. Shapes and names are known before the first byte, so the header
// comes first and nothing is ever rewritten; the checksum is computed as the bytes pass.
class SafetensorsWriter {
 public:
  // `tensors` are in the order in which their bytes will come, those of U8 last, since readers want
  // the others aligned. Create fills in begin and end.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      Files& files, const std::string& path, std::vector<TensorInfo> tensors,
      const std::map<std::string, std::string>& metadata);

  // Appends the next bytes of the tensors, in calls of any size.
  absl::Status Append(std::span<const float> values);
  absl::Status Append(std::string_view bytes);
  // Called after the last byte: syncs the file, but not its directory.
  absl::Status Finish();

  uint64_t bytes() const { return bytes_; }    // of the whole file so far
  uint32_t crc32c() const { return crc32c_; }  // of them

 private:
  SafetensorsWriter(std::unique_ptr<WriteFile> file, std::string path, uint64_t bytes_total);

  const std::unique_ptr<WriteFile> file_;
  const std::string path_;
  uint64_t bytes_total_;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

// Memory for elements in order: side by side, or `run` of them at each `stride` elements.
template <class T>
struct PlacedIn {
  template <class Memory>
  requires std::convertible_to<Memory&, std::span<T>> PlacedIn(
      Memory&& memory)  // NOLINT(google-explicit-constructor): as a span is made of it
      : PlacedIn(std::span<T>(memory).data(), std::span<T>(memory).size()) {}
  PlacedIn(T* to, uint64_t count) : PlacedIn(to, count, count, count) {}
  PlacedIn(T* to, uint64_t count, uint64_t run_elements, uint64_t stride_elements)
      : data(to), size(count), run(run_elements), stride(stride_elements) {}

  // Puts elements, of which `first` come before, where they belong, or takes them from there.
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
  uint64_t size;  // elements in all
  uint64_t run, stride;

 private:
  template <class Move>
  void ForRuns(uint64_t first, uint64_t all, const Move& move) const {
    for (uint64_t done = 0; done < all;) {
      const uint64_t at = first + done;
      const uint64_t count = std::min(all - done, run - at % run);
      move(data + at / run * stride + at % run, done, count);
      done += count;
    }
  }
};

// Memory for the bytes of a tensor, in order; empty for a tensor that is not wanted.
using BytesPlace = std::vector<PlacedIn<char>>;

// An open file with its header checked. Errors name the file.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(Files& files,
                                                               const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return file_->size(); }

  // Reads elements [begin, begin + out.size()) of a tensor of header().tensors. If it is not F32,
  // storage/tensor_numbers.h converts it.
  absl::Status ReadElements(const TensorInfo& tensor, uint64_t begin, std::span<float> out) const;

  // Reads the bytes [begin, begin + out.size()) of a tensor as they are.
  absl::Status ReadBytes(const TensorInfo& tensor, uint64_t begin, std::span<char> out) const;

  // Reads the whole file once, several ranges at a time, and returns the checksum of all its bytes.
  // `place` returns the memory of a tensor; it is called for each one in the order of the file
  // before anything is read. The memory may be used only if the checksum is right.
  absl::StatusOr<uint32_t> ReadAll(const std::function<BytesPlace(const TensorInfo&)>& place) const;

 private:
  SafetensorsFile(std::unique_ptr<ReadFile> file, std::string path, SafetensorsHeader header,
                  std::string head);

  const std::unique_ptr<ReadFile> file_;
  const std::string path_;
  const SafetensorsHeader header_;
  const std::string head_;  // the bytes before the tensors, as they were checked
};

}  // namespace paracord
