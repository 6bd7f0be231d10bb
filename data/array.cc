#include "data/array.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/human_bytes.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "data/data_options.h"

namespace paracord {
namespace {

constexpr uint64_t kChunkElements = 64 << 10, kChunkBytes = 1 << 20;
constexpr uint64_t kElementsMax = uint64_t{1} << 48;  // no file is larger: products stay exact

// Reorders elements from column-major (the first axis runs fastest) to row-major order.
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

// Reorders the large whole numbers like the elements: values stay, element indices change.
void ToRowMajor(const std::vector<uint64_t>& shape, std::vector<ExactInteger>& exact) {
  for (ExactInteger& each : exact) {
    size_t from = each.element, to = 0;
    std::vector<size_t> at;
    for (const uint64_t dim : shape) {
      at.push_back(from % dim);
      from /= dim;
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) to = to * shape[axis] + at[axis];
    each.element = to;
  }
  std::ranges::sort(exact, {}, &ExactInteger::element);
}

// Appends the strings as UTF-8; invalid bytes are appended unchanged, for ReadTexts to report.
void AppendTexts(const ArrayHeader& header, std::span<const char> bytes,
                 std::vector<std::string>& out) {
  const size_t each = header.element_bytes();
  for (size_t at = 0; at + each <= bytes.size(); at += each) {
    const std::span<const char> element = bytes.subspan(at, each);
    std::string& text = out.emplace_back();
    if (header.text == ArrayHeader::Text::kBytes) {
      text.assign(element.begin(), element.end());
    } else {
      for (size_t i = 0; i + 4 <= each; i += 4) {
        uint32_t code = 0;
        for (size_t b = 0; b < 4; ++b) {
          const auto byte =
              static_cast<unsigned char>(element[i + (header.big_endian ? b : 3 - b)]);
          code = code << 8 | byte;
        }
        AppendUtf8(code, text);
      }
    }
    text.resize(text.find_last_not_of('\0') + 1);
  }
}

// The bytes of an element, in the file and as a string in memory.
size_t SizeFor(const ArrayHeader& header) {
  const bool strings = header.text != ArrayHeader::Text::kNone;
  return header.element_bytes() + (strings ? sizeof(std::string) : 0);
}

}  // namespace

const Array::OneFile& Array::FileOf(uint64_t record) const {
  const auto after =
      std::upper_bound(by_file_.begin(), by_file_.end(), record,
                       [](uint64_t at, const OneFile& one) { return at < one.first_record; });
  return *(after - 1);
}

absl::Status Array::Read(uint64_t record, float scale, float* out, size_t to,
                         std::vector<ExactInteger>& exact) const {
  const OneFile& one = FileOf(record);
  const uint64_t first = (record - one.first_record) * record_size_;
  const auto size = static_cast<size_t>(record_size_);
  if (!one.bytes.empty()) {
    const uint8_t* from = one.bytes.data() + first;
    for (size_t i = 0; i < size; ++i) out[i] = scale * static_cast<float>(from[i]);
    return absl::OkStatus();
  }
  if (!one.integers.empty()) {
    for (size_t i = 0; i < size; ++i) {
      const int64_t value = one.integers.at(static_cast<size_t>(first) + i);
      out[i] = scale * IntegerToFloat(one.header.type, value);
      if (scale == 1) KeepInteger(one.header.type, to + i, value, exact);
    }
    return absl::OkStatus();
  }
  if (one.file == nullptr) {
    const float* from = one.floats.data() + first;
    for (size_t i = 0; i < size; ++i) out[i] = scale * from[i];
    if (one.exact.empty() || scale != 1) return absl::OkStatus();
    auto each = std::ranges::lower_bound(one.exact, first, {}, &ExactInteger::element);
    for (; each != one.exact.end() && each->element < first + size; ++each) {
      exact.push_back({to + static_cast<size_t>(each->element - first), each->value});
    }
    return absl::OkStatus();
  }
  std::vector<char> raw(size * ElementSize(one.header.type));
  RETURN_IF_ERROR(
      one.file->ReadAt(one.file_offset + first * ElementSize(one.header.type), std::span(raw)));
  std::vector<float> values;
  values.reserve(size);
  std::vector<ExactInteger> large;
  AppendElements(one.header.type, raw, one.header.big_endian, values, large);
  for (size_t i = 0; i < size; ++i) out[i] = scale * values[i];
  if (scale != 1) return absl::OkStatus();
  for (const ExactInteger& each : large) exact.push_back({to + each.element, each.value});
  return absl::OkStatus();
}

absl::Status Array::ReadTexts(uint64_t record, std::string* out) const {
  const OneFile& one = FileOf(record);
  const auto first = static_cast<size_t>((record - one.first_record) * record_size_);
  const auto size = static_cast<size_t>(record_size_);
  std::vector<std::string> read;
  std::span<const std::string> texts(one.texts);
  if (one.file == nullptr) {
    texts = texts.subspan(first, size);
  } else {
    const size_t each = one.header.element_bytes();
    std::vector<char> raw(size * each);
    RETURN_IF_ERROR(one.file->ReadAt(one.file_offset + first * each, std::span(raw)));
    AppendTexts(one.header, raw, read);
    texts = read;
  }
  for (const std::string& text : texts) {
    if (Utf8Prefix(text) != text.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          Where(record), ": ", Quoted(text), " is not UTF-8; save the strings as numpy's str"));
    }
    *out++ = text;
  }
  return absl::OkStatus();
}

std::string Array::Where(uint64_t record) const {
  if (by_file_.empty()) return absl::StrCat("record ", record);
  const OneFile& one = FileOf(record);
  return absl::StrCat(one.path, " row ", record - one.first_record);
}

absl::Status Array::CheckHeader(const ArrayHeader& header, const std::string& path) const {
  const std::vector<uint64_t> shape(header.shape.begin() + 1, header.shape.end());
  if (!by_file_.empty() && shape != shape_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": records of shape (", absl::StrJoin(shape, ", "), "), but those of ",
                     by_file_.front().path, " are (", absl::StrJoin(shape_, ", "), ")"));
  }
  if (!by_file_.empty() && (header.is_bytes() != by_file_.front().header.is_bytes() ||
                            (header.text != ArrayHeader::Text::kNone) != text())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": elements of another type than those of ", by_file_.front().path));
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

// Reads elements and returns their checksum; elements left on disk are only read through.
absl::StatusOr<uint32_t> Array::TakeElements(OneFile& one, uint64_t elements,
                                             ByteStream& stream) const {
  const ArrayHeader& header = one.header;
  const size_t size = header.element_bytes();
  const uint64_t begin = stream.position();
  uint32_t crc = 0;
  std::vector<char> chunk;
  const uint64_t at_once = std::clamp<uint64_t>(kChunkBytes / size, 1, kChunkElements);
  for (uint64_t at = 0; at < elements; at += at_once) {
    chunk.resize(static_cast<size_t>(std::min(elements - at, at_once)) * size);
    const absl::Status read = stream.Read(chunk);
    if (!read.ok()) {
      const uint64_t read_bytes = stream.position() - begin;
      const uint64_t whole = header.fortran_order ? 0 : read_bytes / (record_size_ * size);
      return absl::Status(read.code(),
                          absl::StrCat(read.message(), "; its header announces ",
                                       begin + elements * size, " bytes, and row ", whole,
                                       " is the first one missing of the ", header.shape[0]));
    }
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(chunk.data()),
                      static_cast<int>(chunk.size()), crc);
    if (one.file_offset != 0) continue;
    if (header.text != ArrayHeader::Text::kNone) {
      AppendTexts(header, chunk, one.texts);
    } else if (header.is_bytes()) {
      one.bytes.insert(one.bytes.end(), chunk.begin(), chunk.end());
    } else if (header.is_integers()) {
      one.integers.Append(header.type, chunk, header.big_endian);
    } else {
      AppendElements(header.type, chunk, header.big_endian, one.floats, one.exact);
    }
  }
  return crc;
}

// Decides whether to hold the following elements in memory, and reserves the memory.
absl::StatusOr<bool> Array::IsHeld(const ArrayHeader& header, uint64_t elements,
                                   const ByteStream& stream) const {
  const uint64_t held_max = header.fortran_order ? kHeldBytesMax : held_max_;
  const bool large = !stream.packed() && elements > held_max / SizeFor(header);
  if (large && header.fortran_order) {
    return absl::InvalidArgumentError(
        absl::StrCat(stream.path(), ": is beyond ", held_max,
                     " bytes and in Fortran order, which has to be held; save it in C order"));
  }
  if (large || memory_ == nullptr) return !large;
  uint64_t each = SizeFor(header);
  if (header.text == ArrayHeader::Text::kNone) {
    each = header.is_bytes() ? 1 : header.is_integers() ? sizeof(int64_t) : sizeof(float);
  }
  if (header.fortran_order) each *= 2;  // reordering needs a copy
  const uint64_t bytes =
      elements > MemoryShare::kUnlimited / each ? MemoryShare::kUnlimited : elements * each;
  if (memory_->Reserve(bytes)) return true;
  if (!stream.packed() && !header.fortran_order) return false;
  return absl::InvalidArgumentError(
      absl::StrCat(stream.path(), ": its ", header.shape[0], " records take ", HumanBytes(bytes),
                   " in memory, and --memory-limit leaves ",
                   HumanBytes(memory_->bytes_max() - static_cast<uint64_t>(memory_->bytes())),
                   " for data; raise the limit, or save the array ",
                   stream.packed() ? "unpacked (numpy.savez or numpy.save)" : "in C order",
                   ", so that it stays on disk"));
}

absl::Status Array::Append(const ArrayHeader& header, ByteStream& stream) {
  if (header.shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(stream.path(), ": has no axis of records"));
  }
  RETURN_IF_ERROR(CheckHeader(header, stream.path()));
  if (by_file_.empty()) {
    shape_.assign(header.shape.begin() + 1, header.shape.end());
    for (const uint64_t dim : shape_) record_size_ *= dim;
  }
  const uint64_t elements = header.shape[0] * record_size_;
  const bool strings = header.text != ArrayHeader::Text::kNone;
  const size_t size = SizeFor(header);
  OneFile one{stream.path(), records_, header, {}, {}, {}, {}, {}, nullptr, 0};
  ASSIGN_OR_RETURN(const bool in_memory, IsHeld(header, elements, stream));
  // An offset of 0 says "in memory", which is unambiguous since no header is empty.
  if (!in_memory) one.file_offset = stream.file_position();
  // All memory is reserved at once: what a growing vector gives back stays with the process.
  // Nothing is reserved for a header that promises more than the file can hold.
  if (one.file_offset == 0 && elements <= std::min(kHeldBytesMax, stream.left_max()) / size) {
    const auto count = static_cast<size_t>(elements);
    if (strings) {
      one.texts.reserve(count);
    } else if (header.is_integers()) {
      one.integers.Reserve(count);
    } else {
      header.is_bytes() ? one.bytes.reserve(count) : one.floats.reserve(count);
    }
  }
  ASSIGN_OR_RETURN(const uint32_t crc, TakeElements(one, elements, stream));
  RETURN_IF_ERROR(stream.ExpectEnd());
  if (header.fortran_order) {
    ToRowMajor(header.shape, one.bytes);
    one.integers.Permute([&](auto& held) { ToRowMajor(header.shape, held); });
    ToRowMajor(header.shape, one.floats);
    ToRowMajor(header.shape, one.exact);
    ToRowMajor(header.shape, one.texts);
  }
  fingerprint_ = Mix64(Mix64(Mix64(fingerprint_, stream.position()), header.shape[0]), crc);
  if (one.file_offset != 0) one.file = stream.TakeFile();
  by_file_.push_back(std::move(one));
  records_ += header.shape[0];
  return absl::OkStatus();
}

absl::Status HeaderCount::Add(ReadArrayHeader read_header, ByteStream& stream) {
  ASSIGN_OR_RETURN(const ArrayHeader header, read_header(stream));
  uint64_t bytes = header.element_bytes();
  for (const uint64_t dim : header.shape) {
    bytes = dim != 0 && bytes > kElementsMax / dim ? kElementsMax : bytes * dim;
  }
  const bool whole = !header.shape.empty() && bytes <= stream.left_max();
  const std::vector<uint64_t> shape(header.shape.begin() + (whole ? 1 : 0), header.shape.end());
  if (!whole || (shape_.has_value() && *shape_ != shape)) records_.reset();
  shape_ = shape;
  if (records_.has_value()) *records_ += header.shape[0];
  return absl::OkStatus();
}

absl::StatusOr<HeaderCount> CountRecords(Files& files, const std::vector<std::string>& patterns,
                                         ReadArrayHeader read_header) {
  HeaderCount count;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, patterns));
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, ByteStream::Open(files, path));
    RETURN_IF_ERROR(count.Add(read_header, *stream));
  }
  return count;
}

absl::StatusOr<Array> ReadArray(Files& files, const std::vector<std::string>& patterns,
                                ReadArrayHeader read_header, const DataSpec& spec) {
  Array array(spec.held_bytes_max, spec.memory);
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, patterns));
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, ByteStream::Open(files, path));
    ASSIGN_OR_RETURN(const ArrayHeader header, read_header(*stream));
    RETURN_IF_ERROR(array.Append(header, *stream));
  }
  return array;
}

}  // namespace paracord
