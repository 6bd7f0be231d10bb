// HTTP by libcurl (objects/curl_library.h). Send blocks its thread. Connections are kept and used
// again by later requests. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace paracord {

struct CurlLibrary;

struct HttpRequest {
  std::string method = "GET";
  std::string url;                        // percent-encoded
  std::vector<std::string> headers = {};  // each "name: value"
  std::string_view body = {};             // sent with PUT and POST only
  size_t reply_bytes_max = 32 << 20;      // limit of the reply's body
};

struct HttpResponse {
  int code = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class HttpClient {
 public:
  // A request times out after `silence_s` seconds without a byte, or ten without a connection. Each
  // timeout doubles `silence_s` for the next request of this thread, up to `silence_max_s`; a
  // request that does not time out restores it. `ca_bundle` is a file of trusted authorities; "":
  // libcurl's default.
  explicit HttpClient(int silence_s = 4, int silence_max_s = 32, std::string ca_bundle = "")
      : silence_s_(silence_s), silence_max_s_(silence_max_s), ca_bundle_(std::move(ca_bundle)) {}
  ~HttpClient();

  // Sends a request and returns the reply, whatever its code. UNAVAILABLE: no complete reply came.
  // FAILED_PRECONDITION: the body exceeds reply_bytes_max, and the rest was not fetched
  // (IsTooLarge); libcurl is missing; the server's certificate is refused; or `ca_bundle` cannot be
  // used.
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request);

 private:
  void* Take(const CurlLibrary& curl);
  void GiveBack(const CurlLibrary& curl, void* handle);

  const int silence_s_, silence_max_s_;
  const std::string ca_bundle_;
  Mutex mu_;
  std::vector<void*> idle_ ABSL_GUARDED_BY(mu_);  // curl handles
};

// Returns whether a request failed because of a reply above reply_bytes_max.
bool IsTooLarge(const absl::Status& status);

// Percent-encodes all characters except letters, digits, "-._~" and, with `slash`, "/".
std::string UrlEncode(std::string_view text, bool slash);

}  // namespace paracord
