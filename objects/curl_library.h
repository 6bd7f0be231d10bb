// libcurl, opened with dlopen on the first request. If the programs were linked with libcurl, each
// start would load its thirty dependencies (Kerberos, LDAP, SSH and more), although few jobs use an
// object store. Thread-safe.
#pragma once

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace paracord {

// The functions of libcurl that are used here, named without "curl_".
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

// Opens and initialises libcurl. `name` is a file as for dlopen. Returns FAILED_PRECONDITION if the
// library or one of the functions is missing, or libcurl does not start.
absl::StatusOr<CurlLibrary> OpenCurlLibrary(const char* name);

// Returns the libcurl of this process. The first call opens it; if that fails, so do later calls.
absl::StatusOr<const CurlLibrary*> TheCurlLibrary();

}  // namespace paracord
