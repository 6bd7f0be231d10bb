#include "net/service_by_method.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"

namespace paracord {
namespace {

// "paracord.Coordinator" of "/paracord.Coordinator/Join"; "" if `method` has another form.
std::string_view ServiceOf(std::string_view method) {
  const size_t end = method.rfind('/');
  if (method.empty() || method.front() != '/' || end == 0) return "";
  return method.substr(1, end - 1);
}

}  // namespace

void ServiceByMethod::Add(std::string name, Service& service) {
  MutexLock lock(mu_);
  entries_[std::move(name)].service = &service;
}

void ServiceByMethod::Handle(std::string_view method, absl::Cord request,
                             std::shared_ptr<ServerCall> call) {
  constexpr size_t kShownBytesMax = 100;
  Service* service = nullptr;
  Entry* entry = nullptr;
  {
    MutexLock lock(mu_);
    const auto found = entries_.find(ServiceOf(method));
    if (found != entries_.end()) {
      entry = &found->second;
      service = entry->service;
      if (service != nullptr) ++entry->inside;
    }
  }
  if (entry == nullptr) {
    return call->Reply(
        absl::UnimplementedError(absl::StrCat("no method ", OneLine(method, kShownBytesMax))));
  }
  if (service == nullptr) {
    return call->Reply(absl::UnavailableError(
        absl::StrCat("the ", std::string(ServiceOf(method)), " of this process has left")));
  }
  service->Handle(method, std::move(request), std::move(call));
  MutexLock lock(mu_);
  if (--entry->inside == 0) left_.notify_all();
}

void ServiceByMethod::Remove(std::string_view name) {
  std::unique_lock<std::mutex> lock(mu_.native());
  const auto none_inside = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return true;
    found->second.service = nullptr;
    return found->second.inside == 0;
  };
  left_.wait(lock, none_inside);
}

}  // namespace paracord
