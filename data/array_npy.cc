// The header of a .npy file, versions 1 to 3 (numpy/lib/format.py): magic, version, length, and a
// Python dict such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
#include <array>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "data/array.h"

namespace paracord {
namespace {

constexpr size_t kHeaderBytesMax = 1 << 16;
constexpr size_t kNpyAxesMax = 32;  // numpy's own limit
constexpr size_t kTextWidthMax = 1 << 20;

struct NpyType {
  std::string_view name;
  ElementType type;
};

// The types behind the byte order: "<f4", ">f4", "|u1".
constexpr std::array<NpyType, 12> kNpyTypes{{{"b1", ElementType::kU8},
                                             {"u1", ElementType::kU8},
                                             {"i1", ElementType::kI8},
                                             {"u2", ElementType::kU16},
                                             {"i2", ElementType::kI16},
                                             {"u4", ElementType::kU32},
                                             {"i4", ElementType::kI32},
                                             {"u8", ElementType::kU64},
                                             {"i8", ElementType::kI64},
                                             {"f2", ElementType::kF16},
                                             {"f4", ElementType::kF32},
                                             {"f8", ElementType::kF64}}};

// Parses the few Python forms written by numpy. Every method returns false at a mistake.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  bool Take(char c) {
    Skip();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool String(std::string& out) {
    Skip();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return true;
  }
  bool Bool(bool& out) {
    Skip();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(0, word.size()) != word) continue;
      text_.remove_prefix(word.size());
      out = value;
      return true;
    }
    return false;
  }
  bool Tuple(std::vector<uint64_t>& out) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      uint64_t value = 0;
      if (out.size() == kNpyAxesMax || !Number(value)) return false;
      out.push_back(value);
      if (Take(',')) continue;
      return Take(')');
    }
    return true;
  }
  bool AtEnd() {
    Skip();
    return text_.empty();
  }

 private:
  void Skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool Number(uint64_t& out) {
    Skip();
    size_t digits = 0;
    while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
      if (digits == 18) return false;  // beyond any file
      out = out * 10 + static_cast<uint64_t>(text_[digits] - '0');
      ++digits;
    }
    text_.remove_prefix(digits);
    return digits > 0;
  }

  std::string_view text_;
};

struct Dict {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

std::optional<Dict> ReadDict(std::string_view text) {
  DictReader reader(text);
  Dict dict;
  if (!reader.Take('{')) return std::nullopt;
  while (!reader.Take('}')) {
    std::string key;
    if (!reader.String(key) || !reader.Take(':')) return std::nullopt;
    bool good = false;
    if (key == "descr") {
      good = reader.String(dict.descr);
    } else if (key == "fortran_order") {
      good = reader.Bool(dict.fortran_order.emplace());
    } else if (key == "shape") {
      good = reader.Tuple(dict.shape.emplace());
    }
    if (!good) return std::nullopt;
    reader.Take(',');
  }
  if (!reader.AtEnd() || !dict.fortran_order || !dict.shape) return std::nullopt;
  return dict;
}

// The header of strings: "S12" are bytes, "U12" are code points.
std::optional<ArrayHeader> TextHeader(const Dict& dict, std::string_view type) {
  ArrayHeader header{ElementType::kU8, dict.descr[0] == '>', *dict.shape,
                     *dict.fortran_order && dict.shape->size() > 1};
  if (type.empty() || (type[0] != 'S' && type[0] != 'U')) return std::nullopt;
  if (!absl::SimpleAtoi({type.data() + 1, type.size() - 1}, &header.text_width)) {
    return std::nullopt;
  }
  header.text = type[0] == 'S' ? ArrayHeader::Text::kBytes : ArrayHeader::Text::kCodePoints;
  return header;
}

}  // namespace

absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(stream.path(), ": ", what));
  };
  std::array<char, 8> magic{};
  RETURN_IF_ERROR(stream.Read(magic));
  if (std::string_view(magic.data(), 6) != "\x93NUMPY") {
    return bad("is not a .npy file" + FileKindHint(stream.beginning()));
  }
  const int version = static_cast<unsigned char>(magic[6]);
  if (version < 1 || version > 3) {
    return bad(absl::StrCat("npy version ", version, " is not supported; supported: 1 to 3"));
  }
  std::array<char, 4> length_bytes{};
  RETURN_IF_ERROR(stream.Read(std::span(length_bytes).first(version == 1 ? 2 : 4)));
  size_t length = 0;
  for (size_t i = 4; i-- > 0;) length = length << 8 | static_cast<unsigned char>(length_bytes[i]);
  if (length > kHeaderBytesMax) return bad(absl::StrCat("has a header of ", length, " bytes"));
  std::string text(length, '\0');
  RETURN_IF_ERROR(stream.Read(text));
  const std::optional<Dict> dict = ReadDict(text);
  if (!dict.has_value()) {
    const bool fields = text.find("'descr': [") != std::string::npos;
    return bad(fields ? "holds records of several fields; save each field as an array of its own"
                      : "has a header that is not numpy's");
  }
  const bool ordered = !dict->descr.empty() &&
                       std::string_view("<>|=").find(dict->descr[0]) != std::string_view::npos;
  const std::string_view wanted = std::string_view(dict->descr).substr(ordered ? 1 : 0);
  if (const auto strings = TextHeader(*dict, wanted)) {
    if (strings->text_width > 0 && strings->text_width <= kTextWidthMax) return *strings;
    return bad(absl::StrCat("has strings of ", strings->text_width, " characters; 1 to ",
                            kTextWidthMax, " are supported"));
  }
  if (wanted == "O") {
    return bad(
        "holds objects of Python, which only Python reads; convert the array with astype(str) or "
        "to numbers");
  }
  std::string supported = "strings";
  for (const NpyType& known : kNpyTypes) {
    if (known.name == wanted) {
      return ArrayHeader{known.type, dict->descr[0] == '>', *dict->shape,
                         *dict->fortran_order && dict->shape->size() > 1};
    }
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", std::string(known.name));
  }
  return bad(
      absl::StrCat("elements of type ", dict->descr, " are not supported; supported: ", supported));
}

}  // namespace paracord
