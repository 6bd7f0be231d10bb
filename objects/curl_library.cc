#include "objects/curl_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

constexpr char kCurlName[] = "libcurl.so.4";

template <class Fn>
void Find(void* library, const char* name, Fn& to, std::string& missing) {
  to = reinterpret_cast<Fn>(dlsym(library, name));
  if (to == nullptr && missing.empty()) missing = name;
}

}  // namespace

absl::StatusOr<CurlLibrary> OpenCurlLibrary(const char* name) {
  void* const library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("object stores need libcurl (of Debian's package libcurl4): ",
                     why == nullptr ? name : why));
  }
  CurlLibrary curl;
  std::string missing;
  Find(library, "curl_global_init", curl.global_init, missing);
  Find(library, "curl_easy_init", curl.easy_init, missing);
  Find(library, "curl_easy_reset", curl.easy_reset, missing);
  Find(library, "curl_easy_setopt", curl.easy_setopt, missing);
  Find(library, "curl_easy_perform", curl.easy_perform, missing);
  Find(library, "curl_easy_getinfo", curl.easy_getinfo, missing);
  Find(library, "curl_easy_strerror", curl.easy_strerror, missing);
  Find(library, "curl_easy_cleanup", curl.easy_cleanup, missing);
  Find(library, "curl_slist_append", curl.slist_append, missing);
  Find(library, "curl_slist_free_all", curl.slist_free_all, missing);
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(name, " has no function ", missing));
  }
  if (const CURLcode code = curl.global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " does not start: ", curl.easy_strerror(code)));
  }
  return curl;
}

absl::StatusOr<const CurlLibrary*> TheCurlLibrary() {
  static const absl::StatusOr<CurlLibrary> curl = OpenCurlLibrary(kCurlName);
  if (!curl.ok()) return curl.status();
  return &*curl;
}

}  // namespace paracord
