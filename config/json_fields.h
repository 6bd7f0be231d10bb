// Reads JSON that people write, strictly. A function that reads an object makes a JsonFields of it,
// collects all problems, each with its full key path ("checkpoint.keep"), and counts unknown keys
// as problems. The JSON must outlive the JsonFields.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace paracord {

class Problems {
 public:
  void Add(const std::string& key, const std::string& what);  // "key: what"
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  absl::Status ToStatus() const;  // INVALID_ARGUMENT, a line for each problem; OK without problems

 private:
  std::vector<std::string> lines_;
};

// The keys of each object in the order of the text (nlohmann::json sorts them), by the path of the
// object ("data.train.features"). Lists add nothing to a path: the keys of a list's objects are
// joined. Objects nested deeper than 8 levels, or below a key of more than 256 bytes, are left out.
using KeyOrder = std::map<std::string, std::vector<std::string>>;

// Parses a whole document. INVALID_ARGUMENT: the syntax is wrong (the error names the line), a key
// occurs twice in an object, nesting is deeper than `depth_max`, or there are more than `bytes_max`
// bytes. Python's NaN, Infinity and -Infinity are read as numbers. `order`, unless null, gets the
// order of the keys.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, size_t bytes_max, int depth_max,
                                         KeyOrder* order = nullptr);

// Returns the value as text for a message, shortened.
std::string JsonExcerpt(const nlohmann::json& value);
// Returns a message that `value` is none of `allowed`. The message lists `allowed` and suggests
// `nearest`, or, if `nearest` is "", the member of `allowed` that is nearest to `value`.
std::string IsNoneOf(const nlohmann::json& value, std::span<const std::string_view> allowed,
                     std::string nearest = "");

// Limits that callers of JsonFields::Number may give.
inline constexpr double kAnyNumber = std::numeric_limits<double>::max();  // any finite number
inline constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
inline constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;

// The fields of one object. A reading function leaves `out` unchanged if the key is absent or its
// value is wrong; a wrong value is a problem.
class JsonFields {
 public:
  enum class Null { kValue, kAbsent };  // whether JSON's null is a value or an absent key
  // `path` is the key path of the object `json`; "" for the whole document. If `json` is no object,
  // this is a problem, and there are no fields.
  JsonFields(const nlohmann::json& json, std::string path, Problems& problems,
             Null null = Null::kValue);

  // Returns the value; null if the key is absent. From now on the key is known to ReportUnknown.
  const nlohmann::json* Find(const std::string& key);
  // Like Find, but returns null also for JSON's null.
  const nlohmann::json* FindValue(const std::string& key);

  void Bool(const std::string& key, bool& out);
  void String(const std::string& key, std::string& out);
  // `other_names` pairs a common wrong name with the member of `allowed` that is meant: if a job
  // has the wrong name, the problem suggests the right one.
  using OtherName = std::pair<std::string_view, std::string_view>;
  void OneOf(const std::string& key, std::span<const std::string_view> allowed, std::string& out,
             std::span<const OtherName> other_names = {});
  void Number(const std::string& key, double low, double high, double& out);
  void Number(const std::string& key, double low, double high, float& out);
  // Reads a list of finite numbers.
  void Numbers(const std::string& key, std::vector<double>& out);

  template <class T>
  void Integer(const std::string& key, uint64_t low, uint64_t high, T& out) {
    const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<T>::max());
    uint64_t value = 0;
    if (ReadInteger(key, low, high < limit ? high : limit, value)) out = static_cast<T>(value);
  }

  void Problem(const std::string& key, const std::string& what);
  std::string PathOf(const std::string& key) const;
  // Adds a problem for each key that no earlier call has asked for. Called last.
  void ReportUnknown();

 private:
  bool ReadInteger(const std::string& key, uint64_t low, uint64_t high, uint64_t& out);

  const nlohmann::json& json_;
  const std::string path_;
  Problems& problems_;
  const Null null_;
  std::set<std::string> known_;
};

}  // namespace paracord
