#include "worker/data/array.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "worker/data/data_options.h"

namespace paracord {
namespace {

constexpr uint64_t kChunkElements = 64 << 10;
constexpr uint64_t kElementsMax = uint64_t{1} << 48;  // no file is larger: products stay exact
constexpr double kExactMax = 16777216;                // integers beyond 2^24 skip values in float32

size_t SizeOf(ElementType type) {
  switch (type) {
    case ElementType::kU8:
    case ElementType::kI8:
      return 1;
    case ElementType::kI16:
      return 2;
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kI64:
    case ElementType::kF64:
      return 8;
  }
  return 0;
}

static_assert(std::endian::native == std::endian::little);

template <class T>
T Load(const char* from, bool big_endian) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, from, sizeof(T));
  if (big_endian) std::reverse(bytes, bytes + sizeof(T));
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Appends elements as float32. The index of the first integer that float32 cannot hold, or -1.
template <class T>
int64_t AppendAs(std::span<const char> bytes, bool big_endian, std::vector<float>& out) {
  const size_t count = bytes.size() / sizeof(T);
  int64_t inexact = -1;
  for (size_t i = 0; i < count; ++i) {
    const T value = Load<T>(bytes.data() + i * sizeof(T), big_endian);
    if constexpr (std::is_integral_v<T>) {
      if (inexact < 0 && std::abs(static_cast<double>(value)) > kExactMax) {
        inexact = static_cast<int64_t>(i);
      }
    }
    out.push_back(static_cast<float>(value));
  }
  return inexact;
}

int64_t AppendFloats(ElementType type, std::span<const char> bytes, bool big_endian,
                     std::vector<float>& out) {
  switch (type) {
    case ElementType::kU8:
      return AppendAs<uint8_t>(bytes, big_endian, out);
    case ElementType::kI8:
      return AppendAs<int8_t>(bytes, big_endian, out);
    case ElementType::kI16:
      return AppendAs<int16_t>(bytes, big_endian, out);
    case ElementType::kI32:
      return AppendAs<int32_t>(bytes, big_endian, out);
    case ElementType::kI64:
      return AppendAs<int64_t>(bytes, big_endian, out);
    case ElementType::kF32:
      return AppendAs<float>(bytes, big_endian, out);
    case ElementType::kF64:
      return AppendAs<double>(bytes, big_endian, out);
  }
  return -1;
}

}  // namespace

void Array::Read(uint64_t record, float scale, float* out) const {
  const uint64_t first = record * record_size_;
  if (is_bytes_) {
    const uint8_t* from = bytes_.data() + first;
    for (uint64_t i = 0; i < record_size_; ++i) out[i] = scale * static_cast<float>(from[i]);
  } else {
    const float* from = floats_.data() + first;
    for (uint64_t i = 0; i < record_size_; ++i) out[i] = scale * from[i];
  }
}

std::string Array::Where(uint64_t record) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), record,
                       [](uint64_t at, const Part& part) { return at < part.first_record; });
  if (after == parts_.begin()) return absl::StrCat("record ", record);
  const Part& part = *(after - 1);
  return absl::StrCat(part.path, " row ", record - part.first_record);
}

absl::Status Array::CheckHeader(const ArrayHeader& header, const std::string& path) const {
  const std::vector<uint64_t> shape(header.shape.begin() + 1, header.shape.end());
  if (!parts_.empty() && shape != shape_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": records of shape (", absl::StrJoin(shape, ", "), "), but those of ",
                     parts_.front().path, " are (", absl::StrJoin(shape_, ", "), ")"));
  }
  if (!parts_.empty() && is_bytes_ != (header.type == ElementType::kU8)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": elements of another type than those of ", parts_.front().path));
  }
  uint64_t elements = 1;
  for (const uint64_t dim : header.shape) {
    if (dim != 0 && elements > kElementsMax / dim) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": its header announces (", absl::StrJoin(header.shape, ", "), ") elements"));
    }
    elements *= dim;
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": its records are empty"));
  }
  return absl::OkStatus();
}

absl::Status Array::Convert(const ArrayHeader& header, std::span<const char> bytes,
                            const std::string& path, uint64_t first_element) {
  if (is_bytes_) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  const int64_t inexact = AppendFloats(header.type, bytes, header.big_endian, floats_);
  if (inexact < 0) return absl::OkStatus();
  const uint64_t element = first_element + static_cast<uint64_t>(inexact);
  return absl::InvalidArgumentError(
      absl::StrCat(path, " row ", element / record_size_,
                   ": holds a whole number beyond 2^24, which float32 cannot tell apart"));
}

absl::Status Array::Append(const ArrayHeader& header, ByteStream& stream) {
  if (header.shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(stream.path(), ": has no axis of records"));
  }
  RETURN_IF_ERROR(CheckHeader(header, stream.path()));
  if (parts_.empty()) {
    shape_.assign(header.shape.begin() + 1, header.shape.end());
    for (const uint64_t dim : shape_) record_size_ *= dim;
    is_bytes_ = header.type == ElementType::kU8;
  }
  const uint64_t elements = header.shape[0] * record_size_;
  const size_t size = SizeOf(header.type);
  const uint64_t begin = stream.position();
  uint32_t crc = 0;
  std::vector<char> chunk;
  for (uint64_t at = 0; at < elements; at += kChunkElements) {
    chunk.resize(static_cast<size_t>(std::min(elements - at, kChunkElements)) * size);
    const absl::Status read = stream.Read(chunk);
    if (!read.ok()) {
      const uint64_t whole = (stream.position() - begin) / (record_size_ * size);
      return absl::Status(read.code(), absl::StrCat(read.message(), "; row ", whole,
                                                    " is the first one missing of the ",
                                                    header.shape[0], " that its header announces"));
    }
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(chunk.data()),
                      static_cast<int>(chunk.size()), crc);
    RETURN_IF_ERROR(Convert(header, chunk, stream.path(), at));
  }
  RETURN_IF_ERROR(stream.ExpectEnd());
  parts_.push_back({stream.path(), records_});
  records_ += header.shape[0];
  fingerprint_ = Mix64(Mix64(Mix64(fingerprint_, stream.position()), header.shape[0]), crc);
  return absl::OkStatus();
}

absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header) {
  Array array;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, patterns));
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, ByteStream::Open(files, path));
    ASSIGN_OR_RETURN(const ArrayHeader header, read_header(*stream));
    RETURN_IF_ERROR(array.Append(header, *stream));
  }
  return array;
}

}  // namespace paracord
