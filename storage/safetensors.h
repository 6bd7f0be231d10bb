// The safetensors format (github.com/huggingface/safetensors, README "Format"): a little-endian
// header length in 8 bytes, a JSON header, then the tensors' bytes without gaps. Used for
// checkpoints, exports and initial weights, so that Python reads and writes them. The writer takes
// float32 values (F32), and text and other bytes (U8), and computes a checksum of the whole file.
// What reads or writes a file blocks. Any thread may use functions and open files; a writer belongs
// to one thread.
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

// The longest header, in bytes, that the format's own library reads.
inline constexpr uint64_t kSafetensorsHeaderMax = 100000000;

struct TensorInfo {
  std::string name;
  std::string dtype = "F32";  // in the format's spelling
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
// unknown dtypes, deep nesting and too many values. `data_bytes`: how many follow the header.
// Leaves data_begin 0.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         uint64_t data_bytes);

// Writes a file from front to back in one pass, the header first: names and shapes are known in
// advance. Computes the checksum on the way.
class SafetensorsWriter {
 public:
  // `tensors` are in the order of their bytes, and their begin and end are ignored. U8 tensors must
  // come last, so that the others stay aligned. INVALID_ARGUMENT: a name stands twice, or the
  // tensors or the header are too large.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      Files& files, const std::string& path, std::vector<TensorInfo> tensors,
      const std::map<std::string, std::string>& metadata);

  // Append the next bytes of the tensors, in pieces of any size. INTERNAL: more bytes than the
  // header says.
  absl::Status Append(std::span<const float> values);
  absl::Status Append(std::string_view bytes);
  // Called after the last byte. Syncs the file, but not its directory. INTERNAL: fewer bytes than
  // the header says.
  absl::Status Finish();

  uint64_t bytes() const { return bytes_; }    // size of the file so far
  uint32_t crc32c() const { return crc32c_; }  // checksum of the file so far

 private:
  SafetensorsWriter(std::unique_ptr<WriteFile> file, std::string path, uint64_t bytes_total);

  const std::unique_ptr<WriteFile> file_;
  const std::string path_;
  uint64_t bytes_total_;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

// Memory for `size` elements in order: contiguous, or in runs of `run` elements, which begin
// `stride` elements apart. Only the first `kept` elements of each run have a place in the memory.
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

  // Copy elements, of which the first is number `first`, to (Put) or from (Take) this memory. Leave
  // out elements without a place.
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
  // F32 are converted (storage/tensor_numbers.h). OUT_OF_RANGE: the tensor has fewer elements.
  absl::Status ReadElements(const TensorInfo& tensor, uint64_t begin, std::span<float> out) const;

  // Reads the bytes [begin, begin + out.size()) of a tensor unchanged. OUT_OF_RANGE: it has fewer.
  absl::Status ReadBytes(const TensorInfo& tensor, uint64_t begin, std::span<char> out) const;

  // Reads the whole file once, several ranges in parallel, and returns its checksum. Calls `place`
  // for each tensor, in file order, before it reads. The memory is valid only if the checksum is
  // the expected one. INVALID_ARGUMENT: the memory for a tensor has another size than the tensor.
  absl::StatusOr<uint32_t> ReadAll(const std::function<BytesPlace(const TensorInfo&)>& place) const;

 private:
  SafetensorsFile(std::unique_ptr<ReadFile> file, std::string path, SafetensorsHeader header,
                  std::string head);

  const std::unique_ptr<ReadFile> file_;
  const std::string path_;
  const SafetensorsHeader header_;
  const std::string head_;  // the bytes before the tensors, as Open validated them
};

}  // namespace paracord
