// Serves what a daemon shows at its HTTP address: /metrics for Prometheus, /livez and /readyz for
// supervisors, and for who watches a job /status.json and a page. All of it is asked for on the
// daemon's event loop, so that an answer shows that the loop turns; no peer is asked. However many
// ask, the loop is asked for a path once at a time, and for what is costly five times a second at
// most. Owned by main, which destroys it before what the source refers to.
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

// The functions run on the loop; those that are null have nothing to show.
struct MonitorSource {
  std::string role;  // "ps"
  std::string task;  // "ps:0"
  std::string version;
  bool insecure = false;  // addresses beyond this machine are served without TLS
  std::function<HealthState()> health = nullptr;
  std::function<void(MetricSet& metrics)> measure = nullptr;
  std::function<int64_t()> certificate_expires_s = nullptr;  // of its own one, since 1970
  std::function<std::string()> status = nullptr;             // one JSON object
  const char* page = nullptr;                                // HTML
  std::shared_ptr<Credentials> https = nullptr;              // whose certificate HTTPS shows
};

class Monitor {
 public:
  // Listens at `address`; null if that is empty. Errors are those of ListenAt.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(const std::string& address, EventLoop& loop,
                                                        MonitorSource source,
                                                        const HttpLimits& limits = {});
  ~Monitor();

  const std::string& address() const { return server_->address(); }

 private:
  struct Asked;  // outlives this object in posted functions
  explicit Monitor(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  static void Ask(const std::shared_ptr<Asked>& asked, const std::string& path,
                  const HttpServer::Answer& answer);

  const std::shared_ptr<Asked> asked_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace paracord
