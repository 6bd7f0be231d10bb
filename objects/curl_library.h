// libcurl, which is opened at the first request. If programs were linked with it, every start of
// them would load the thirty libraries that it needs (Kerberos, LDAP, SSH and others), though few
// jobs use an object store. Thread-safe.
#pragma once

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace paracord {

// The functions of libcurl that HttpClient calls, by their names without "curl_".
struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

// Opens and initialises libcurl, whose file is `name` as for dlopen. FAILED_PRECONDITION if that
// fails: the message names the library or the function that is missing.
absl::StatusOr<CurlLibrary> OpenCurlLibrary(const char* name);

// Returns the library of this process, which the first call opens. A failure stays as it is.
absl::StatusOr<const CurlLibrary*> TheCurlLibrary();

}  // namespace paracord
