// The job's side of the features of a tf.train.Example.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/image.h"
#include "data/tf_feature.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kFeatureElementsMax = uint64_t{1} << 28;
constexpr double kFeatureNumberMax = 1e30;

struct DType {
  std::string_view name;
  FeatureSpec::Kind kind;
  ElementType element = ElementType::kF32;  // type of raw bytes
};
using FeatureKind = FeatureSpec::Kind;
constexpr std::array<DType, 15> kDTypes{{{"float", FeatureKind::kFloat, ElementType::kF32},
                                         {"float32", FeatureKind::kFloat, ElementType::kF32},
                                         {"int64", FeatureKind::kInt64, ElementType::kI64},
                                         {"uint8", FeatureKind::kRaw, ElementType::kU8},
                                         {"bool", FeatureKind::kRaw, ElementType::kU8},
                                         {"int8", FeatureKind::kRaw, ElementType::kI8},
                                         {"uint16", FeatureKind::kRaw, ElementType::kU16},
                                         {"int16", FeatureKind::kRaw, ElementType::kI16},
                                         {"uint32", FeatureKind::kRaw, ElementType::kU32},
                                         {"int32", FeatureKind::kRaw, ElementType::kI32},
                                         {"uint64", FeatureKind::kRaw, ElementType::kU64},
                                         {"float16", FeatureKind::kRaw, ElementType::kF16},
                                         {"float64", FeatureKind::kRaw, ElementType::kF64},
                                         {"image", FeatureKind::kImage},
                                         {"string", FeatureKind::kString}}};

class FeatureSpecReader {
 public:
  FeatureSpecReader(const json& value, const std::string& path, const std::string& group_key,
                    Problems& problems)
      : value_(value), fields_(value, path, problems), group_key_(group_key) {
    spec_.path = path;
  }

  // Appends the spec, and a kPresent spec if the job wants one.
  void ReadTo(std::vector<FeatureSpec>& specs) {
    specs.push_back(Read());
    if (present_.empty()) return;
    FeatureSpec present = specs.back();
    present.text_list = present.text();
    present.kind = FeatureKind::kPresent;
    present.path = absl::StrCat(present.path, ".present");
    present.group = present_;
    specs.push_back(std::move(present));
  }

 private:
  FeatureSpec Read() {
    if (value_.is_object() && fields_.Find("name") == nullptr) {
      fields_.Problem("name", "is missing");
    }
    fields_.String("name", spec_.name);
    fields_.String(group_key_, spec_.group);
    ReadDType();
    if (spec_.kind == FeatureKind::kImage) {
      ReadImage();
    } else {
      ReadShape();
      ReadPadding();
    }
    if (spec_.text()) {
      ReadText("default", spec_.default_text);
    } else {
      fields_.Number("scale", -kFeatureNumberMax, kFeatureNumberMax, spec_.scale);
      if (spec_.kind != FeatureKind::kImage) ReadNumber("default", spec_.default_value);
    }
    fields_.ReportUnknown();
    return std::move(spec_);
  }

  void ReadDType() {
    std::array<std::string_view, kDTypes.size()> names;
    std::ranges::transform(kDTypes, names.begin(), &DType::name);
    fields_.OneOf("dtype", names, spec_.dtype);
    for (const DType& dtype : kDTypes) {
      if (dtype.name != spec_.dtype) continue;
      spec_.kind = dtype.kind;
      spec_.element = dtype.element;
    }
    if (spec_.text() && group_key_ != "input") {
      fields_.Problem("dtype", "strings are for inputs alone");
    }
    const bool raw = spec_.kind == FeatureKind::kRaw || spec_.kind == FeatureKind::kFloat ||
                     spec_.kind == FeatureKind::kInt64;
    if (raw) fields_.Bool("big_endian", spec_.big_endian);
  }

  void ReadShape() {
    const json* value = fields_.FindValue("shape");
    if (value == nullptr) return;
    bool good = value->is_array() && value->size() <= 8;
    for (size_t i = 0; good && i < value->size(); ++i) {
      const json& dim = (*value)[i];
      if (dim.is_null()) {
        return fields_.Problem("shape",
                               "has a length that is not known; give the largest one, and `pad` to "
                               "fill up shorter lists");
      }
      good = dim.is_number_unsigned() && dim.get<uint64_t>() > 0 &&
             dim.get<uint64_t>() <= kFeatureElementsMax / spec_.size;
      if (!good) break;
      spec_.shape.push_back(dim.get<uint64_t>());
      spec_.size *= static_cast<size_t>(spec_.shape.back());
    }
    if (good) return;
    fields_.Problem("shape",
                    absl::StrCat("must be a list of sizes, of at most ", kFeatureElementsMax,
                                 " values in all, is ", JsonExcerpt(*value)));
  }

  void ReadImage() {
    const auto is_side = [](const json& side) {
      return side.is_number_unsigned() && side.get<uint64_t>() > 0 &&
             side.get<uint64_t>() <= kImageSideMax;
    };
    uint64_t channels = 3;
    fields_.Integer("channels", 1, 3, channels);
    if (channels == 2) fields_.Problem("channels", "must be 1 or 3");
    const json* size = fields_.FindValue("size");
    if (size == nullptr) return fields_.Problem("size", "is missing: [height, width] of an image");
    if (!size->is_array() || size->size() != 2 || !is_side((*size)[0]) || !is_side((*size)[1])) {
      return fields_.Problem("size", absl::StrCat("must be [height, width], each 1 to ",
                                                  kImageSideMax, ", is ", JsonExcerpt(*size)));
    }
    spec_.shape = {(*size)[0].get<uint64_t>(), (*size)[1].get<uint64_t>(), channels};
    spec_.size = static_cast<size_t>(spec_.shape[0] * spec_.shape[1] * channels);
    if (spec_.size > kFeatureElementsMax) fields_.Problem("size", "is too large");
  }

  void ReadPadding() {
    if (spec_.text()) {
      ReadText("pad", spec_.pad_text);
    } else {
      ReadNumber("pad", spec_.pad_value);
    }
    static constexpr std::array<std::string_view, 2> kEnds = {"pre", "post"};
    std::string cut;
    fields_.OneOf("truncate", kEnds, cut);
    if (cut == "pre") spec_.cut = FeatureSpec::Cut::kStart;
    if (cut == "post") spec_.cut = FeatureSpec::Cut::kEnd;
    fields_.String("present", present_);
    if (!present_.empty() && (!spec_.pads() || spec_.shape.size() != 1)) {
      fields_.Problem("present", "is for lists of numbers or strings with a `pad`");
    }
    if (!present_.empty() && (group_key_ != "input" || present_ == spec_.group)) {
      fields_.Problem("present", "must be another input than the list's own");
    }
    if ((spec_.pads() || !cut.empty()) && spec_.shape.empty()) {
      fields_.Problem("shape", "must give the largest length of a list that is padded or cut");
    }
  }

  void ReadNumber(const std::string& key, std::optional<double>& out) {
    if (fields_.FindValue(key) == nullptr) return;
    fields_.Number(key, -kFeatureNumberMax, kFeatureNumberMax, out.emplace());
  }
  void ReadText(const std::string& key, std::optional<std::string>& out) {
    const json* text = fields_.FindValue(key);
    if (text == nullptr) return;
    if (!text->is_string()) return fields_.Problem(key, "must be a string");
    out = text->get<std::string>();
  }

  const json& value_;
  JsonFields fields_;
  const std::string group_key_;
  FeatureSpec spec_;
  std::string present_;
};

}  // namespace

std::vector<FeatureSpec> ReadFeatureSpecs(JsonFields& fields, const std::string& key,
                                          const std::string& group_key, Problems& problems) {
  std::vector<FeatureSpec> specs;
  const json* value = fields.FindValue(key);
  if (value == nullptr) return specs;
  const auto read = [&](const json& entry, const std::string& path) {
    if (!entry.is_string()) {
      FeatureSpecReader(entry, path, group_key, problems).ReadTo(specs);
      return;
    }
    specs.emplace_back().name = entry.get<std::string>();
    specs.back().path = path;
  };
  const std::string path = fields.PathOf(key);
  if (!value->is_array()) {
    read(*value, path);
  } else if (value->empty()) {
    fields.Problem(key, "names no feature");
  } else {
    for (size_t i = 0; i < value->size(); ++i) read((*value)[i], absl::StrCat(path, "[", i, "]"));
  }
  return specs;
}

std::vector<Column> FeatureGroups(std::vector<FeatureSpec>& specs) {
  std::vector<Column> columns;
  std::vector<size_t> sizes;
  for (FeatureSpec& spec : specs) {
    const auto at = std::find_if(columns.begin(), columns.end(),
                                 [&](const Column& column) { return column.name == spec.group; });
    spec.column = static_cast<size_t>(at - columns.begin());
    if (at == columns.end()) {
      columns.push_back({spec.group, spec.shape, {}, spec.text()});
      sizes.push_back(spec.size);
      continue;
    }
    spec.offset = sizes[spec.column];
    sizes[spec.column] += spec.size;
    at->shape = {sizes[spec.column]};
  }
  return columns;
}

}  // namespace paracord
