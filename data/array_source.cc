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

// An array with the name of its input or output.
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
      std::map<std::string, uint64_t> by_name;  // sorted, whatever the job's order
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

// The names of the inputs or outputs, with the files or keys to read for each. Without an object in
// the job, a single entry named "".
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

ArrayOptions ReadOptions(JsonFields& fields, const DataSpec& spec, bool has_scale,
                         Problems& problems) {
  const json none = json::object();
  const json* const found = fields.FindValue(kColumnOrderKey);
  JsonFields order(found == nullptr ? none : *found, fields.PathOf(kColumnOrderKey), problems);
  ArrayOptions options;
  options.features = ReadWanted(fields, "features", /*needed=*/true, order, problems);
  if (spec.inputs_alone) {
    for (const char* const key : {"labels", "weights"}) fields.Find(key), order.Find(key);
  } else {
    options.labels = ReadWanted(fields, "labels", /*needed=*/true, order, problems);
    options.weights = ReadWanted(fields, "weights", /*needed=*/false, order, problems);
  }
  order.ReportUnknown();
  if (has_scale) fields.Number("scale", -1e30, 1e30, options.scale);
  return options;
}

// How the arrays of a format are read.
struct ArrayReader {
  // Of the headers alone.
  std::function<absl::StatusOr<HeaderCount>(const std::vector<std::string>& names)> count;
  std::function<absl::StatusOr<Array>(const std::vector<std::string>& names)> read;
};

// Checks that all wanted arrays have equally many records.
class SameRecords {
 public:
  // `of` prefixes the arrays' names in errors.
  explicit SameRecords(std::string of) : of_(std::move(of)) {}
  absl::Status Add(const std::string& name, uint64_t records) {
    if (!first_.has_value()) first_ = {name, records};
    if (records == first_->second) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(of_, first_->first, " has ", first_->second,
                                                   " records, but ", name, " has ", records));
  }

 private:
  const std::string of_;
  std::optional<std::pair<std::string, uint64_t>> first_;
};

// Compares the counts by the headers, before anything is unpacked.
absl::Status CheckHeaders(const std::string& of, const ArrayOptions& options,
                          const ArrayReader& reader) {
  SameRecords same(of);
  for (const Wanted* wanted : {&options.features, &options.labels, &options.weights}) {
    for (const auto& [name, names] : *wanted) {
      ASSIGN_OR_RETURN(const HeaderCount count, reader.count(names));
      if (!count.records().has_value()) return absl::OkStatus();
      RETURN_IF_ERROR(same.Add(names[0], *count.records()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Arrays> ReadAll(const Wanted& wanted, const ArrayReader& reader, SameRecords& same) {
  Arrays arrays;
  for (const auto& [name, names] : wanted) {
    ASSIGN_OR_RETURN(Array array, reader.read(names));
    RETURN_IF_ERROR(same.Add(names[0], array.records()));
    arrays.push_back({name, std::move(array)});
  }
  return arrays;
}

absl::StatusOr<std::unique_ptr<DataSource>> Open(const std::string& format, const std::string& of,
                                                 const ArrayOptions& options,
                                                 const ArrayReader& reader) {
  RETURN_IF_ERROR(CheckHeaders(of, options, reader));
  SameRecords same(of);
  ASSIGN_OR_RETURN(Arrays features, ReadAll(options.features, reader, same));
  ASSIGN_OR_RETURN(Arrays labels, ReadAll(options.labels, reader, same));
  ASSIGN_OR_RETURN(Arrays weights, ReadAll(options.weights, reader, same));
  if (features[0].array.records() == 0) {
    return absl::InvalidArgumentError(of + options.features[0].second[0] + ": has no records");
  }
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
  const ArrayOptions options = ReadOptions(fields, spec, has_scale, problems);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  ArrayReader reader;
  reader.count = [&](const auto& paths) { return CountRecords(files, paths, read_header); };
  reader.read = [&](const auto& paths) { return ReadArray(files, paths, read_header, spec); };
  return Open(spec.format, /*of=*/"", options, reader);
}

// Opens the array `key` of an archive.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenKey(Files& files, const std::string& path,
                                                    const std::string& key) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files.Open(path));
  ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(*file, path));
  std::vector<std::string_view> known;
  for (const ZipMember& member : members) {
    std::string_view name = member.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    if (Utf8Prefix(name) == name.size()) known.push_back(name);
    if (name == key) return OpenZipMember(files, path, member);
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
  const ArrayOptions options = ReadOptions(fields, spec, /*has_scale=*/true, problems);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, patterns));
  const auto each = [&](const std::vector<std::string>& keys,
                        const std::function<absl::Status(ByteStream&)>& work) -> absl::Status {
    for (const std::string& path : paths) {
      for (const std::string& key : keys) {
        ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, OpenKey(files, path, key));
        RETURN_IF_ERROR(work(*stream));
      }
    }
    return absl::OkStatus();
  };
  ArrayReader reader;
  reader.count = [&](const std::vector<std::string>& keys) -> absl::StatusOr<HeaderCount> {
    HeaderCount count;
    RETURN_IF_ERROR(
        each(keys, [&](ByteStream& stream) { return count.Add(ReadNpyHeader, stream); }));
    return count;
  };
  reader.read = [&](const std::vector<std::string>& keys) -> absl::StatusOr<Array> {
    Array array(spec.held_bytes_max, spec.memory);
    RETURN_IF_ERROR(each(keys, [&](ByteStream& stream) -> absl::Status {
      ASSIGN_OR_RETURN(const ArrayHeader header, ReadNpyHeader(stream));
      return array.Append(header, stream);
    }));
    return array;
  };
  return Open("npz", paths[0] + ": ", options, reader);
}

}  // namespace paracord
