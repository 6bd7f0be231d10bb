// Plug-ins that fail in various ways (tests/tensor/device_test.cc), chosen by macros at compile
// time.
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tensor/cuda_plugin.h"

#ifdef FAKE_NULL
extern "C" const paracord::CudaPluginTable* paracord_cuda_plugin() { return nullptr; }
#endif

#ifdef FAKE_VERSION

namespace {

int Say(const char* what, char* why, size_t why_size) {
  std::strncpy(why, what, why_size - 1);
  return -1;
}
int Count(char* why, size_t why_size) {
#ifdef FAKE_THREADS  // like a driver
  static const bool started = [] {
    std::thread([] {
      for (;;) pause();
    }).detach();
    return true;
  }();
  (void)started;
#endif
  return FAKE_COUNT >= 0 ? FAKE_COUNT : Say("no NVIDIA driver", why, why_size);
}
void* Make(int, char* why, size_t why_size) {
  Say("cuBLAS is missing: no such file", why, why_size);
  return nullptr;
}
int Check(const char*, const char*, char*, size_t) { return 0; }
int CheckNccl(const char*, char* why, size_t why_size) {
  return Say("NCCL is missing: no such file", why, why_size);
}
int Group(const int*, int, paracord::Replica*, char* why, size_t why_size) {
  return CheckNccl(nullptr, why, why_size);
}

const paracord::CudaPluginTable kTable = {FAKE_VERSION, Count, Make, Check, Group, CheckNccl};

}  // namespace

extern "C" const paracord::CudaPluginTable* paracord_cuda_plugin() { return &kTable; }

#endif
