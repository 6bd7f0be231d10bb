#include "objects/curl_library.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"

namespace paracord {
namespace {

TEST_CASE("libcurl is opened once, and every function that requests need is found") {
  const absl::StatusOr<const CurlLibrary*> curl = TheCurlLibrary();
  INFO(curl.status());
  REQUIRE(curl.ok());
  CHECK(std::string((*curl)->easy_strerror(CURLE_OK)) == "No error");
  CHECK(*TheCurlLibrary() == *curl);
}

TEST_CASE("a missing libcurl, and a library that is another, are errors that say so") {
  const absl::Status missing = OpenCurlLibrary("libnowhere.so.4").status();
  CHECK(absl::IsFailedPrecondition(missing));
  CHECK(absl::StrContains(missing.message(), "libnowhere.so.4"));
  CHECK(absl::StrContains(missing.message(), "package libcurl4"));
  const absl::Status other = OpenCurlLibrary("libc.so.6").status();
  CHECK(absl::IsFailedPrecondition(other));
  CHECK(absl::StrContains(other.message(), "libc.so.6 has no function curl_global_init"));
}

}  // namespace
}  // namespace paracord
