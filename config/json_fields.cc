#include "config/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"
#include "config/nearest.h"

namespace paracord {
namespace {

using nlohmann::json;

// Python writes NaN, Infinity and -Infinity as bare words, which JSON lacks. Each word is replaced
// by a string of equal length, which keeps the positions in errors right, and the parser's watch
// replaces the string by the number.
class PythonNumbers {
 public:
  explicit PythonNumbers(std::string_view text) {
    static constexpr std::pair<std::string_view, double> kWords[] = {
        {"NaN", std::numeric_limits<double>::quiet_NaN()},
        {"Infinity", std::numeric_limits<double>::infinity()},
        {"-Infinity", -std::numeric_limits<double>::infinity()}};
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') {
        if (!in_string) ++strings_;
        in_string = !in_string;
      } else if (in_string && text[i] == '\\') {
        ++i;
      }
      if (in_string) continue;
      for (const auto& [word, number] : kWords) {
        if (!text.substr(i).starts_with(word)) continue;
        if (changed_.empty()) changed_ = text;
        changed_[i] = changed_[i + word.size() - 1] = '"';
        numbers_.emplace(strings_++, number);
        i += word.size() - 1;
        break;
      }
    }
  }

  std::string_view Text(std::string_view text) const { return changed_.empty() ? text : changed_; }
  // Called for every string and every key, in the order of the text.
  void Watch(bool is_key, json& parsed) {
    if (numbers_.empty()) return;
    const auto found = numbers_.find(seen_++);
    if (found == numbers_.end()) return;
    number_as_key_ = number_as_key_ || is_key;
    if (!is_key) parsed = found->second;
  }
  bool number_as_key() const { return number_as_key_; }

 private:
  std::string changed_;  // empty: nothing to change
  size_t strings_ = 0;
  size_t seen_ = 0;
  std::map<size_t, double> numbers_;  // key: the number of strings before it
  bool number_as_key_ = false;
};

// Watches a parse for a key that occurs twice in an object (nlohmann silently keeps the last) and
// notes the order of the keys (nlohmann sorts them).
class ParseWatch {
 public:
  ParseWatch(PythonNumbers& numbers, KeyOrder* order) : numbers_(numbers), order_(order) {}
  bool operator()(int /*depth*/, json::parse_event_t event, json& parsed) {
    if (parsed.is_string()) numbers_.Watch(event == json::parse_event_t::key, parsed);
    if (event == json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key) {
      Object& object = open_.back();
      object.current = parsed.get<std::string>();
      if (!object.keys.insert(object.current).second && duplicate_.empty()) {
        duplicate_ = Path(open_);
      }
      NoteOrder();
    }
    return true;
  }
  const std::string& duplicate() const { return duplicate_; }

 private:
  struct Object {
    std::string current;
    std::set<std::string> keys;
  };
  // Notes the place of the newest key, unless it is deeper, or below a longer name, than any key
  // of which the order matters: a path is made for each.
  void NoteOrder() {
    constexpr size_t kNoted = 8, kNotedName = 256;
    if (order_ == nullptr || open_.size() > kNoted) return;
    const std::span<const Object> above = std::span(open_).first(open_.size() - 1);
    const auto is_long = [](const Object& object) { return object.current.size() > kNotedName; };
    if (std::ranges::any_of(above, is_long)) return;
    (*order_)[Path(above)].push_back(open_.back().current);
  }
  static std::string Path(std::span<const Object> objects) {
    return absl::StrJoin(objects, ".",
                         [](std::string* out, const Object& o) { out->append(o.current); });
  }

  PythonNumbers& numbers_;
  KeyOrder* const order_;
  std::vector<Object> open_;
  std::string duplicate_;
};

// Removes the library's "[json.exception.parse_error.101] " from a message.
std::string WithoutTag(const std::string& message) {
  const size_t end = message.find("] ");
  return end == std::string::npos ? message : message.substr(end + 2);
}

// Names the rule of JSON that a nearly right text breaks, with the line: a comment, single quotes,
// a comma before a bracket, or YAML. Empty if the text breaks none of these.
std::string BrokenRule(std::string_view text) {
  size_t line = 1;
  char before = 0;   // the last character that is no space
  size_t comma = 0;  // its line
  const auto at = [&](size_t number, std::string_view rule) {
    return absl::StrCat("line ", number, ": ", std::string(rule));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '"') {
      const size_t begin = line;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
        if (i < text.size() && text[i] == '\n') return at(begin, "a string ends in its own line");
      }
    } else if (letter == '#' || text.substr(i).starts_with("//") ||
               text.substr(i).starts_with("/*")) {
      return at(line, "JSON has no comments");
    } else if (letter == '\'') {
      return at(line, "strings are in double quotes");
    } else if ((letter == '}' || letter == ']') && before == ',') {
      return at(comma, "no comma stands before a closing bracket");
    } else if (letter == ':' && before != '"') {
      return at(line, before == 0 || absl::ascii_isalnum(static_cast<unsigned char>(before))
                          ? "keys are in double quotes, and an object in {}, unlike in YAML"
                          : "a key in double quotes stands before a colon");
    }
    if (letter == ',') comma = line;
    if (letter == '\n') ++line;
    if (!absl::ascii_isspace(static_cast<unsigned char>(letter))) before = letter;
  }
  return "";
}

// Says between which limits a number must be: " from 0 and below 1".
std::string LimitsText(double low, double high) {
  std::string text;
  if (low == kAboveZero) {
    text = " above 0";
  } else if (low > -kAnyNumber) {
    text = absl::StrCat(" from ", low);
  }
  if (high == kBelowOne) return text + " and below 1";
  return high < kAnyNumber ? absl::StrCat(text, text.empty() ? " up to " : " to ", high) : text;
}

}  // namespace

void Problems::Add(const std::string& key, const std::string& what) {
  lines_.push_back(key.empty() ? what : absl::StrCat(key, ": ", what));
}

absl::Status Problems::ToStatus() const {
  if (lines_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
}

absl::StatusOr<json> ParseJson(std::string_view text, size_t bytes_max, int depth_max,
                               KeyOrder* order) {
  if (text.size() > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", text.size(), " bytes long, more than ", bytes_max));
  }
  if (DeeperThan(text, depth_max)) {
    return absl::InvalidArgumentError(absl::StrCat("is nested deeper than ", depth_max));
  }
  PythonNumbers numbers(text);
  ParseWatch watch(numbers, order);
  try {
    json result = json::parse(numbers.Text(text), std::ref(watch));
    if (numbers.number_as_key()) {
      return absl::InvalidArgumentError("a key must be a string, not NaN or Infinity");
    }
    if (!watch.duplicate().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(watch.duplicate(), ": the key occurs twice"));
    }
    return result;
  } catch (const json::exception& error) {  // the library's only way to say where
    const std::string rule = BrokenRule(text);
    if (!rule.empty()) return absl::InvalidArgumentError(rule);
    return absl::InvalidArgumentError(WithoutTag(error.what()));
  }
}

std::string JsonExcerpt(const json& value) {
  constexpr size_t kBytesMax = 60;
  if (value.is_object() && value.size() > 4) return "an object";
  if (value.is_array() && value.size() > 8) return "a list";
  if (value.is_number()) return PythonTextOf(value);
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kBytesMax) text = text.substr(0, kBytesMax) + "...";
  return text;
}

std::string IsNoneOf(const json& value, std::span<const std::string_view> allowed,
                     std::string nearest) {
  if (nearest.empty() && value.is_string()) {
    nearest = NearestName(value.get_ref<const std::string&>(), allowed);
  }
  return absl::StrCat("is ", JsonExcerpt(value), ", but there is only: ", JoinNames(allowed),
                      nearest.empty() ? "" : "; did you mean `" + nearest + "`?");
}

JsonFields::JsonFields(const json& json, std::string path, Problems& problems, Null null)
    : json_(json), path_(std::move(path)), problems_(problems), null_(null) {
  if (!json_.is_object()) {
    problems_.Add(path_, absl::StrCat("must be an object, is ", JsonExcerpt(json_)));
  }
}

const json* JsonFields::Find(const std::string& key) {
  known_.insert(key);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  const bool none = found == json_.end() || (null_ == Null::kAbsent && found->is_null());
  return none ? nullptr : &*found;
}

const json* JsonFields::FindValue(const std::string& key) {
  const json* value = Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void JsonFields::Bool(const std::string& key, bool& out) {
  const json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) {
    return Problem(key, absl::StrCat("must be true or false, is ", JsonExcerpt(*value)));
  }
  out = value->get<bool>();
}

void JsonFields::String(const std::string& key, std::string& out) {
  const json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
    return Problem(key,
                   absl::StrCat("must be a string that is not empty, is ", JsonExcerpt(*value)));
  }
  out = value->get<std::string>();
}

void JsonFields::OneOf(const std::string& key, std::span<const std::string_view> allowed,
                       std::string& out, std::span<const OtherName> other_names) {
  const json* value = Find(key);
  if (value == nullptr) return;
  if (value->is_string()) {
    for (std::string_view name : allowed) {
      if (value->get_ref<const std::string&>() == name) {
        out = std::string(name);
        return;
      }
    }
  }
  std::string nearest;
  for (const auto& [written, meant] : other_names) {
    if (*value == written) nearest = std::string(meant);
  }
  Problem(key, IsNoneOf(*value, allowed, std::move(nearest)));
}

void JsonFields::Number(const std::string& key, double low, double high, double& out) {
  const json* value = Find(key);
  if (value == nullptr) return;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {  // NaN fails too
    return Problem(
        key, absl::StrCat("must be a number", LimitsText(low, high), ", is ", JsonExcerpt(*value)));
  }
  out = number;
}

void JsonFields::Number(const std::string& key, double low, double high, float& out) {
  double number = static_cast<double>(out);
  Number(key, low, high, number);
  out = static_cast<float>(number);
}

void JsonFields::Numbers(const std::string& key, std::vector<double>& out) {
  const json* value = Find(key);
  if (value == nullptr) return;
  const auto finite = [](const json& each) {
    return each.is_number() && std::isfinite(each.get<double>());
  };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), finite)) {
    return Problem(key, absl::StrCat("must be a list of numbers, is ", JsonExcerpt(*value)));
  }
  out = value->get<std::vector<double>>();
}

bool JsonFields::ReadInteger(const std::string& key, uint64_t low, uint64_t high, uint64_t& out) {
  const json* value = Find(key);
  if (value == nullptr) return false;
  // A value counts only if it was written as an integer and fits: nlohmann distinguishes 1 from 1.0
  // and 1e3.
  if (value->is_number_unsigned() || (value->is_number_integer() && value->get<int64_t>() >= 0)) {
    out = value->get<uint64_t>();
    if (out >= low && out <= high) return true;
  }
  Problem(key, absl::StrCat("must be an integer from ", low, " to ", high, ", is ",
                            JsonExcerpt(*value)));
  return false;
}

void JsonFields::Problem(const std::string& key, const std::string& what) {
  problems_.Add(PathOf(key), what);
}

std::string JsonFields::PathOf(const std::string& key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

void JsonFields::ReportUnknown() {
  if (!json_.is_object()) return;
  const std::vector<std::string_view> names(known_.begin(), known_.end());
  for (const auto& [key, value] : json_.items()) {
    if (!known_.contains(key)) Problem(key, absl::StrCat("unknown key", NearestHint(key, names)));
  }
}

}  // namespace paracord
