#include "net/served_connections.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/try_thread.h"

namespace paracord {
namespace {

constexpr size_t kConnectionsMax = 1024;

}  // namespace

ServedConnections::~ServedConnections() {
  for (Served& served : served_) {
    served.abort();
    served.thread.join();
  }
}

bool ServedConnections::Add(std::function<void()> run, std::function<void()> abort,
                            const std::string& task, int64_t of_task_max,
                            PeerCertificate certificate) {
  if (served_.size() >= kConnectionsMax) return false;
  const auto same = [&](const Served& other) { return other.task == task; };
  if (!task.empty() && std::ranges::count_if(served_, same) >= of_task_max) return false;
  Served& served = served_.emplace_back();
  served.task = task;
  served.abort = std::move(abort);
  served.certificate = std::move(certificate);
  std::optional<std::thread> thread = TryThread([&served, run = std::move(run)] {
    run();
    served.over = true;
  });
  if (!thread.has_value()) {
    served_.pop_back();
    return false;
  }
  served.thread = *std::move(thread);
  return true;
}

void ServedConnections::EndIf(const std::function<bool(const PeerCertificate& certificate)>& ends) {
  for (const Served& served : served_) {
    if (!served.over && ends(served.certificate)) served.abort();
  }
}

void ServedConnections::Reap() {
  std::erase_if(served_, [](Served& served) {
    if (!served.over) return false;
    served.thread.join();
    return true;
  });
}

}  // namespace paracord
