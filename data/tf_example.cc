#include "data/tf_example.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// Of protobuf's encoding: a field is a varint tag, number << 3 | wire type, and a value.
constexpr int kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5;
constexpr int64_t kExactMax = 1 << 24;  // integers beyond skip values in float32

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("is not a tf.train.Example: ", what));
}

// Reads the fields of one message front to back.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }

  struct Field {
    int number = 0, wire = 0;
    uint64_t value = 0;      // kVarint
    std::string_view bytes;  // the others
  };

  absl::StatusOr<Field> Next() {
    ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    Field field{static_cast<int>(tag >> 3 & 0x1fffffff), static_cast<int>(tag & 7), 0, {}};
    if (field.wire == kVarint) {
      ASSIGN_OR_RETURN(field.value, Varint());
      return field;
    }
    uint64_t size = 8;
    if (field.wire == kLength) {
      ASSIGN_OR_RETURN(size, Varint());
    } else if (field.wire == kFixed32) {
      size = 4;
    } else if (field.wire != kFixed64) {
      return Malformed(absl::StrCat("a field of wire type ", field.wire));
    }
    if (size > bytes_.size()) {
      return Malformed(
          absl::StrCat("a field of ", size, " bytes where ", bytes_.size(), " are left"));
    }
    field.bytes = bytes_.substr(0, static_cast<size_t>(size));
    bytes_.remove_prefix(static_cast<size_t>(size));
    return field;
  }

  absl::StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return Malformed("it ends inside a number");
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Malformed("a number has more than 64 bits");
  }

 private:
  std::string_view bytes_;
};

absl::Status WrongCount(size_t count, size_t wanted) {
  return absl::InvalidArgumentError(absl::StrCat("has ", count, " values instead of ", wanted));
}

// Collects numbers, however many come.
class Sink {
 public:
  explicit Sink(std::span<float> out) : out_(out) {}

  void Float(std::string_view bytes) { Put(LoadRaw<float>(bytes)); }
  void Int(uint64_t bits) {
    const auto value = static_cast<int64_t>(bits);
    if (value > kExactMax || value < -kExactMax) inexact_ = true;
    Put(static_cast<float>(value));
  }
  absl::Status Result() const {
    if (count_ != out_.size()) return WrongCount(count_, out_.size());
    if (inexact_) {
      return absl::InvalidArgumentError(
          "holds a whole number beyond 2^24, which float32 cannot tell apart");
    }
    return absl::OkStatus();
  }

 private:
  void Put(float value) {
    if (count_ < out_.size()) out_[count_] = value;
    ++count_;
  }
  std::span<float> out_;
  size_t count_ = 0;
  bool inexact_ = false;
};

// The same as text.
class TextSink {
 public:
  explicit TextSink(std::span<std::string> out) : out_(out) {}

  void Int(uint64_t bits) { Text(std::to_string(static_cast<int64_t>(bits))); }
  void Text(std::string_view text) {
    if (count_ < out_.size()) out_[count_].assign(text);
    ++count_;
  }
  absl::Status Result() const {
    return count_ == out_.size() ? absl::OkStatus() : WrongCount(count_, out_.size());
  }

 private:
  std::span<std::string> out_;
  size_t count_ = 0;
};

absl::Status ReadFloats(const Fields::Field& field, Sink& sink) {
  if (field.wire != kLength && field.wire != kFixed32) return Malformed("a float of another type");
  if (field.bytes.size() % sizeof(float) != 0) return Malformed("half a float");
  for (size_t at = 0; at < field.bytes.size(); at += sizeof(float)) {
    sink.Float(field.bytes.substr(at));
  }
  return absl::OkStatus();
}

template <class AnySink>
absl::Status ReadInts(const Fields::Field& field, AnySink& sink) {
  if (field.wire == kVarint) {
    sink.Int(field.value);
    return absl::OkStatus();
  }
  if (field.wire != kLength) return Malformed("an integer of another type");
  Fields packed(field.bytes);
  while (!packed.done()) {
    ASSIGN_OR_RETURN(const uint64_t value, packed.Varint());
    sink.Int(value);
  }
  return absl::OkStatus();
}

// message Feature { oneof kind { BytesList 1; FloatList 2; Int64List 3; } }
absl::Status ParseFeature(std::string_view bytes, ExampleFeature& out) {
  Fields fields(bytes);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.wire != kLength || field.number < 1 || field.number > 3) continue;
    out.kind = static_cast<ExampleFeature::Kind>(field.number);
    out.list = field.bytes;
  }
  return absl::OkStatus();
}

// message Features { map<string, Feature> feature = 1; }
absl::Status ParseFeatures(std::string_view bytes, std::vector<ExampleFeature>& out) {
  Fields fields(bytes);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field entry, fields.Next());
    if (entry.number != 1 || entry.wire != kLength) continue;
    ExampleFeature feature;
    Fields pair(entry.bytes);
    while (!pair.done()) {
      ASSIGN_OR_RETURN(const Fields::Field field, pair.Next());
      if (field.wire != kLength) continue;
      if (field.number == 1) feature.name = field.bytes;
      if (field.number == 2) RETURN_IF_ERROR(ParseFeature(field.bytes, feature));
    }
    out.push_back(feature);
  }
  return absl::OkStatus();
}

void AppendField(std::string& out, int number, std::string_view bytes) {
  AppendVarint(static_cast<uint64_t>(number) << 3 | kLength, out);
  AppendVarint(bytes.size(), out);
  out.append(bytes);
}

}  // namespace

absl::Status ParseExample(std::string_view example, std::vector<ExampleFeature>& features) {
  features.clear();
  Fields fields(example);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.number != 1 || field.wire != kLength) continue;
    RETURN_IF_ERROR(ParseFeatures(field.bytes, features));
  }
  return absl::OkStatus();
}

absl::Status ReadNumbers(const ExampleFeature& feature, std::span<float> out) {
  const bool floats = feature.kind == ExampleFeature::Kind::kFloat;
  if (!floats && feature.kind != ExampleFeature::Kind::kInt64) {
    return absl::InvalidArgumentError(feature.kind == ExampleFeature::Kind::kBytes
                                          ? "holds bytes; say which dtype they are"
                                          : "holds no values");
  }
  Sink sink(out);
  Fields fields(feature.list);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.number != 1) continue;
    RETURN_IF_ERROR(floats ? ReadFloats(field, sink) : ReadInts(field, sink));
  }
  return sink.Result();
}

absl::Status ReadTexts(const ExampleFeature& feature, std::span<std::string> out) {
  const bool ints = feature.kind == ExampleFeature::Kind::kInt64;
  if (!ints && feature.kind != ExampleFeature::Kind::kBytes) {
    return absl::InvalidArgumentError("holds neither strings nor integers");
  }
  TextSink sink(out);
  Fields fields(feature.list);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.number != 1) continue;
    if (ints) {
      RETURN_IF_ERROR(ReadInts(field, sink));
    } else if (field.wire == kLength) {
      sink.Text(field.bytes);
    }
  }
  return sink.Result();
}

absl::StatusOr<std::string_view> ReadBytes(const ExampleFeature& feature) {
  if (feature.kind != ExampleFeature::Kind::kBytes) {
    return absl::InvalidArgumentError("holds no bytes");
  }
  std::string_view value;
  size_t count = 0;
  Fields fields(feature.list);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.number != 1 || field.wire != kLength) continue;
    value = field.bytes;
    ++count;
  }
  if (count == 1) return value;
  return absl::InvalidArgumentError(absl::StrCat("has ", count, " strings instead of one"));
}

void ExampleBuilder::Add(std::string_view name, int kind, const std::string& list) {
  std::string feature, entry;
  AppendField(feature, kind, list);
  AppendField(entry, 1, name);
  AppendField(entry, 2, feature);
  AppendField(features_, 1, entry);
}

void ExampleBuilder::Floats(std::string_view name, std::span<const float> values) {
  std::string list;
  AppendField(list, 1, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  Add(name, static_cast<int>(ExampleFeature::Kind::kFloat), list);
}

void ExampleBuilder::Ints(std::string_view name, std::span<const int64_t> values) {
  std::string packed, list;
  for (const int64_t value : values) AppendVarint(static_cast<uint64_t>(value), packed);
  AppendField(list, 1, packed);
  Add(name, static_cast<int>(ExampleFeature::Kind::kInt64), list);
}

void ExampleBuilder::Bytes(std::string_view name, std::string_view value) {
  std::string list;
  AppendField(list, 1, value);
  Add(name, static_cast<int>(ExampleFeature::Kind::kBytes), list);
}

void ExampleBuilder::Texts(std::string_view name, std::span<const std::string> values) {
  std::string list;
  for (const std::string& value : values) AppendField(list, 1, value);
  Add(name, static_cast<int>(ExampleFeature::Kind::kBytes), list);
}

std::string ExampleBuilder::Take() {
  std::string example;
  AppendField(example, 1, std::exchange(features_, {}));
  return example;
}

}  // namespace paracord
