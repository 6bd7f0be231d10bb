// Reads the options of a NamedSpec, by key: what is wrong, unknown or unsupported becomes one error
// that names every such key. Lives on the stack of the function that reads.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace paracord {

class OptionsReader {
 public:
  // `path` goes before the keys in messages: "optimizer".
  OptionsReader(const nlohmann::json& options, std::string path);

  // Absent or null: the default.
  double Number(const std::string& key, double otherwise);
  std::optional<double> Number(const std::string& key);
  bool Bool(const std::string& key, bool otherwise);
  const nlohmann::json* Find(const std::string& key);  // null if absent
  // Complains if low <= value < high does not hold.
  void Range(const std::string& key, double value, double low, double high);
  void Problem(const std::string& key, const std::string& what);
  void Take(const absl::Status& status);  // an error that names its keys itself
  std::string PathOf(const std::string& key) const { return path_ + "." + key; }

  // Call last: unknown keys are problems too. INVALID_ARGUMENT with one line a problem.
  absl::Status Finish();

 private:
  const nlohmann::json& options_;
  const std::string path_;
  std::set<std::string> known_;
  std::vector<std::string> problems_;
};

}  // namespace paracord
