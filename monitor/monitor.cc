#include "monitor/monitor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

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

// Answers what needs no loop: the page, and the list of paths.
HttpReply Front(const MonitorSource& source) {
  if (source.page != nullptr) return {200, source.page, "text/html; charset=utf-8"};
  return {200, absl::StrCat(source.task, " shows /metrics, /livez and /readyz\n")};
}

}  // namespace

struct Monitor::Asked {
  EventLoop& loop;
  const MonitorSource source;
  bool alive = true;  // on the loop alone
};

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(const std::string& address, EventLoop& loop,
                                                        MonitorSource source,
                                                        const HttpLimits& limits) {
  if (address.empty()) return nullptr;
  std::unique_ptr<Monitor> monitor(
      new Monitor(std::make_shared<Asked>(Asked{loop, std::move(source)})));
  const auto handle = [asked = monitor->asked_](const std::string& path,
                                                const HttpServer::Answer& answer) {
    const MonitorSource& shown = asked->source;
    if (path == "/") return answer(Front(shown));
    const bool status = path == "/status.json" && shown.status != nullptr;
    if (!status && path != "/livez" && path != "/readyz" && path != "/metrics") {
      return answer({404, "there is nothing here; / says what there is\n"});
    }
    asked->loop.Post([asked, path, answer] {
      if (asked->alive) answer(ReplyOf(asked->source, path));
    });
  };
  ASSIGN_OR_RETURN(monitor->server_,
                   HttpServer::Start(address, handle, limits, monitor->asked_->source.https));
  return monitor;
}

// Runs on the loop's thread, or when the loop has ended.
Monitor::~Monitor() {
  server_.reset();
  asked_->alive = false;
}

}  // namespace paracord
