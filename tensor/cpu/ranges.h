// Loops over several threads of the OpenMP library that oneDNN uses, so that the process has a
// single pool of threads. The results of a loop are bit-equal for any number of threads, if the
// computation of an element does not depend on the range that the element is in. Private to
// tensor/cpu.
#pragma once

#include <algorithm>
#include <cstdint>

// Declared here because omp.h belongs to a compiler, and the tree builds with two.
extern "C" {
void omp_set_num_threads(int);
int omp_get_thread_num();
int omp_get_num_threads();
void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);
}

namespace paracord::cpu {

// For fewer floats than this, a single thread is faster than two.
constexpr int64_t kRange = 16 << 10;

// Calls body(begin, count) for ranges that cover [0, n), on up to `threads` threads. There are at
// most n / least ranges, but at least one; a single range runs in the calling thread.
template <class Body>
void InRanges(int threads, int64_t n, int64_t least, const Body& body) {
  const int64_t ranges = std::min<int64_t>(threads, n / std::max<int64_t>(least, 1));
  if (ranges < 2) return body(0, n);
  struct Loop {
    const Body& body;
    int64_t n, step;
  } loop{body, n, (n + ranges - 1) / ranges};
  const auto work = [](void* data) {
    const Loop& l = *static_cast<const Loop*>(data);
    for (int64_t i = omp_get_thread_num(); i * l.step < l.n; i += omp_get_num_threads()) {
      l.body(i * l.step, std::min(l.step, l.n - i * l.step));
    }
  };
  // All threads take part, even without work: libgomp ends threads that are left out.
  GOMP_parallel(work, &loop, static_cast<unsigned>(threads), 0);
}

}  // namespace paracord::cpu
