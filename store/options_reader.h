// Reads the options of a NamedSpec by key. All wrong, unknown or unsupported keys are reported in
// one error. Lives on the stack of the function that reads.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();  // for Range

class OptionsReader {
 public:
  // `path` ("optimizer") precedes the keys in messages.
  OptionsReader(const nlohmann::json& options, std::string path);

  // An absent or null key gives the default.
  double Number(const std::string& key, double otherwise);
  std::optional<double> Number(const std::string& key);
  bool Bool(const std::string& key, bool otherwise);
  const nlohmann::json* Find(const std::string& key);  // null if absent
  // Reports a problem unless low <= value < high.
  void Range(const std::string& key, double value, double low, double high);
  void Problem(const std::string& key, const std::string& what);
  void Take(const absl::Status& status);  // takes an error that names its keys itself
  std::string PathOf(const std::string& key) const { return path_ + "." + key; }

  // Must be called last: unknown keys are problems, too. INVALID_ARGUMENT has one line for each
  // problem.
  absl::Status Finish();

 private:
  const nlohmann::json& options_;
  const std::string path_;
  std::set<std::string> known_;
  std::vector<std::string> problems_;
};

}  // namespace paracord
