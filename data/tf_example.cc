#include "data/tf_example.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// The wire types of protobuf's encoding; a field is a varint tag, number << 3 | wire type, and a
// value.
constexpr int kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5;

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("is not a tf.train.Example: ", what));
}

// Reads the fields of a message in order.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }

  struct Field {
    int number = 0, wire = 0;
    uint64_t value = 0;      // kVarint
    std::string_view bytes;  // value of the length-delimited and fixed types
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

// Takes the numbers of a list: counts all, and writes those that fit.
class Sink {
 public:
  Sink(std::span<float> out, size_t first, std::vector<ExactInteger>& exact)
      : out_(out), first_(first), exact_(exact) {}

  void Float(std::string_view bytes) { Put(LoadRaw<float>(bytes)); }
  void Int(uint64_t bits) {
    const auto value = static_cast<int64_t>(bits);
    if (count_ < out_.size()) KeepExact(first_ + count_, value, exact_);
    Put(static_cast<float>(value));
  }
  size_t count() const { return count_; }

 private:
  void Put(float value) {
    if (count_ < out_.size()) out_[count_] = value;
    ++count_;
  }
  std::span<float> out_;
  const size_t first_;
  std::vector<ExactInteger>& exact_;
  size_t count_ = 0;
};

// Takes the strings of a list, or its integers as decimal text.
class TextSink {
 public:
  explicit TextSink(std::vector<std::string>& out) : out_(out) {}

  void Int(uint64_t bits) { Text(std::to_string(static_cast<int64_t>(bits))); }
  void Text(std::string_view text) { out_.emplace_back(text); }

 private:
  std::vector<std::string>& out_;
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

// message FeatureList { repeated Feature feature = 1; }; concatenates the lists.
absl::Status ParseFeatureList(std::string_view bytes, ExampleFeature& out) {
  out.joined = std::make_unique<std::string>();
  Fields fields(bytes);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.number != 1 || field.wire != kLength) continue;
    ExampleFeature step;
    RETURN_IF_ERROR(ParseFeature(field.bytes, step));
    if (step.kind == ExampleFeature::Kind::kNone) continue;
    if (out.kind != ExampleFeature::Kind::kNone && out.kind != step.kind) {
      return Malformed("the steps of a feature list are of several types");
    }
    out.kind = step.kind;
    out.joined->append(step.list);
  }
  out.list = *out.joined;
  return absl::OkStatus();
}

// message Features { map<string, Feature> feature = 1; }
// message FeatureLists { map<string, FeatureList> feature_list = 1; }
// `parse` is ParseFeature or ParseFeatureList.
absl::Status ParseFeatures(std::string_view bytes,
                           absl::Status (*parse)(std::string_view, ExampleFeature&),
                           std::vector<ExampleFeature>& out) {
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
      if (field.number == 2) RETURN_IF_ERROR(parse(field.bytes, feature));
    }
    out.push_back(std::move(feature));
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
    if (field.wire != kLength) continue;
    if (field.number == 1) RETURN_IF_ERROR(ParseFeatures(field.bytes, ParseFeature, features));
    if (field.number == 2) RETURN_IF_ERROR(ParseFeatures(field.bytes, ParseFeatureList, features));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ReadNumbers(const ExampleFeature& feature, std::span<float> out,
                                   size_t first, std::vector<ExactInteger>& exact) {
  const bool floats = feature.kind == ExampleFeature::Kind::kFloat;
  if (!floats && feature.kind != ExampleFeature::Kind::kInt64) {
    return absl::InvalidArgumentError(feature.kind == ExampleFeature::Kind::kBytes
                                          ? "holds bytes; say which dtype they are"
                                          : "holds no values");
  }
  Sink sink(out, first, exact);
  Fields fields(feature.list);
  while (!fields.done()) {
    ASSIGN_OR_RETURN(const Fields::Field field, fields.Next());
    if (field.number != 1) continue;
    RETURN_IF_ERROR(floats ? ReadFloats(field, sink) : ReadInts(field, sink));
  }
  return sink.count();
}

absl::Status ReadTexts(const ExampleFeature& feature, std::vector<std::string>& out) {
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
  return absl::OkStatus();
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
