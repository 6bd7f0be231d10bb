// Serves a daemon's HTTP address: /metrics for Prometheus, /livez and /readyz for supervisors, and
// /status.json and a page for people. All answers but the page and errors are made on the daemon's
// event loop, and prove that the loop runs. No peer is asked. At most one question for each path
// waits for the loop, and the loop answers /metrics and /status.json at most five times a second.
// Owned by main, which destroys the monitor before the objects that the source refers to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "monitor/http_server.h"
#include "monitor/metric_set.h"
#include "net/health.h"

namespace paracord {

// The functions run on the loop. All but `health` may be null.
struct MonitorSource {
  std::string role;  // "ps"
  std::string task;  // "ps:0"
  std::string version;
  bool insecure = false;  // whether other machines are served without TLS
  std::function<HealthState()> health = nullptr;
  std::function<void(MetricSet& metrics)> measure = nullptr;
  // When the daemon's own certificate expires, in seconds since 1970.
  std::function<int64_t()> certificate_expires_s = nullptr;
  std::function<std::string()> status = nullptr;  // the JSON object of /status.json
  const char* page = nullptr;                     // the HTML of the path /; null: a list of paths
  std::shared_ptr<Credentials> https = nullptr;   // null: HTTP in plain text
};

class Monitor {
 public:
  // Listens at `address`. Returns null if `address` is empty. Errors are those of
  // HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(const std::string& address, EventLoop& loop,
                                                        MonitorSource source,
                                                        const HttpLimits& limits = {});
  ~Monitor();

  const std::string& address() const { return server_->address(); }

 private:
  struct Asked;  // shared with functions posted to the loop
  explicit Monitor(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  static void Ask(const std::shared_ptr<Asked>& asked, const std::string& path,
                  const HttpServer::Answer& answer);

  const std::shared_ptr<Asked> asked_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace paracord
