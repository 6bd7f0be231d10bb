#include "coordinator/core/agreement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/sessions.h"

namespace paracord {
namespace {

constexpr size_t kFactsMax = 16;      // the most disagreeing workers remembered
constexpr int64_t kOpeningTimes = 5;  // for slow workers: times agree_ms

}  // namespace

Agreement::Agreement(std::vector<std::string> named, int64_t agree_ms)
    : named_(std::move(named)), agree_ms_(agree_ms) {}

void Agreement::Came(const std::string& task) {
  if (came_.size() < kSessionsMax) came_.insert(task);
}

bool Agreement::CannotTakePart(const std::string& task, int64_t now_ms) {
  facts_.erase(task);
  if (unable_.empty()) unable_ms_ = now_ms;
  if (unable_.size() < kSessionsMax) unable_.insert(task);
  const auto is_unable = [&](const auto& other) { return unable_.contains(other); };
  if (!named_.empty()) return std::ranges::all_of(named_, is_unable);
  return std::ranges::all_of(came_, is_unable) &&
         (unable_.size() >= 2 || now_ms - unable_ms_ >= agree_ms_);
}

Agreement::Outcome Agreement::Add(const std::string& task, const JobFacts& facts, int64_t now_ms) {
  if (facts_.empty()) first_ms_ = now_ms;
  facts_[task] = facts;
  unable_.erase(task);
  std::map<std::string, size_t> found;  // facts -> number of workers
  for (const auto& [other, theirs] : facts_) ++found[theirs.SerializeAsString()];
  // Among equally frequent facts, those of the first task are chosen.
  const JobFacts& chosen = std::ranges::max_element(facts_, {}, [&](const auto& item) {
                             return found[item.second.SerializeAsString()];
                           })->second;
  const size_t agree = found[chosen.SerializeAsString()];
  // Another worker is still opening its files, or a third one has to decide between two.
  const bool unsure = facts_.size() + unable_.size() < came_.size() || found.size() > 1;
  const bool enough = agree >= 2 || facts_.size() >= kFactsMax || named_.size() < 2 ||
                      now_ms - first_ms_ >= agree_ms_ * (unsure ? kOpeningTimes : 1);
  Outcome outcome;
  if (!enough) {
    outcome.waits =
        absl::StrCat("what ", facts_.begin()->first,
                     " finds in the files waits for another worker that finds the same");
    return outcome;
  }
  if (found.size() > 1) {
    outcome.differs =
        absl::StrCat("the workers do not find the same in the files: the job goes by what ", agree,
                     " of ", facts_.size(), " find");
  }
  outcome.facts = chosen;
  confirmed_.clear();
  for (const auto& [other, theirs] : facts_) {
    if (theirs.SerializeAsString() == outcome.facts->SerializeAsString()) confirmed_.insert(other);
  }
  facts_.clear();
  came_.clear();
  return outcome;
}

void Agreement::Confirm(const std::string& task) {
  facts_.erase(task);
  if (confirmed_.size() < 2) confirmed_.insert(task);
}

bool Agreement::Disagree(const std::string& task, const JobFacts& facts) {
  confirmed_.erase(task);
  if (facts_.size() >= kFactsMax) facts_.clear();
  facts_[task] = facts;
  const std::string found = facts.SerializeAsString();
  const auto same = [&](const auto& item) { return item.second.SerializeAsString() == found; };
  if (std::ranges::count_if(facts_, same) < 2) return false;
  confirmed_.clear();
  for (const auto& item : facts_) {
    if (same(item)) confirmed_.insert(item.first);
  }
  facts_.clear();
  return true;
}

}  // namespace paracord
