// The main function of every test program. gRPC's threads and the destructors of its statics race
// at exit (a double free in gRPC 1.51), so tests end as the daemons do, without the latter.
// PARACORD_TEST_PART=1/3 in the environment runs every third of the chosen cases, from the second
// on, so that several processes share a program's cases.
#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#ifdef __SANITIZE_THREAD__
// Debian's OpenSSL is not instrumented: its reference counts are atomic, but ThreadSanitizer does
// not see them, and takes the thread that frees an object last for one that races with those before
// it.
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
// Catch2 2 has no parts of its own, so the cases of this one are chosen by their names.
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
  return code;  // at exit the races found become a failure; no test here uses gRPC
#endif
#ifdef __SANITIZE_ADDRESS__
  if (__lsan_do_recoverable_leak_check() != 0) code = 1;
#endif
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(code);
}
