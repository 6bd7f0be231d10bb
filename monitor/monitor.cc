#include "monitor/monitor.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"

namespace paracord {
namespace {

constexpr int64_t kYoungMs = 200;  // how long a costly answer is reused
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

HttpReply Metrics(const MonitorSource& source) {
  MetricSet metrics(MetricSet::Labels{{"role", source.role}, {"task", source.task}});
  AddProcessMetrics(source.version, source.insecure, metrics);
  metrics.Gauge("paracord_ready", "1 while the daemon takes part in a job, or its job is done.",
                source.health().ready ? 1 : 0);
  if (source.certificate_expires_s != nullptr) {
    metrics.Gauge("paracord_certificate_expiry_timestamp_seconds",
                  "When the daemon's own certificate expires, since 1970.",
                  static_cast<double>(source.certificate_expires_s()));
  }
  if (source.measure != nullptr) source.measure(metrics);
  return {200, metrics.Text(), kMetricsType};
}

HttpReply ReplyOf(const MonitorSource& source, const std::string& path) {
  if (path == "/livez") return {200, "the event loop turns\n"};
  if (path == "/readyz") {
    const HealthState state = source.health();
    return {state.ready ? 200 : 503, absl::StrCat(source.task, " ", state.text, "\n")};
  }
  if (path == "/metrics") return Metrics(source);
  return {200, source.status(), "application/json"};
}

// Returns whether the answer is costly and therefore reused for a while. Supervisors always get a
// fresh one.
bool IsCostly(const std::string& path) { return path != "/livez" && path != "/readyz"; }

// Answers "/" without the loop: the page, or a list of paths.
HttpReply Front(const MonitorSource& source) {
  if (source.page != nullptr) return {200, source.page, "text/html; charset=utf-8"};
  return {200, absl::StrCat(source.task, " shows /metrics, /livez and /readyz\n")};
}

}  // namespace

struct Monitor::Asked {
  // The state of a path: clients that wait for the loop's answer, and the last answer.
  struct Path {
    std::vector<HttpServer::Answer> waiting;
    HttpReply reply;
    std::optional<int64_t> made_ms;
  };
  Asked(EventLoop& its_loop, MonitorSource its_source)
      : loop(its_loop), source(std::move(its_source)) {}

  EventLoop& loop;
  const MonitorSource source;
  bool alive = true;  // used only on the loop
  Mutex mu;
  std::map<std::string, Path> paths ABSL_GUARDED_BY(mu);
};

// Replies with a recent answer, or asks the loop once for all waiting clients.
void Monitor::Ask(const std::shared_ptr<Asked>& asked, const std::string& path,
                  const HttpServer::Answer& answer) {
  std::optional<HttpReply> young;
  {
    MutexLock lock(asked->mu);
    Asked::Path& shown = asked->paths[path];
    if (shown.made_ms.has_value() && SteadyMs() - *shown.made_ms < kYoungMs) {
      young = shown.reply;
    } else {
      shown.waiting.push_back(answer);
      if (shown.waiting.size() > 1) return;
    }
  }
  if (young.has_value()) return answer(*std::move(young));
  asked->loop.Post([asked, path] {
    if (!asked->alive) return;
    const HttpReply reply = ReplyOf(asked->source, path);
    std::vector<HttpServer::Answer> waiting;
    {
      MutexLock lock(asked->mu);
      Asked::Path& shown = asked->paths[path];
      waiting.swap(shown.waiting);
      if (IsCostly(path)) {
        shown.reply = reply;
        shown.made_ms = SteadyMs();
      }
    }
    for (const HttpServer::Answer& each : waiting) each(reply);
  });
}

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(const std::string& address, EventLoop& loop,
                                                        MonitorSource source,
                                                        const HttpLimits& limits) {
  if (address.empty()) return nullptr;
  std::unique_ptr<Monitor> monitor(new Monitor(std::make_shared<Asked>(loop, std::move(source))));
  const auto handle = [asked = monitor->asked_](const std::string& path,
                                                const HttpServer::Answer& answer) {
    const MonitorSource& shown = asked->source;
    if (path == "/") return answer(Front(shown));
    const bool status = path == "/status.json" && shown.status != nullptr;
    if (!status && path != "/livez" && path != "/readyz" && path != "/metrics") {
      return answer({404, "there is nothing here; / says what there is\n"});
    }
    Ask(asked, path, answer);
  };
  ASSIGN_OR_RETURN(monitor->server_,
                   HttpServer::Start(address, handle, limits, monitor->asked_->source.https));
  return monitor;
}

// Runs on the loop's thread, or after the loop has ended.
Monitor::~Monitor() {
  server_.reset();
  asked_->alive = false;
}

}  // namespace paracord
