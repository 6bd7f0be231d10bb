// The main function of all test programs. gRPC's threads race with its static destructors at exit
// (a double free in gRPC 1.51), so tests exit without static destructors, like the daemons.
// PARACORD_TEST_PART=1/3 runs every third test case, from the second on, so that processes can
// share a program's cases.
#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#ifdef __SANITIZE_THREAD__
// Debian's OpenSSL is not instrumented. Its reference counts are atomic, but ThreadSanitizer does
// not see them, and reports a race of the thread that frees an object with earlier users.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libcrypto.so.3\ncalled_from_lib:libssl.so.3\n";
}
#endif

namespace {

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
void ChoosePart(Catch::Session& session, unsigned part, unsigned parts) {
  session.configData().shardIndex = part;
  session.configData().shardCount = parts;
}
#else
// Catch2 2 cannot split a program, so the cases of a part are selected by name.
void ChoosePart(Catch::Session& session, unsigned part, unsigned parts) {
  Catch::Config& config = session.config();
  const auto& all = Catch::getAllTestCasesSorted(config);
  const auto chosen = Catch::filterTests(all, config.testSpec(), config);
  Catch::ConfigData data = session.configData();
  data.testsOrTags.clear();
  unsigned index = 0;
  for (const Catch::TestCase& test : config.hasTestFilters() ? chosen : all) {
    if (!config.hasTestFilters() && test.isHidden()) continue;
    if (index++ % parts != part) continue;
    std::string quoted = "\"";
    for (const char c : test.name) {
      if (c == '\\' || c == '"' || c == ',') quoted += '\\';
      quoted += c;
    }
    data.testsOrTags.push_back(quoted + "\"");
    data.testsOrTags.push_back(",");
  }
  if (data.testsOrTags.empty()) data.testsOrTags.push_back("\"no case is left for this part\"");
  session.useConfigData(data);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  int code = session.applyCommandLine(argc, argv);
  if (code != 0) return code;
  unsigned part = 0, parts = 1;
  const char* const setting = std::getenv("PARACORD_TEST_PART");
  if (setting != nullptr && std::sscanf(setting, "%u/%u", &part, &parts) == 2 && parts > 0) {
    ChoosePart(session, part, parts);
  }
  code = session.run();
#ifdef __SANITIZE_THREAD__
  return code;  // at exit, races become a failure; no test here uses gRPC
#endif
#ifdef __SANITIZE_ADDRESS__
  if (__lsan_do_recoverable_leak_check() != 0) code = 1;
#endif
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(code);
}
