#include "objects/http.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "objects/curl_library.h"

namespace paracord {
namespace {

constexpr size_t kIdleMax = 16;
constexpr const char* kTooLarge = "paracord/reply-too-large";
constexpr int kSilentMax = 8;  // the time stops growing at this count

// The body of a reply, and its greatest allowed size.
struct ReplyBody {
  std::string& bytes;
  size_t bytes_max;
  bool too_large = false;
};

size_t TakeBody(char* bytes, size_t size, size_t count, void* of) {
  auto& body = *static_cast<ReplyBody*>(of);
  body.too_large = size * count > body.bytes_max - body.bytes.size();
  if (body.too_large) return 0;  // ends the request
  body.bytes.append(bytes, size * count);
  return size * count;
}

size_t TakeHeader(char* bytes, size_t size, size_t count, void* reply) {
  auto& headers = static_cast<HttpResponse*>(reply)->headers;
  const std::string line(bytes, size * count);
  const size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    headers.clear();  // drops the headers of "100 Continue"
  } else if (colon != std::string::npos) {
    headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return size * count;
}

// The body of a request. curl sends it again if a kept connection turns out to be closed.
struct Body {
  std::string_view whole, rest;
};

size_t GiveRest(char* to, size_t size, size_t count, void* of) {
  std::string_view& rest = static_cast<Body*>(of)->rest;
  const size_t given = std::min(rest.size(), size * count);
  std::copy_n(rest.data(), given, to);
  rest.remove_prefix(given);
  return given;
}

int Rewind(void* of, curl_off_t offset, int) {
  auto& body = *static_cast<Body*>(of);
  if (offset < 0 || static_cast<size_t>(offset) > body.whole.size()) return CURL_SEEKFUNC_FAIL;
  body.rest = body.whole.substr(static_cast<size_t>(offset));
  return CURL_SEEKFUNC_OK;
}

void Method(const CurlLibrary& curl, CURL* handle, const HttpRequest& request, Body& body) {
  if (request.method == "HEAD") {
    curl.easy_setopt(handle, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    curl.easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    curl.easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl.easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body.whole.size()));
    curl.easy_setopt(handle, CURLOPT_READFUNCTION, GiveRest);
    curl.easy_setopt(handle, CURLOPT_READDATA, &body);
    curl.easy_setopt(handle, CURLOPT_SEEKFUNCTION, Rewind);
    curl.easy_setopt(handle, CURLOPT_SEEKDATA, &body);
    curl.easy_setopt(handle, CURLOPT_EXPECT_100_TIMEOUT_MS, 1000L);
  } else if (request.method != "GET") {
    curl.easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

}  // namespace

HttpClient::~HttpClient() {
  if (idle_.empty()) return;
  const absl::StatusOr<const CurlLibrary*> curl = TheCurlLibrary();
  for (void* handle : idle_) (*curl)->easy_cleanup(handle);
}

void* HttpClient::Take(const CurlLibrary& curl) {
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      void* const handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  return curl.easy_init();
}

void HttpClient::GiveBack(const CurlLibrary& curl, void* handle) {
  {
    MutexLock lock(mu_);
    if (idle_.size() < kIdleMax) {
      idle_.push_back(handle);
      return;
    }
  }
  curl.easy_cleanup(handle);
}

absl::StatusOr<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  thread_local int silent = 0;  // consecutive timeouts of this thread
  ASSIGN_OR_RETURN(const CurlLibrary* const library, TheCurlLibrary());
  const CurlLibrary& curl = *library;
  CURL* const handle = Take(curl);
  if (handle == nullptr) return absl::UnavailableError("curl: no memory");
  curl.easy_reset(handle);
  HttpResponse reply;
  Body body{request.body, request.body};
  ReplyBody taken{reply.body, request.reply_bytes_max};
  curl.easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl.easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl.easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl.easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl.easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, 10L);
  curl.easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl.easy_setopt(handle, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(std::min(silence_s_ << silent, silence_max_s_)));
  curl.easy_setopt(handle, CURLOPT_WRITEFUNCTION, TakeBody);
  curl.easy_setopt(handle, CURLOPT_WRITEDATA, &taken);
  curl.easy_setopt(handle, CURLOPT_HEADERFUNCTION, TakeHeader);
  curl.easy_setopt(handle, CURLOPT_HEADERDATA, &reply);
  char why[CURL_ERROR_SIZE] = {};
  curl.easy_setopt(handle, CURLOPT_ERRORBUFFER, why);
  if (!ca_bundle_.empty()) curl.easy_setopt(handle, CURLOPT_CAINFO, ca_bundle_.c_str());
  Method(curl, handle, request, body);
  curl_slist* headers = nullptr;
  for (const std::string& header : request.headers) {
    headers = curl.slist_append(headers, header.c_str());
  }
  curl.easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  const CURLcode result = curl.easy_perform(handle);
  long code = 0;
  curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
  curl.slist_free_all(headers);
  curl.easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
  GiveBack(curl, handle);
  silent = result == CURLE_OPERATION_TIMEDOUT ? std::min(silent + 1, kSilentMax) : 0;
  // Not retried: the certificate and the bundle would be the same.
  if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE) {
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(why[0] == 0 ? curl.easy_strerror(result) : why), "; the authorities are ",
        ca_bundle_.empty() ? "those of libcurl" : "in " + ca_bundle_,
        ", and AWS_CA_BUNDLE names others"));
  }
  if (taken.too_large) {
    absl::Status too_large = absl::FailedPreconditionError(
        absl::StrCat("the answer ", code, " has more than ", request.reply_bytes_max, " bytes"));
    too_large.SetPayload(kTooLarge, absl::Cord());
    return too_large;
  }
  if (result != CURLE_OK) return absl::UnavailableError(curl.easy_strerror(result));
  reply.code = static_cast<int>(code);
  return reply;
}

bool IsTooLarge(const absl::Status& status) { return status.GetPayload(kTooLarge).has_value(); }

std::string UrlEncode(std::string_view text, bool slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' ||
                       (c == '/' && slash);
    if (plain) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace paracord
