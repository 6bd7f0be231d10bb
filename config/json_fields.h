// Reads JSON that people write, strictly: a reading function collects all problems, each with its
// full key path ("checkpoint.keep"), and unknown keys are problems. A JsonFields is a local
// variable of a reading function; the JSON must outlive it.
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
  absl::Status ToStatus() const;  // INVALID_ARGUMENT with one line a problem; OK if there is none

 private:
  std::vector<std::string> lines_;
};

// The keys of each object in the order of the text (nlohmann::json sorts them), by the path of the
// object ("data.train.features"). Lists add nothing to a path: keys of a list's objects are joined.
// Objects that are nested deeper than 8 levels are left out.
using KeyOrder = std::map<std::string, std::vector<std::string>>;

// Parses a whole document. An error of syntax names the line. It is an error if a key occurs twice
// in an object, if nesting is deeper than `depth_max`, or if there are more than `bytes_max` bytes.
// Python's NaN, Infinity and -Infinity are read as numbers. `order`, unless null, gets the order of
// the keys.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, size_t bytes_max, int depth_max,
                                         KeyOrder* order = nullptr);

// Returns the value as text for a message, shortened.
std::string JsonExcerpt(const nlohmann::json& value);
// Returns a message that a value is not one of `allowed`, with all of `allowed` and a suggestion:
// `nearest` if given, else the nearest of `allowed`.
std::string IsNoneOf(const nlohmann::json& value, std::span<const std::string_view> allowed,
                     std::string nearest = "");

// Limits for JsonFields::Number.
inline constexpr double kAnyNumber = std::numeric_limits<double>::max();  // any finite number
inline constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
inline constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;

// The fields of one object. A reading function leaves `out` unchanged if the key is absent or its
// value is wrong.
class JsonFields {
 public:
  enum class Null { kValue, kAbsent };  // whether JSON's null counts as a value or as an absent key
  // `path` is the key path of the object `json`, "" for the whole document. A `json` that is not an
  // object is a problem and has no fields.
  JsonFields(const nlohmann::json& json, std::string path, Problems& problems,
             Null null = Null::kValue);

  // Returns the value, or null if the key is absent. ReportUnknown accepts the key from now on.
  const nlohmann::json* Find(const std::string& key);
  // Returns the value, or null if the key is absent or its value is JSON's null.
  const nlohmann::json* FindValue(const std::string& key);

  void Bool(const std::string& key, bool& out);
  void String(const std::string& key, std::string& out);
  // `other_names` pairs a common wrong name with the member of `allowed` that is meant. A wrong
  // name is a problem, and the message suggests the right name.
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
  // Adds a problem for each key that no call has asked for. Called last.
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
