#include "program/spin.h"

#include <sched.h>

namespace paracord {

bool HasCpuBeside(int threads) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > threads;
}

}  // namespace paracord
