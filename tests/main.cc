// The main function of every test program. gRPC's threads and the destructors of its statics race
// at exit (a double free in gRPC 1.51), so tests end as the daemons do, without the latter.
#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <iostream>

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

int main(int argc, char** argv) {
  int code = Catch::Session().run(argc, argv);
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
