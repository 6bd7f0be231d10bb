// The header of an IDX file (http://yann.lecun.com/exdb/mnist): two zero bytes, the type of the
// elements, the number of axes, then the size of each, 32 bits, big-endian.
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "data/array.h"

namespace paracord {
namespace {

struct IdxType {
  unsigned char code;
  ElementType type;
};

constexpr std::array<IdxType, 6> kIdxTypes{{{0x08, ElementType::kU8},
                                            {0x09, ElementType::kI8},
                                            {0x0B, ElementType::kI16},
                                            {0x0C, ElementType::kI32},
                                            {0x0D, ElementType::kF32},
                                            {0x0E, ElementType::kF64}}};
constexpr int kAxesMax = 8;

}  // namespace

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream) {
  std::array<char, 4> magic{};
  RETURN_IF_ERROR(stream.Read(magic));
  const auto code = static_cast<unsigned char>(magic[2]);
  const int axes = static_cast<unsigned char>(magic[3]);
  const IdxType* type = nullptr;
  for (const IdxType& known : kIdxTypes) {
    if (known.code == code) type = &known;
  }
  if (magic[0] != 0 || magic[1] != 0 || type == nullptr || axes < 1 || axes > kAxesMax) {
    const std::string hint = FileKindHint(stream.beginning());
    return absl::InvalidArgumentError(absl::StrCat(
        stream.path(), ": is not an IDX file",
        hint.empty()
            ? absl::StrFormat(
                  ": it begins with %02x %02x %02x %02x", static_cast<unsigned char>(magic[0]),
                  static_cast<unsigned char>(magic[1]), code, static_cast<unsigned>(axes))
            : hint));
  }
  ArrayHeader header{type->type, /*big_endian=*/true, {}};
  for (int axis = 0; axis < axes; ++axis) {
    std::array<char, 4> bytes{};
    RETURN_IF_ERROR(stream.Read(bytes));
    uint64_t size = 0;
    for (const char byte : bytes) size = size << 8 | static_cast<unsigned char>(byte);
    header.shape.push_back(size);
  }
  return header;
}

}  // namespace paracord
