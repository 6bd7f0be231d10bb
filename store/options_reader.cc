#include "store/options_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {

OptionsReader::OptionsReader(const nlohmann::json& options, std::string path)
    : options_(options), path_(std::move(path)) {
  if (!options.is_object()) problems_.push_back(path_ + ": must be an object");
}

const nlohmann::json* OptionsReader::Find(const std::string& key) {
  known_.insert(key);
  if (!options_.is_object()) return nullptr;
  const auto it = options_.find(key);
  return it == options_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<double> OptionsReader::Number(const std::string& key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    Problem(key, "must be a number");
    return std::nullopt;
  }
  return value->get<double>();
}

double OptionsReader::Number(const std::string& key, double otherwise) {
  return Number(key).value_or(otherwise);
}

bool OptionsReader::Bool(const std::string& key, bool otherwise) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Problem(key, "must be true or false");
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

void OptionsReader::Range(const std::string& key, double value, double low, double high) {
  if (!(value >= low && value < high)) {
    Problem(key, absl::StrCat("must be at least ", low, " and below ", high, ", is ", value));
  }
}

void OptionsReader::Problem(const std::string& key, const std::string& what) {
  problems_.push_back(absl::StrCat(PathOf(key), ": ", what));
}

void OptionsReader::Take(const absl::Status& status) {
  if (!status.ok()) problems_.emplace_back(status.message());
}

absl::Status OptionsReader::Finish() {
  if (options_.is_object()) {
    for (const auto& [key, value] : options_.items()) {
      if (!known_.contains(key)) Problem(key, "is not an option here");
    }
  }
  if (problems_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
}

}  // namespace paracord
