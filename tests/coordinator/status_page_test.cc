// The status page loads only itself and /status.json, and never treats text as HTML.
#include "coordinator/status_page.h"

#include <catch2/catch.hpp>
#include <regex>
#include <string>

namespace paracord {
namespace {

TEST_CASE("the page is whole, and asks nobody else for anything") {
  const std::string page = kStatusPage;
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("</html>") != std::string::npos);
  for (const std::string part : {"@page.css@", "@charts.js@", "@page.js@"}) {
    CHECK(page.find(part) == std::string::npos);
  }
  CHECK(page.find("function curve(") != std::string::npos);
  CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(page.find("name=\"viewport\"") != std::string::npos);
  const std::regex address("https?://[^\"]*");
  for (std::sregex_iterator it(page.begin(), page.end(), address), end; it != end; ++it) {
    CHECK(it->str() == "http://www.w3.org/2000/svg");  // a namespace, which no browser loads
  }
  for (const std::string loads :
       {"src=", "@import", "url(", "<link", "<form", "innerHTML", "eval(", "document.write"}) {
    INFO(loads);
    CHECK(page.find(loads) == std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
