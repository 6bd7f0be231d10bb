// Data sources of whole arrays: idx, npy and npz.
#include "data/array_source.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "config/column_order.h"
#include "config/json_fields.h"
#include "config/nearest.h"
#include "data/array.h"
#include "data/data_options.h"
#include "data/zip_file.h"

namespace paracord {
namespace {

using nlohmann::json;

// An array under the name of its input or output.
struct NamedArray {
  std::string name;
  Array array;
};
using Arrays = std::vector<NamedArray>;

class ArraySource : public DataSource {
 public:
  ArraySource(std::string format, Arrays features, Arrays labels, Arrays weights, float scale)
      : features_(std::move(features)),
        labels_(std::move(labels)),
        weights_(std::move(weights)),
        scale_(scale) {
    uint64_t hash = 0;
    for (const auto& [arrays, columns] :
         {std::pair(&features_, &schema_.inputs), std::pair(&labels_, &schema_.targets),
          std::pair(&weights_, &schema_.weights)}) {
      std::map<std::string, uint64_t> by_name;  // in whatever order the job declares them
      for (const NamedArray& each : *arrays) {
        columns->push_back({each.name, each.array.shape(), {}, each.array.text()});
        by_name[each.name] = each.array.fingerprint();
      }
      for (const auto& [name, each] : by_name) hash = hash == 0 ? each : Mix64(hash, each);
    }
    fingerprint_ = absl::StrFormat("%s:%d:%016x", format, records(), hash);
  }

  uint64_t records() const override { return features_[0].array.records(); }
  std::string fingerprint() const override { return fingerprint_; }
  const Batch& schema() const override { return schema_; }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    for (const uint64_t record : records) {
      if (record < this->records()) continue;
      return absl::OutOfRangeError(
          absl::StrCat("record ", record, ": there are only ", this->records(), " records"));
    }
    batch.examples = static_cast<uint32_t>(records.size());
    batch.source = this;
    batch.records.assign(records.begin(), records.end());
    RETURN_IF_ERROR(Fill(features_, records, scale_, batch.inputs));
    RETURN_IF_ERROR(Fill(labels_, records, 1, batch.targets));
    return Fill(weights_, records, 1, batch.weights);
  }
  std::string Where(uint64_t record) const override {
    std::string where;
    for (const Arrays* arrays : {&features_, &labels_, &weights_}) {
      for (const NamedArray& each : *arrays) {
        absl::StrAppend(&where, where.empty() ? "" : ", ", each.array.Where(record));
      }
    }
    return where;
  }

 private:
  static absl::Status Fill(const Arrays& arrays, std::span<const uint64_t> records, float scale,
                           std::vector<Column>& columns) {
    columns.resize(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Array& array = arrays[i].array;
      columns[i].name = arrays[i].name;
      columns[i].shape = array.shape();
      columns[i].text = array.text();
      columns[i].exact.clear();
      const auto elements = static_cast<size_t>(records.size() * array.record_size());
      columns[i].values.resize(array.text() ? 0 : elements);
      columns[i].strings.resize(array.text() ? elements : 0);
      size_t to = 0;
      for (const uint64_t record : records) {
        RETURN_IF_ERROR(array.text() ? array.ReadTexts(record, columns[i].strings.data() + to)
                                     : array.Read(record, scale, columns[i].values.data() + to, to,
                                                  columns[i].exact));
        to += static_cast<size_t>(array.record_size());
      }
    }
    return absl::OkStatus();
  }

  const Arrays features_, labels_, weights_;
  const float scale_;
  Batch schema_;
  std::string fingerprint_;
};

// The names of an input or output and of the files or keys to read for it. If the job gives no
// object, there is one entry named "".
using Wanted = std::vector<std::pair<std::string, std::vector<std::string>>>;

Wanted ReadWanted(JsonFields& fields, const std::string& key, bool needed, JsonFields& order,
                  Problems& problems) {
  const json* value = fields.FindValue(key);
  if (value == nullptr && !needed) return {};
  if (value == nullptr || !value->is_object()) return {{"", ReadPaths(fields, key)}};
  Wanted wanted;
  JsonFields names(*value, fields.PathOf(key), problems);
  for (const std::string& name : ReadOrderedNames(order, key, *value)) {
    wanted.emplace_back(name, ReadPaths(names, name));
  }
  if (wanted.empty()) fields.Problem(key, "is empty");
  return wanted;
}

struct ArrayOptions {
  Wanted features, labels, weights;
  double scale = 1;
};

ArrayOptions ReadOptions(JsonFields& fields, bool has_scale, Problems& problems) {
  const json none = json::object();
  const json* const found = fields.FindValue(kColumnOrderKey);
  JsonFields order(found == nullptr ? none : *found, fields.PathOf(kColumnOrderKey), problems);
  ArrayOptions options;
  options.features = ReadWanted(fields, "features", /*needed=*/true, order, problems);
  options.labels = ReadWanted(fields, "labels", /*needed=*/true, order, problems);
  options.weights = ReadWanted(fields, "weights", /*needed=*/false, order, problems);
  order.ReportUnknown();
  if (has_scale) fields.Number("scale", -1e30, 1e30, options.scale);
  return options;
}

using ReadOne = std::function<absl::StatusOr<Array>(const std::vector<std::string>& names)>;

// Reads the wanted arrays, which must all have as many records as the first one. `of` says whose
// names they have.
absl::Status ReadAll(const std::string& of, const Wanted& wanted, const ReadOne& read_one,
                     std::string& first_name, uint64_t& records, Arrays& arrays) {
  for (const auto& [name, names] : wanted) {
    ASSIGN_OR_RETURN(Array array, read_one(names));
    if (first_name.empty()) {
      first_name = names[0];
      records = array.records();
    }
    if (array.records() != records) {
      return absl::InvalidArgumentError(absl::StrCat(
          of, first_name, " has ", records, " records, but ", names[0], " has ", array.records()));
    }
    arrays.push_back({name, std::move(array)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DataSource>> Open(const std::string& format, const std::string& of,
                                                 const ArrayOptions& options,
                                                 const ReadOne& read_one) {
  Arrays features, labels, weights;
  std::string first_name;
  uint64_t records = 0;
  RETURN_IF_ERROR(ReadAll(of, options.features, read_one, first_name, records, features));
  RETURN_IF_ERROR(ReadAll(of, options.labels, read_one, first_name, records, labels));
  RETURN_IF_ERROR(ReadAll(of, options.weights, read_one, first_name, records, weights));
  if (records == 0) return absl::InvalidArgumentError(of + first_name + ": has no records");
  for (const auto& [key, arrays] : {std::pair("labels", &labels), std::pair("weights", &weights)}) {
    for (const NamedArray& each : *arrays) {
      if (!each.array.text()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(each.array.Where(0), ": `", key,
                       "` are strings; give numbers (the place of each class)"));
    }
  }
  for (const NamedArray& each : features) {
    if (!each.array.text() || options.scale == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(each.array.Where(0), ": `scale` is for numbers, and these are strings"));
  }
  return std::make_unique<ArraySource>(format, std::move(features), std::move(labels),
                                       std::move(weights), static_cast<float>(options.scale));
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenFiles(Files& files, const DataSpec& spec,
                                                      bool has_scale, ReadArrayHeader read_header) {
  Problems problems;
  JsonFields fields(spec.options, absl::StrCat("data (", spec.format, ")"), problems);
  const ArrayOptions options = ReadOptions(fields, has_scale, problems);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  return Open(spec.format, /*of=*/"", options, [&](const std::vector<std::string>& paths) {
    return ReadArray(files, paths, read_header);
  });
}

// Appends the array `key` of one archive.
absl::Status AppendKey(Files& files, const std::string& path, const std::string& key,
                       Array& array) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files.Open(path));
  ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(*file, path));
  std::vector<std::string_view> known;
  for (const ZipMember& member : members) {
    std::string_view name = member.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    if (Utf8Prefix(name) == name.size()) known.push_back(name);
    if (name != key) continue;
    ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, OpenZipMember(files, path, member));
    ASSIGN_OR_RETURN(const ArrayHeader header, ReadNpyHeader(*stream));
    return array.Append(header, *stream);
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": holds no array ", Quoted(key), NearestHint(key, known)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(Files& files, const DataSpec& spec) {
  return OpenFiles(files, spec, /*has_scale=*/true, ReadIdxHeader);
}
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpy(Files& files, const DataSpec& spec) {
  return OpenFiles(files, spec, /*has_scale=*/false, ReadNpyHeader);
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenNpz(Files& files, const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (npz)", problems);
  const std::vector<std::string> patterns = ReadPaths(fields, "file");
  const ArrayOptions options = ReadOptions(fields, /*has_scale=*/true, problems);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, patterns));
  const auto read = [&](const std::vector<std::string>& keys) -> absl::StatusOr<Array> {
    Array array;
    for (const std::string& path : paths) {
      for (const std::string& key : keys) RETURN_IF_ERROR(AppendKey(files, path, key, array));
    }
    return array;
  };
  return Open("npz", paths[0] + ": ", options, read);
}

}  // namespace paracord
