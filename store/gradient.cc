#include "store/gradient.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/half_float.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "exchange/compression.h"
#include "exchange/encoding.h"
#include "store/block.h"

namespace paracord {
namespace {

static_assert(kFloatsAtOnce % kInt8Block == 0);
static_assert(kPartElements % kFloatsAtOnce == 0);

absl::Status WrongBytes(uint64_t bytes, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("a gradient of ", bytes, " bytes, it has ", expected));
}

template <class T>
void ReadAll(const absl::Cord& bytes, std::vector<T>& out) {
  CordReader<T> reader(bytes);
  out.resize(bytes.size() / sizeof(T));
  for (size_t done = 0; done < out.size();) {
    const size_t count = std::min(kFloatsAtOnce, out.size() - done);
    const std::span<T> buffer = std::span(out).subspan(done, count);
    const std::span<const T> read = reader.Next(buffer);
    if (read.data() != buffer.data()) std::ranges::copy(read, buffer.begin());
    done += count;
  }
}

}  // namespace

Gradient::Gradient(absl::Cord floats)
    : elements_(floats.size() / sizeof(float)), bytes_(std::move(floats)) {}

std::span<const float> Gradient::Flat() const {
  if (encoding_ != ENCODING_FLOAT32) return {};
  const absl::optional<absl::string_view> flat = bytes_.TryFlat();
  if (!flat.has_value() || reinterpret_cast<uintptr_t>(flat->data()) % alignof(float) != 0) {
    return {};
  }
  return {reinterpret_cast<const float*>(flat->data()), elements_};
}

absl::Status Gradient::CheckBytes(Encoding encoding, uint64_t elements, uint64_t bytes) {
  uint64_t expected = 0;
  switch (encoding) {
    case ENCODING_FLOAT32:
    case ENCODING_BF16:
    case ENCODING_F16:
      expected = elements * ElementBytes(encoding);
      break;
    case ENCODING_INT8:
      expected = Int8Bytes(elements);
      break;
    case ENCODING_TOP_K:
      if (bytes % kTopKEntryBytes == 0 && bytes / kTopKEntryBytes <= elements) {
        return absl::OkStatus();
      }
      return WrongBytes(bytes, absl::StrCat("8 for each of at most ", elements, " entries"));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("encoding ", static_cast<int>(encoding), " is not known"));
  }
  return bytes == expected ? absl::OkStatus() : WrongBytes(bytes, absl::StrCat(expected));
}

Gradient Gradient::Over(std::span<const float> floats) {
  const absl::string_view bytes(reinterpret_cast<const char*>(floats.data()), floats.size_bytes());
  return Gradient(absl::MakeCordFromExternal(bytes, [] {}));
}

absl::StatusOr<Gradient> Gradient::Read(Encoding encoding, uint64_t elements, absl::Cord bytes) {
  RETURN_IF_ERROR(CheckBytes(encoding, elements, bytes.size()));
  Gradient gradient;
  gradient.encoding_ = encoding;
  gradient.elements_ = elements;
  gradient.bytes_ = std::move(bytes);
  if (encoding == ENCODING_TOP_K) RETURN_IF_ERROR(gradient.ReadEntries());
  return gradient;
}

absl::Status Gradient::ReadEntries() {
  const uint64_t count = bytes_.size() / kTopKEntryBytes;
  const uint64_t index_bytes = count * sizeof(uint32_t);
  ReadAll(bytes_.Subcord(0, index_bytes), indices_);
  ReadAll(bytes_.Subcord(index_bytes, index_bytes), values_);
  bytes_.Clear();
  for (uint64_t i = 0; i < count; ++i) {
    if (indices_[i] >= elements_) {
      return absl::InvalidArgumentError(
          absl::StrCat("index ", indices_[i], " of a gradient of ", elements_, " elements"));
    }
    if (i > 0 && indices_[i] <= indices_[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("index ", indices_[i], " behind ", indices_[i - 1]));
    }
  }
  return absl::OkStatus();
}

Gradient::Entries Gradient::EntriesIn(uint64_t first, uint64_t count) const {
  const auto at = [&](uint64_t element) {
    return std::lower_bound(indices_.begin(), indices_.end(), element) - indices_.begin();
  };
  const auto begin = static_cast<size_t>(at(first));
  const auto size = static_cast<size_t>(at(first + count)) - begin;
  return {std::span(indices_).subspan(begin, size), std::span(values_).subspan(begin, size)};
}

absl::Cord Gradient::ScaleBytes(uint64_t first, uint64_t count) const {
  const uint64_t begin = first / kInt8Block;
  const uint64_t end = (first + count + kInt8Block - 1) / kInt8Block;
  return bytes_.Subcord(begin * sizeof(float), (end - begin) * sizeof(float));
}

bool Gradient::FiniteIn(uint64_t first, uint64_t count) const {
  switch (encoding_) {
    case ENCODING_BF16:
    case ENCODING_F16: {
      const absl::Cord bytes = bytes_.Subcord(first * sizeof(uint16_t), count * sizeof(uint16_t));
      CordReader<uint16_t> reader(bytes);
      std::array<uint16_t, kFloatsAtOnce> buffer;
      for (uint64_t done = 0; done < count; done += kFloatsAtOnce) {
        const size_t step = std::min<uint64_t>(kFloatsAtOnce, count - done);
        if (!AllFiniteHalf(reader.Next(std::span(buffer).first(step)),
                           encoding_ == ENCODING_BF16 ? kBf16Exponent : kF16Exponent)) {
          return false;
        }
      }
      return true;
    }
    case ENCODING_INT8: {
      std::vector<float> scales;
      ReadAll(ScaleBytes(first, count), scales);
      return std::ranges::all_of(scales, [](float scale) { return std::isfinite(scale * 128); });
    }
    default: {
      Reader reader(*this, first, count);
      std::array<float, kFloatsAtOnce> buffer;
      for (uint64_t done = 0; done < count; done += kFloatsAtOnce) {
        const size_t step = std::min<uint64_t>(kFloatsAtOnce, count - done);
        if (!AllFinite(reader.Next(std::span(buffer).first(step)))) return false;
      }
      return true;
    }
  }
}

bool Gradient::Finite() const {
  if (sparse()) return AllFinite(values_);
  std::atomic<bool> finite = true;
  const uint64_t parts = (elements_ + kPartElements - 1) / kPartElements;
  // Goes backwards: the end arrived last and is in the cache now, and the beginning then is when it
  // is applied.
  ParallelFor(parts, [&](size_t i) {
    const uint64_t first = (parts - 1 - i) * kPartElements;
    if (!FiniteIn(first, std::min(kPartElements, elements_ - first))) finite = false;
  });
  return finite;
}

uint64_t Gradient::FirstNotFinite() const {
  Reader reader(*this, 0, elements_);
  std::array<float, kFloatsAtOnce> buffer;
  for (uint64_t at = 0; at < elements_; at += kFloatsAtOnce) {
    const size_t count = std::min<uint64_t>(kFloatsAtOnce, elements_ - at);
    const std::span<const float> floats = reader.Next(std::span(buffer).first(count));
    const auto found = std::ranges::find_if_not(floats, [](float x) { return std::isfinite(x); });
    if (found != floats.end()) return at + static_cast<uint64_t>(found - floats.begin());
  }
  return 0;  // a worker on this host changed the bytes meanwhile
}

Gradient::Reader::Reader(const Gradient& gradient, uint64_t first, uint64_t count)
    : gradient_(gradient), at_(first) {
  switch (gradient.encoding_) {
    case ENCODING_BF16:
    case ENCODING_F16:
      bytes_ = gradient.bytes_.Subcord(first * sizeof(uint16_t), count * sizeof(uint16_t));
      halves_.emplace(bytes_);
      break;
    case ENCODING_INT8:
      scale_bytes_ = gradient.ScaleBytes(first, count);
      bytes_ = gradient.bytes_.Subcord(gradient.bytes_.size() - gradient.elements_ + first, count);
      scales_.emplace(scale_bytes_);
      int8s_.emplace(bytes_);
      break;
    case ENCODING_TOP_K:
      break;
    default:
      bytes_ = gradient.bytes_.Subcord(first * sizeof(float), count * sizeof(float));
      floats_.emplace(bytes_);
  }
}

std::span<const float> Gradient::Reader::Next(std::span<float> buffer) {
  const uint64_t first = at_;
  at_ += buffer.size();
  if (floats_.has_value()) return floats_->Next(buffer);
  if (halves_.has_value()) {
    std::array<uint16_t, kFloatsAtOnce> halves;
    const std::span<const uint16_t> in = halves_->Next(std::span(halves).first(buffer.size()));
    gradient_.encoding_ == ENCODING_BF16 ? Bf16ToFloats(in, buffer) : F16ToFloats(in, buffer);
  } else if (int8s_.has_value()) {
    std::array<float, kFloatsAtOnce / kInt8Block> scales;
    std::array<int8_t, kFloatsAtOnce> whole;
    const size_t blocks = (buffer.size() + kInt8Block - 1) / kInt8Block;
    const std::span<const float> of_blocks = scales_->Next(std::span(scales).first(blocks));
    DecodeInt8(of_blocks, int8s_->Next(std::span(whole).first(buffer.size())), buffer);
  } else {
    std::ranges::fill(buffer, 0.0f);
    const Entries entries = gradient_.EntriesIn(first, buffer.size());
    for (size_t i = 0; i < entries.indices.size(); ++i) {
      buffer[entries.indices[i] - first] = entries.values[i];
    }
  }
  return buffer;
}

}  // namespace paracord
