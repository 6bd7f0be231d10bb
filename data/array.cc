#include "data/array.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/half_float.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "data/data_options.h"

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
    case ElementType::kU16:
    case ElementType::kI16:
    case ElementType::kF16:
      return 2;
    case ElementType::kU32:
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kU64:
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

// Elements whose first axis runs fastest, into the order in which the last one does.
template <class T>
void ToRowMajor(const std::vector<uint64_t>& shape, std::vector<T>& elements) {
  std::vector<T> moved;
  moved.reserve(elements.size());
  std::vector<uint64_t> steps(shape.size(), 1), at(shape.size(), 0);
  for (size_t i = 1; i < shape.size(); ++i) steps[i] = steps[i - 1] * shape[i - 1];
  uint64_t from = 0;
  while (moved.size() < elements.size()) {
    moved.push_back(elements[from]);
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += steps[axis];
      if (++at[axis] < shape[axis]) break;
      from -= steps[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  elements = std::move(moved);
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
    case ElementType::kU16:
      return AppendAs<uint16_t>(bytes, big_endian, out);
    case ElementType::kI16:
      return AppendAs<int16_t>(bytes, big_endian, out);
    case ElementType::kU32:
      return AppendAs<uint32_t>(bytes, big_endian, out);
    case ElementType::kU64:
      return AppendAs<uint64_t>(bytes, big_endian, out);
    case ElementType::kF16:
      for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
        const auto half = Load<uint16_t>(bytes.data() + i, big_endian);
        F16ToFloats({&half, 1}, {&out.emplace_back(), 1});
      }
      return -1;
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

const Array::Part& Array::PartOf(uint64_t record) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), record,
                       [](uint64_t at, const Part& part) { return at < part.first_record; });
  return *(after - 1);
}

absl::Status Array::Read(uint64_t record, float scale, float* out) const {
  const Part& part = PartOf(record);
  const uint64_t first = (record - part.first_record) * record_size_;
  const auto size = static_cast<size_t>(record_size_);
  if (!part.bytes.empty()) {
    const uint8_t* from = part.bytes.data() + first;
    for (size_t i = 0; i < size; ++i) out[i] = scale * static_cast<float>(from[i]);
    return absl::OkStatus();
  }
  if (part.file == nullptr) {
    const float* from = part.floats.data() + first;
    for (size_t i = 0; i < size; ++i) out[i] = scale * from[i];
    return absl::OkStatus();
  }
  std::vector<char> raw(size * SizeOf(part.header.type));
  RETURN_IF_ERROR(
      part.file->ReadAt(part.file_offset + first * SizeOf(part.header.type), std::span(raw)));
  std::vector<float> values;
  values.reserve(size);
  AppendFloats(part.header.type, raw, part.header.big_endian, values);
  for (size_t i = 0; i < size; ++i) out[i] = scale * values[i];
  return absl::OkStatus();
}

std::string Array::Where(uint64_t record) const {
  if (parts_.empty()) return absl::StrCat("record ", record);
  const Part& part = PartOf(record);
  return absl::StrCat(part.path, " row ", record - part.first_record);
}

absl::Status Array::CheckHeader(const ArrayHeader& header, const std::string& path) const {
  const std::vector<uint64_t> shape(header.shape.begin() + 1, header.shape.end());
  if (!parts_.empty() && shape != shape_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": records of shape (", absl::StrJoin(shape, ", "), "), but those of ",
                     parts_.front().path, " are (", absl::StrJoin(shape_, ", "), ")"));
  }
  const auto is_bytes = [](const ArrayHeader& each) { return each.type == ElementType::kU8; };
  if (!parts_.empty() && is_bytes(header) != is_bytes(parts_.front().header)) {
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

absl::Status Array::Convert(Part& part, std::span<const char> bytes, uint64_t first_element) const {
  const ElementType type = part.header.type;
  const bool on_disk = part.file_offset != 0;
  if (type == ElementType::kU8) {
    if (!on_disk) part.bytes.insert(part.bytes.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  const int64_t inexact = AppendFloats(type, bytes, part.header.big_endian, part.floats);
  if (on_disk) part.floats.clear();
  if (inexact < 0) return absl::OkStatus();
  const uint64_t element = first_element + static_cast<uint64_t>(inexact);
  const ArrayHeader& header = part.header;
  const uint64_t row = header.fortran_order ? element % header.shape[0] : element / record_size_;
  return absl::InvalidArgumentError(
      absl::StrCat(part.path, " row ", row,
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
  }
  const uint64_t elements = header.shape[0] * record_size_;
  const size_t size = SizeOf(header.type);
  const uint64_t begin = stream.position();
  Part part{stream.path(), records_, header, {}, {}, nullptr, 0};
  // No header is empty, so that an offset of 0 says "in memory".
  if (!stream.packed() && elements > held_max_ / size) part.file_offset = stream.file_position();
  if (part.file_offset != 0 && header.fortran_order) {
    return absl::InvalidArgumentError(
        absl::StrCat(stream.path(), ": is beyond ", held_max_,
                     " bytes and in Fortran order, which has to be held; save it in C order"));
  }
  // At once, or what it grows through stays with the process. A header that lies gets nothing.
  if (part.file_offset == 0 && elements <= std::min(held_max_, stream.left_max()) / size) {
    const auto count = static_cast<size_t>(elements);
    header.type == ElementType::kU8 ? part.bytes.reserve(count) : part.floats.reserve(count);
  }
  uint32_t crc = 0;
  std::vector<char> chunk;
  for (uint64_t at = 0; at < elements; at += kChunkElements) {
    chunk.resize(static_cast<size_t>(std::min(elements - at, kChunkElements)) * size);
    const absl::Status read = stream.Read(chunk);
    if (!read.ok()) {
      const uint64_t read_bytes = stream.position() - begin;
      const uint64_t whole = header.fortran_order ? 0 : read_bytes / (record_size_ * size);
      return absl::Status(read.code(), absl::StrCat(read.message(), "; row ", whole,
                                                    " is the first one missing of the ",
                                                    header.shape[0], " that its header announces"));
    }
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(chunk.data()),
                      static_cast<int>(chunk.size()), crc);
    RETURN_IF_ERROR(Convert(part, chunk, at));
  }
  RETURN_IF_ERROR(stream.ExpectEnd());
  if (header.fortran_order) {
    ToRowMajor(header.shape, part.bytes);
    ToRowMajor(header.shape, part.floats);
  }
  fingerprint_ = Mix64(Mix64(Mix64(fingerprint_, stream.position()), header.shape[0]), crc);
  if (part.file_offset != 0) part.file = stream.TakeFile();
  parts_.push_back(std::move(part));
  records_ += header.shape[0];
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
