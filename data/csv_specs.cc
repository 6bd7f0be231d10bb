// The job's side of CSV columns: reading the specs and binding them to a file.
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "config/nearest.h"
#include "data/csv_columns.h"
#include "data/data_options.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr double kNumberMax = 1e300;
constexpr uint64_t kBinsMax = uint64_t{1} << 62;
constexpr uint64_t kWordsMax = uint64_t{1} << 31;
constexpr uint64_t kListedMax = uint64_t{1} << 24;  // words in the job itself
constexpr size_t kCrossMax = 16;
constexpr uint64_t kLengthMax = 1 << 16;  // limit of a list
constexpr double kPadMax = 1 << 24;
constexpr std::string_view kInputKey = "input";  // key of a feature's group

// A column by name or number; adds a problem and returns false for anything else.
bool ReadColumnName(const json& value, const std::string& path, Problems& problems,
                    std::vector<CsvColumnName>& columns) {
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    columns.push_back({value.get<std::string>(), std::nullopt});
  } else if (value.is_number_unsigned() && value.get<uint64_t>() < (1 << 24)) {
    columns.push_back({"", value.get<size_t>()});
  } else {
    problems.Add(path,
                 absl::StrCat("must be the name or number of a column, is ", JsonExcerpt(value)));
    return false;
  }
  return true;
}

// Gives a word the next index. Returns false if it has one already.
bool AddWord(const std::string& word, CsvSpec& spec) {
  return spec.vocabulary.try_emplace(word, spec.first() + spec.oov + spec.words).second;
}

// A list of words, each with an index; a nested list holds words with a common index.
void ReadVocabulary(const json& list, const std::string& path, Problems& problems, CsvSpec& spec) {
  const auto add = [&](const json& word) {
    if (!word.is_string()) {
      problems.Add(path, absl::StrCat("must be words, holds ", JsonExcerpt(word)));
    } else if (!AddWord(word.get<std::string>(), spec)) {
      problems.Add(path, absl::StrCat("holds ", JsonExcerpt(word), " twice"));
    }
  };
  if (!list.is_array() || list.empty() || list.size() > kListedMax) {
    return problems.Add(path, absl::StrCat("must be a list of words, is ", JsonExcerpt(list)));
  }
  for (const json& entry : list) {
    if (entry.is_array()) {
      for (const json& word : entry) add(word);
    } else {
      add(entry);
    }
    ++spec.words;
  }
}

class CsvSpecReader {
 public:
  CsvSpecReader(const json& value, const std::string& path, const std::string& group_key,
                uint32_t oov_default, Problems& problems)
      : fields_(value, path, problems), problems_(problems), group_key_(group_key) {
    spec_.path = path;
    spec_.oov = oov_default;
  }

  CsvSpec Read() {
    static constexpr std::array<std::string_view, 6> kKinds = {"numeric", "categorical", "hashed",
                                                               "crossed", "string",      "id"};
    std::string kind = "numeric";
    fields_.OneOf("kind", kKinds, kind);
    const auto at = std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin();
    spec_.kind = static_cast<CsvSpec::Kind>(at);
    if (spec_.kind == CsvSpec::Kind::kString && group_key_ != kInputKey) {
      fields_.Problem("kind", "only features may be strings");
    }
    if (spec_.kind == CsvSpec::Kind::kId && group_key_ != kInputKey) {
      fields_.Problem("kind", "only features may be ids");
    }
    fields_.String(group_key_, spec_.group);
    ReadColumns();
    ReadDefault();
    if (spec_.kind != CsvSpec::Kind::kCrossed) ReadList();
    if (spec_.kind == CsvSpec::Kind::kNumeric) ReadNumeric();
    if (spec_.kind == CsvSpec::Kind::kCategorical) ReadCategorical();
    if (spec_.kind == CsvSpec::Kind::kId) fields_.Bool("hash", spec_.hash);
    if (spec_.kind == CsvSpec::Kind::kHashed || spec_.kind == CsvSpec::Kind::kCrossed) {
      if (fields_.Find("bins") == nullptr) fields_.Problem("bins", "is missing");
      fields_.Integer("bins", 1, kBinsMax, spec_.bins);
    }
    if (spec_.mask && spec_.kind == CsvSpec::Kind::kHashed && spec_.bins == 1) {
      fields_.Problem("bins", "is 1, and bin 0 is padding alone with `mask`: there is no other");
    }
    fields_.ReportUnknown();
    return std::move(spec_);
  }

 private:
  void ReadColumns() {
    const bool several = spec_.kind == CsvSpec::Kind::kCrossed;
    const std::string key = several ? "columns" : "column";
    const json* value = fields_.FindValue(key);
    if (value == nullptr) return fields_.Problem(key, "is missing");
    if (!several) {
      ReadColumnName(*value, fields_.PathOf(key), problems_, spec_.columns);
    } else if (!value->is_array() || value->size() < 2 || value->size() > kCrossMax) {
      fields_.Problem(key, absl::StrCat("must be a list of 2 to ", kCrossMax, " columns"));
    } else {
      for (const json& column : *value) {
        if (!ReadColumnName(column, fields_.PathOf(key), problems_, spec_.columns)) return;
      }
    }
  }

  void ReadDefault() {
    const json* value = fields_.FindValue("default");
    if (value == nullptr) return;
    const bool numeric = spec_.kind == CsvSpec::Kind::kNumeric;
    const bool id = spec_.kind == CsvSpec::Kind::kId && value->is_number_integer();
    if (numeric ? !value->is_number() : !value->is_string() && !id) {
      return fields_.Problem("default", absl::StrCat("must be a ", numeric ? "number" : "string",
                                                     ", is ", JsonExcerpt(*value)));
    }
    spec_.default_text = value->is_string() ? value->get<std::string>() : value->dump();
  }

  void ReadList() {
    static constexpr std::array<std::string_view, 2> kEnds = {"pre", "post"};
    std::string separator, cut;
    fields_.String("separator", separator);
    if (fields_.FindValue("separator") == nullptr) return;
    CsvSpec::List& list = spec_.list.emplace(CsvSpec::List{});  // clang 14 needs the value
    if (separator.size() != 1) fields_.Problem("separator", "must be one character");
    if (group_key_ != kInputKey) fields_.Problem("separator", "only features may be lists");
    list.separator = separator.empty() ? ' ' : separator[0];
    uint64_t length = 0;
    if (fields_.Find("length") == nullptr) {
      fields_.Problem("length", "is missing: the most values of a list");
    }
    fields_.Integer("length", 1, kLengthMax, length);
    list.length = static_cast<size_t>(length);
    if (spec_.kind == CsvSpec::Kind::kString) {
      fields_.String("pad", list.pad_text);
    } else {
      fields_.Number("pad", -kPadMax, kPadMax, list.pad);
    }
    fields_.OneOf("truncate", kEnds, cut);
    if (cut == "pre") list.cut = CsvSpec::List::Cut::kStart;
    if (cut == "post") list.cut = CsvSpec::List::Cut::kEnd;
    ReadMask();
    fields_.String("present", list.present);
    if (!list.present.empty() && list.present == spec_.group) {
      fields_.Problem("present", "must be another input than the list's own");
    }
  }

  void ReadMask() {
    if (spec_.kind != CsvSpec::Kind::kCategorical && spec_.kind != CsvSpec::Kind::kHashed) return;
    fields_.Bool("mask", spec_.mask);
    if (spec_.mask && spec_.list->pad != 0) {
      fields_.Problem("pad", "has to be 0 with `mask`, which keeps 0 for padding");
    }
  }

  void ReadNumeric() {
    fields_.Bool("log", spec_.log);
    fields_.Number("mean", -kNumberMax, kNumberMax, spec_.mean);
    fields_.Number("std", 1e-300, kNumberMax, spec_.std);
  }

  void ReadCategorical() {
    spec_.oov_said = fields_.FindValue("oov") != nullptr;
    fields_.Integer("oov", 0, 1 << 20, spec_.oov);
    fields_.Bool("one_hot", spec_.one_hot);
    if (spec_.one_hot && spec_.list.has_value()) {
      fields_.Problem("one_hot", "is for one word, and this is a list");
    }
    const json* words = fields_.FindValue("vocabulary");
    if (words != nullptr) ReadVocabulary(*words, fields_.PathOf("vocabulary"), problems_, spec_);
    fields_.String("vocabulary_file", spec_.vocabulary_file);
    if ((words == nullptr) == spec_.vocabulary_file.empty()) {
      fields_.Problem("vocabulary", "give either `vocabulary` or `vocabulary_file`");
    }
  }

  JsonFields fields_;
  Problems& problems_;
  const std::string group_key_;
  CsvSpec spec_;
};

absl::Status LoadVocabulary(Files& files, CsvSpec& spec) {
  if (spec.vocabulary_file.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadWords(files, spec.vocabulary_file));
  if (lines.size() > kWordsMax) {
    return absl::InvalidArgumentError(absl::StrCat(spec.vocabulary_file, ": holds ", lines.size(),
                                                   " words, more than ", kWordsMax));
  }
  for (const std::string& line : lines) {
    spec.vocabulary_fingerprint = Mix64(spec.vocabulary_fingerprint, line);
    if (AddWord(line, spec)) {
      ++spec.words;
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(spec.vocabulary_file, ": holds ", Quoted(line), " twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> FindColumn(const CsvColumnName& column,
                                  const std::vector<std::string>& names, size_t fields,
                                  const std::string& path, const std::string& key) {
  if (column.number.has_value()) {
    if (*column.number < fields) return *column.number;
    return absl::InvalidArgumentError(absl::StrCat(key, ": there is no column ", *column.number,
                                                   " in ", path, ", which has ", fields));
  }
  const std::string& name = column.name;
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) {
    if (std::find(at + 1, names.end(), name) == names.end()) {
      return static_cast<size_t>(at - names.begin());
    }
    return absl::InvalidArgumentError(absl::StrCat(key, ": there are several columns \"", name,
                                                   "\" in ", path, "; give its number instead"));
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return absl::InvalidArgumentError(absl::StrCat(
      key, ": there is no column \"", name, "\" in ", path,
      names.empty() ? "; its columns have no names, see `columns`" : NearestHint(name, known)));
}

bool NamesColumn(const CsvColumnName& column, const std::string& name, size_t number) {
  return column.number.has_value() ? *column.number == number : column.name == name;
}

// A spec for each matching column; the spec itself unless it is a pattern.
std::vector<CsvSpec> Expanded(const CsvSpec& spec, const std::vector<CsvSpec>& all,
                              const std::vector<std::string>& names, size_t fields) {
  const std::string& wanted = spec.columns[0].name;
  const bool pattern = spec.kind != CsvSpec::Kind::kCrossed && spec.columns.size() == 1 &&
                       wanted.find('*') != std::string::npos &&
                       std::find(names.begin(), names.end(), wanted) == names.end();
  if (!pattern || (names.empty() && wanted != "*")) return {spec};
  std::vector<CsvSpec> specs;
  for (size_t i = 0; i < fields; ++i) {
    const std::string name = names.empty() ? "" : names[i];
    if (fnmatch(wanted.c_str(), name.c_str(), 0) != 0) continue;
    const bool named =
        wanted == "*" && std::ranges::any_of(all, [&](const CsvSpec& other) {
          return std::ranges::any_of(other.columns, [&](const CsvColumnName& column) {
            return NamesColumn(column, name, i);
          });
        });
    if (named) continue;
    specs.push_back(spec);
    specs.back().by_pattern = true;
    specs.back().columns = {names.empty() ? CsvColumnName{"", i} : CsvColumnName{name, {}}};
  }
  if (specs.empty()) specs.push_back(spec);
  return specs;
}

}  // namespace

std::vector<CsvSpec> ReadCsvSpecs(JsonFields& fields, const std::string& key,
                                  const std::string& group_key, uint32_t oov_default,
                                  Problems& problems) {
  const json* value = fields.FindValue(key);
  const std::string whole = fields.PathOf(key);
  std::vector<CsvSpec> specs;
  if (value == nullptr) return specs;
  const auto read = [&](const json& entry, const std::string& path) {
    if (entry.is_object()) {
      specs.push_back(CsvSpecReader(entry, path, group_key, oov_default, problems).Read());
      if (!specs.back().list.has_value() || specs.back().list->present.empty()) return;
      CsvSpec present;
      present.kind = CsvSpec::Kind::kPresent;
      present.path = absl::StrCat(path, ".present");
      present.group = specs.back().list->present;
      present.columns = specs.back().columns;
      present.list = specs.back().list;
      specs.push_back(std::move(present));
      return;
    }
    CsvSpec spec;
    spec.path = path;
    if (ReadColumnName(entry, path, problems, spec.columns)) specs.push_back(std::move(spec));
  };
  if (value->is_array()) {
    for (size_t i = 0; i < value->size(); ++i) read((*value)[i], absl::StrCat(whole, "[", i, "]"));
    if (value->empty()) problems.Add(whole, "names no column");
  } else {
    read(*value, whole);
  }
  return specs;
}

absl::Status BindCsvSpecs(Files& files, const std::vector<std::string>& names, size_t fields,
                          const std::string& path, std::vector<CsvSpec>& specs) {
  std::vector<CsvSpec> bound;
  Problems problems;
  for (CsvSpec& spec : specs) {
    RETURN_IF_ERROR(LoadVocabulary(files, spec));
    for (CsvSpec& each : Expanded(spec, specs, names, fields)) {
      for (const CsvColumnName& column : each.columns) {
        const auto at = FindColumn(column, names, fields, path, each.path);
        if (at.ok()) each.fields.push_back(*at);
        if (!at.ok()) problems.Add("", std::string(at.status().message()));
      }
      bound.push_back(std::move(each));
    }
  }
  specs = std::move(bound);
  return problems.ToStatus();
}

std::string PaddingDoubt(const CsvSpec& spec) {
  const bool words = spec.kind == CsvSpec::Kind::kCategorical;
  if (!words && spec.kind != CsvSpec::Kind::kHashed) return "";
  if (!spec.list.has_value() || !spec.list->present.empty()) return "";
  const double pad = spec.list->pad;
  const double end = words ? spec.first() + spec.oov + spec.words : static_cast<double>(spec.bins);
  if (pad < spec.first() || pad >= end || pad != std::floor(pad)) return "";
  const std::string what = !words           ? "a bin of values"
                           : pad < spec.oov ? "the number of unknown words"
                                            : "the number of a word";
  return absl::StrCat(spec.path, ": its padding, ", pad, ", is ", what,
                      ", too, and the model cannot tell them apart; with \"mask\": true only ",
                      "padding is 0, and the other numbers begin at 1");
}

absl::StatusOr<size_t> FindCsvColumn(const std::vector<std::string>& names, size_t fields,
                                     const std::string& path, const std::string& name) {
  size_t number = 0;
  const bool counted = names.empty() && absl::SimpleAtoi(name, &number);
  return FindColumn(counted ? CsvColumnName{"", number} : CsvColumnName{name, {}}, names, fields,
                    path, "columns");
}

void LeaveOutAbsent(const std::vector<std::string>& names, size_t fields,
                    std::vector<CsvSpec>& specs) {
  std::erase_if(specs, [&](const CsvSpec& spec) {
    return std::ranges::any_of(spec.columns, [&](const CsvColumnName& column) {
      if (column.number.has_value()) return *column.number >= fields;
      return std::ranges::none_of(names, [&](const std::string& name) {
        return name == column.name || fnmatch(column.name.c_str(), name.c_str(), 0) == 0;
      });
    });
  });
}

void LeaveOut(const std::vector<CsvSpec>& others, std::vector<CsvSpec>& features) {
  std::erase_if(features, [&](const CsvSpec& feature) {
    return feature.by_pattern && std::ranges::any_of(others, [&](const CsvSpec& other) {
             return std::ranges::find(other.fields, feature.fields[0]) != other.fields.end();
           });
  });
}

}  // namespace paracord
