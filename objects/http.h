// HTTP by libcurl (objects/curl_library.h): one blocking request at a time and thread, over
// connections that are kept. Thread-safe.
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
  std::string url;                        // encoded
  std::vector<std::string> headers = {};  // "name: value"
  std::string_view body = {};             // of PUT and POST
  size_t reply_bytes_max = 32 << 20;      // of the reply's body
};

struct HttpResponse {
  int code = 0;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
};

class HttpClient {
 public:
  // A request has failed that long after the last byte. Requests of a thread that fail so one after
  // the other, as tries of the same do, have twice as long each, up to `silence_max_s`.
  // `ca_bundle` is a file of the authorities that are believed; "": libcurl's own.
  explicit HttpClient(int silence_s = 4, int silence_max_s = 32, std::string ca_bundle = "")
      : silence_s_(silence_s), silence_max_s_(silence_max_s), ca_bundle_(std::move(ca_bundle)) {}
  ~HttpClient();

  // Sends a request and waits for the reply, whatever its code. UNAVAILABLE: no whole reply came.
  // IsTooLarge: its body has more than reply_bytes_max bytes, and the rest was not fetched.
  // FAILED_PRECONDITION: this machine has no libcurl, or the server's certificate is refused.
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request);

 private:
  void* Take(const CurlLibrary& curl);
  void GiveBack(const CurlLibrary& curl, void* handle);

  const int silence_s_, silence_max_s_;
  const std::string ca_bundle_;
  Mutex mu_;
  std::vector<void*> idle_ ABSL_GUARDED_BY(mu_);  // curl's handles
};

// Whether the request failed because the reply's body was too large.
bool IsTooLarge(const absl::Status& status);

// Encodes every character as "%XX" except letters, digits, "-._~" and, with `slash`, "/".
std::string UrlEncode(std::string_view text, bool slash);

}  // namespace paracord
