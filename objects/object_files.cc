#include "objects/object_files.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/try_thread.h"

namespace paracord {
namespace {

constexpr size_t kFactsMax = 1 << 17;  // entries kept from lists

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace

template <class Call>
auto ObjectFiles::Ask(Call call, bool* retried) {
  for (int tries = 1;; ++tries) {
    auto answer = call();
    const absl::Status& status = StatusOf(answer);
    if (!absl::IsUnavailable(status) || !wait_(tries, status)) return answer;
    if (retried != nullptr) *retried = true;
  }
}

// Sequential reads fetch more than asked for, because each request costs a round trip.
class ObjectFiles::Reader : public ReadFile {
 public:
  static constexpr uint64_t kAheadBytes = 8 << 20, kApartBytes = 64 << 10;

  // `beginning`: the first bytes of the object, if already fetched.
  Reader(ObjectFiles& files, std::string path, ObjectFacts facts, std::string beginning = "")
      : files_(files),
        path_(std::move(path)),
        facts_(std::move(facts)),
        ahead_(std::move(beginning)) {}
  uint64_t size() const override { return facts_.size; }
  std::string identity() const override { return absl::StrCat(facts_.size, " ", facts_.version); }

  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
    if (offset > facts_.size || out.size() > facts_.size - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, " ends at byte ", facts_.size,
                                                ", before byte ", offset + out.size()));
    }
    if (out.size() >= kAheadBytes) return Get(offset, out);
    MutexLock lock(mu_);
    const bool held = offset >= begin_ && offset + out.size() <= begin_ + ahead_.size();
    if (!held) RETURN_IF_ERROR(Fill(offset, out.size()));
    std::copy_n(ahead_.data() + (offset - begin_), out.size(), out.data());
    return absl::OkStatus();
  }

 private:
  absl::Status Get(uint64_t offset, std::span<char> out) const {
    return files_.Ask([&] { return files_.store_.Get(path_, facts_.version, offset, out); });
  }
  absl::Status Fill(uint64_t offset, uint64_t wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const uint64_t end = begin_ + ahead_.size();
    const bool goes_on = offset >= begin_ && offset <= end;
    const uint64_t bytes = std::max(wanted, goes_on ? kAheadBytes : kApartBytes);
    std::string fetched(static_cast<size_t>(std::min(bytes, facts_.size - offset)), '\0');
    RETURN_IF_ERROR(Get(offset, fetched));
    ahead_ = std::move(fetched);
    begin_ = offset;
    return absl::OkStatus();
  }

  ObjectFiles& files_;
  const std::string path_;
  const ObjectFacts facts_;
  mutable Mutex mu_;
  mutable uint64_t begin_ ABSL_GUARDED_BY(mu_) = 0;
  mutable std::string ahead_ ABSL_GUARDED_BY(mu_);
};

// Writes an object in one request if it fits, otherwise in parts.
class ObjectFiles::Writer : public WriteFile {
 public:
  Writer(ObjectFiles& files, std::string path) : files_(files), upload_{std::move(path), ""} {}
  ~Writer() override {
    if (!upload_.id.empty() && !synced_) files_.store_.AbortUpload(upload_).IgnoreError();
  }

  absl::Status Append(std::string_view bytes) override {
    if (error_.ok() && synced_) {
      error_ = absl::FailedPreconditionError(upload_.path + ": an object does not grow");
    }
    while (error_.ok() && !bytes.empty()) {
      const size_t taken = std::min(bytes.size(), PartBytes() - part_.size());
      part_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (part_.size() == PartBytes()) error_ = Send();
    }
    return error_;
  }

  absl::Status Sync() override {
    if (error_.ok() && !synced_) error_ = Finish();
    return error_;
  }

 private:
  // A store accepts at most 10,000 parts, so part sizes grow.
  size_t PartBytes() const {
    return files_.part_bytes_ << std::min<size_t>(tags_.size() / 1000, 8);
  }

  absl::Status Send() {
    if (upload_.id.empty()) {
      ASSIGN_OR_RETURN(upload_.id,
                       files_.Ask([&] { return files_.store_.StartUpload(upload_.path); }));
    }
    const auto number = static_cast<uint32_t>(tags_.size() + 1);
    ASSIGN_OR_RETURN(std::string tag,
                     files_.Ask([&] { return files_.store_.PutPart(upload_, number, part_); }));
    FAILPOINT("objects.part");
    tags_.push_back(std::move(tag));
    bytes_ += part_.size();
    part_.clear();
    return absl::OkStatus();
  }

  absl::Status Finish() {
    FAILPOINT("objects.finish");
    if (upload_.id.empty()) {
      RETURN_IF_ERROR(files_.WriteAtomic(upload_.path, part_));
    } else {
      if (!part_.empty()) RETURN_IF_ERROR(Send());
      RETURN_IF_ERROR(Complete());
    }
    synced_ = true;
    return absl::OkStatus();
  }

  // Finishes the upload. If the store's answer to the first try was lost, the upload is gone but
  // the object exists.
  absl::Status Complete() {
    bool retried = false;
    const absl::Status done =
        files_.Ask([&] { return files_.store_.FinishUpload(upload_, tags_); }, &retried);
    if (!retried || !absl::IsNotFound(done)) return done;
    ASSIGN_OR_RETURN(const ObjectFacts facts,
                     files_.Ask([&] { return files_.store_.Look(upload_.path); }));
    return facts.size == bytes_ ? absl::OkStatus() : done;
  }

  ObjectFiles& files_;
  OpenUpload upload_;
  std::string part_;
  std::vector<std::string> tags_;
  uint64_t bytes_ = 0;  // bytes in uploaded parts
  bool synced_ = false;
  absl::Status error_;
};

absl::StatusOr<std::unique_ptr<ReadFile>> ObjectFiles::Open(const std::string& path) {
  if (std::optional<Expected> known = TakeExpected(path); known.has_value()) {
    return std::make_unique<Reader>(*this, path, std::move(known->facts),
                                    std::move(known->beginning));
  }
  ASSIGN_OR_RETURN(ObjectFacts facts, Ask([&] { return store_.Look(path); }));
  return std::make_unique<Reader>(*this, path, std::move(facts));
}

void ObjectFiles::Expect(const std::vector<std::string>& paths) {
  MutexLock lock(mu_);
  if (expected_.size() > kFactsMax) expected_.clear();
  for (const std::string& path : paths) {
    const auto facts = listed_.find(path);
    if (facts == listed_.end()) continue;
    Expected expected;
    expected.facts = facts->second;
    expected_[path] = std::move(expected);
  }
  listed_.clear();
}

std::optional<ObjectFiles::Expected> ObjectFiles::TakeExpected(const std::string& path) {
  FetchFrom(path);
  MutexLock lock(mu_);
  const auto found = expected_.find(path);
  if (found == expected_.end()) return std::nullopt;
  Expected taken = found->second;
  found->second.beginning.clear();
  return taken;
}

// Fetches the beginnings of an expected object and its successors, unless already fetched. An
// object that cannot be fetched is no longer expected, and is looked up anew when opened.
void ObjectFiles::FetchFrom(const std::string& path) {
  constexpr size_t kTogether = 32, kThreads = 16;
  struct Fetch {
    std::string path;
    Expected expected;
    bool failed = false;
  };
  std::vector<Fetch> all;
  {
    MutexLock lock(mu_);
    auto at = expected_.find(path);
    if (at == expected_.end() || at->second.fetched) return;
    for (; at != expected_.end() && all.size() < kTogether; ++at) {
      if (!at->second.fetched) all.push_back({at->first, at->second});
    }
  }
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < all.size(); i = next++) {
      const ObjectFacts& facts = all[i].expected.facts;
      std::string& beginning = all[i].expected.beginning;
      beginning = std::string(static_cast<size_t>(std::min(facts.size, Reader::kApartBytes)), '\0');
      all[i].failed = !store_.Get(all[i].path, facts.version, 0, beginning).ok();
    }
  };
  std::vector<std::thread> helpers;
  while (helpers.size() + 1 < std::min(all.size(), kThreads)) {
    std::optional<std::thread> helper = TryThread(work);
    if (!helper.has_value()) break;
    helpers.push_back(*std::move(helper));
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  MutexLock lock(mu_);
  for (Fetch& each : all) {
    if (each.failed) {
      expected_.erase(each.path);
    } else {
      each.expected.fetched = true;
      expected_[each.path] = std::move(each.expected);
    }
  }
}

absl::StatusOr<std::unique_ptr<WriteFile>> ObjectFiles::Create(const std::string& path) {
  return std::make_unique<Writer>(*this, path);
}

absl::StatusOr<std::unique_ptr<WriteFile>> ObjectFiles::OpenToAppend(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(path, ": an object does not grow"));
}

absl::Status ObjectFiles::CreateExclusive(const std::string& path, std::string_view contents) {
  bool retried = false;
  const absl::Status put =
      Ask([&] { return store_.Put(path, contents, /*if_absent=*/true); }, &retried);
  if (put.ok()) return CheckConditions(path, contents);
  if (!retried || !absl::IsAlreadyExists(put)) return put;
  // A try with a lost answer may have succeeded.
  const absl::StatusOr<std::string> there = ReadWhole(path);
  return there.ok() && *there == contents ? absl::OkStatus() : put;
}

// Checks that the store respects `if_absent`. A store that does not know the condition may ignore
// it.
absl::Status ObjectFiles::CheckConditions(const std::string& path, std::string_view contents) {
  if (conditions_kept_) return absl::OkStatus();
  const absl::Status again = Ask([&] { return store_.Put(path, contents, /*if_absent=*/true); });
  if (again.ok()) {
    return absl::UnimplementedError(absl::StrCat(
        path,
        ": the store ignores `If-None-Match: *`, by which two coordinators are kept apart: "
        "give another store, or a newer version of it"));
  }
  conditions_kept_ = absl::IsAlreadyExists(again);
  return absl::OkStatus();
}

absl::Status ObjectFiles::Rename(const std::string& from, const std::string& to) {
  return absl::UnimplementedError(
      absl::StrCat(from, " cannot be renamed to ", to, ": objects have no other names"));
}

absl::Status ObjectFiles::SyncDirectory(const std::string&) { return absl::OkStatus(); }

absl::Status ObjectFiles::MakeDirectories(const std::string& path) {
  return Ask([&] { return store_.Put(path + "/", "", /*if_absent=*/false); });
}

absl::StatusOr<std::vector<std::string>> ObjectFiles::ListAll(const std::string& prefix,
                                                              bool deep) {
  std::vector<std::string> names;
  std::string from;
  do {
    ASSIGN_OR_RETURN(ObjectList page, Ask([&] { return store_.List(prefix, deep, from); }));
    std::move(page.names.begin(), page.names.end(), std::back_inserter(names));
    MutexLock lock(mu_);
    if (listed_.size() > kFactsMax) listed_.clear();
    for (auto& [name, facts] : page.facts) listed_[prefix + name] = std::move(facts);
    from = std::move(page.next);
  } while (!from.empty());
  return names;
}

absl::StatusOr<std::vector<std::string>> ObjectFiles::List(const std::string& path) {
  const std::string prefix = path.ends_with('/') ? path : path + "/";
  ASSIGN_OR_RETURN(const std::vector<std::string> found, ListAll(prefix, /*deep=*/false));
  if (found.empty())
    return absl::NotFoundError(absl::StrCat(path, ": there is no object below it"));
  std::vector<std::string> names;
  for (std::string name : found) {
    if (name.ends_with('/')) name.pop_back();
    if (!name.empty()) names.push_back(std::move(name));  // "" is the marker of MakeDirectories()
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::Status ObjectFiles::RemoveTree(const std::string& path) {
  RETURN_IF_ERROR(Ask([&] { return store_.Remove(path); }));
  const std::string prefix = path + "/";
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListAll(prefix, /*deep=*/true));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(Ask([&] { return store_.Remove(prefix + name); }));
  }
  return AbandonUnfinished(path);
}

// Aborts the uploads of killed processes, whose parts would cost money until then.
absl::Status ObjectFiles::AbandonUnfinished(const std::string& directory) {
  const auto uploads = Ask([&] { return store_.Uploads(directory + "/"); });
  const bool unasked =
      absl::IsUnimplemented(uploads.status()) || absl::IsPermissionDenied(uploads.status());
  if (unasked) return absl::OkStatus();
  RETURN_IF_ERROR(uploads.status());
  for (const OpenUpload& upload : *uploads) {
    RETURN_IF_ERROR(Ask([&] { return store_.AbortUpload(upload); }));
  }
  return absl::OkStatus();
}

absl::Status ObjectFiles::WriteAtomic(const std::string& path, std::string_view contents) {
  return Ask([&] { return store_.Put(path, contents, /*if_absent=*/false); });
}

}  // namespace paracord
