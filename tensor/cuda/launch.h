// The two forms of our kernels, maps and reductions, and the bodies that they run. A map computes
// output i from index i; its body is a functor, or has three steps (load, compute, store), to keep
// the loads of several elements in flight per thread: a single load per thread does not keep the
// memory of a large GPU busy. A reduction merges `count` elements into each output, and its body
// may load ahead as well; the outputs and, if outputs are few, their elements are divided among
// blocks. The order of every sum depends on the shape alone: every run gives equal bits. nvcc
// compiles the bodies to kernels (kernels.cu), the C++ compiler to functions for tests/cuda_host.
#pragma once

#include <cstdint>

#include "tensor/cuda/pointer.h"

namespace paracord::cuda {

constexpr int kThreadBits = 8;
constexpr int kThreads = 1 << kThreadBits;  // threads in a block

// How many elements a thread of a map in steps loads before it computes them.
constexpr int kAtOnce = 4;

// A map in steps: Load(i), then Value(i, loaded), then Store(i, value). A body must not load
// elements stored by another thread.
template <class Body>
concept InSteps = requires(const Body& body) {
  body.Load(0);
};
// A map in steps whose Value(column, loaded) takes the result of Of(i), numbers that depend only on
// the column of element i. Repeats(step) is true if Of(i) equals Of(i + step) for every i.
template <class Body>
concept OfColumns = InSteps<Body> && requires(const Body& body) {
  body.Of(0);
};

// A reduction that loads kAhead elements before it adds them; it has Load(i, k) and Take(loaded,
// value) in place of Add. A reduction writes little and needs more loads in flight than a map.
constexpr int kAhead = 8;
template <class Body>
concept LoadsAhead = requires(const Body& body) {
  body.Load(0, 0);
};
// A reduction whose Take(of, loaded, value) also takes the result of Of(i, k). If Repeats() is
// true, each thread computes Of only once per output.
template <class Body>
concept OfOutputs = LoadsAhead<Body> && requires(const Body& body) {
  body.Of(0, 0);
};
// A reduction that loads by Load(From(i), k); each thread computes From(i) once per output.
template <class Body>
concept FromOutputs = LoadsAhead<Body> && requires(const Body& body) {
  body.From(0);
};

template <class Body>
struct MapArgs {
  Body body;
  int64_t n = 0;
  bool repeats = false;  // with OfColumns: Of(i) is equal for all elements of a thread
  // Computes the elements of a thread: i, i + step and so on.
  PARACORD_HD void Own(int64_t i, int64_t step) const {
    if (i >= n) return;
    if constexpr (OfColumns<Body>) {
      auto column = body.Of(i);
      InTheirSteps(i, step, [&](int64_t at, const auto& loaded) {
        if (!repeats) column = body.Of(at);
        return body.Value(column, loaded);
      });
    } else if constexpr (InSteps<Body>) {
      InTheirSteps(i, step, [&](int64_t at, const auto& loaded) { return body.Value(at, loaded); });
    } else {
      for (; i < n; i += step) body(i);
    }
  }
  template <class Value>
  PARACORD_HD void InTheirSteps(int64_t i, int64_t step, const Value& value) const {
    for (; i < n; i += kAtOnce * step) {
      typename Body::Loaded loaded[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * step < n) loaded[k] = body.Load(i + k * step);
      }
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t at = i + k * step;
        if (at < n) body.Store(at, value(at, loaded[k]));
      }
    }
  }
};

// The body of a reduction has a type Value and Start(i), Add(i, k, value), Merge(value, other) and
// Finish(i, value), for element k of output i. With kMaps it also has Map(i, k, value), called for
// every element after the reduction of its output. The threads of a block that share an output are
// its lanes.
template <class Body>
struct ReduceArgs {
  using Value = typename Body::Value;
  Body body;
  int64_t outputs = 0, count = 0;
  int bits = 0;         // a block has 2^bits outputs: shifts replace divisions
  bool across = false;  // neighbouring threads take neighbouring outputs, not elements
  int parts = 1;        // the parts of each output's elements, reduced by different blocks; if
                        // above 1, part p writes partial[p * outputs + i]
  Ptr<Value> partial = nullptr;

  PARACORD_HD int width() const { return 1 << bits; }
  PARACORD_HD int lanes() const { return 1 << (kThreadBits - bits); }
  PARACORD_HD int OutputOf(int thread) const {
    return across ? thread & (width() - 1) : thread >> (kThreadBits - bits);
  }
  PARACORD_HD int LaneOf(int thread) const {
    return across ? thread >> bits : thread & (lanes() - 1);
  }
  // The index of a lane's value in the block's shared memory, next to that of the next thread.
  PARACORD_HD int SlotOf(int output, int lane) const {
    return across ? (lane << bits) + output : (output << (kThreadBits - bits)) + lane;
  }
  PARACORD_HD int64_t Begin(int part) const {
    return parts == 1 ? count * part : count * part / parts;
  }
  // Reduces a thread's elements: every lanes()-th element of the part.
  PARACORD_HD Value Own(int64_t i, int lane, int part) const {
    Value value = body.Start(i);
    const int64_t end = Begin(part + 1), begin = Begin(part) + lane;
    if (begin >= end) return value;
    if constexpr (OfOutputs<Body>) {
      auto of = body.Of(i, begin);
      Ahead(i, begin, end, [&](int64_t k, const auto& loaded) {
        if (!body.Repeats()) of = body.Of(i, k);
        body.Take(of, loaded, value);
      });
    } else if constexpr (FromOutputs<Body>) {
      Ahead(body.From(i), begin, end,
            [&](int64_t, const auto& loaded) { body.Take(loaded, value); });
    } else if constexpr (LoadsAhead<Body>) {
      Ahead(i, begin, end, [&](int64_t, const auto& loaded) { body.Take(loaded, value); });
    } else {
      for (int64_t k = begin; k < end; k += lanes()) body.Add(i, k, value);
    }
    return value;
  }
  template <class Take>
  PARACORD_HD void Ahead(int64_t i, int64_t k, int64_t end, const Take& take) const {
    const int step = lanes();
    for (; k < end; k += kAhead * step) {
      const int left = end - k < kAhead * step ? static_cast<int>(end - k) : kAhead * step;
      typename Body::Loaded loaded[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        if (j * step < left) loaded[j] = body.Load(i, k + j * step);
      }
      for (int j = 0; j < kAhead; ++j) {
        if (j * step < left) take(k + j * step, loaded[j]);
      }
    }
  }
  PARACORD_HD void Write(int64_t i, int part, const Value& value) const {
    if (parts == 1) {
      body.Finish(i, value);
    } else {
      partial[part * outputs + i] = value;
    }
  }
  PARACORD_HD void MapOwn(int64_t i, int lane, const Value& value) const {
    if constexpr (Body::kMaps) {
      for (int64_t k = lane; k < count; k += lanes()) body.Map(i, k, value);
    }
  }
};

// Merges the partial results of a reduction in parts, and finishes the reduction.
template <class Body>
struct JoinParts {
  using Value = typename Body::Value;
  static constexpr bool kMaps = false;
  Body body;
  int64_t outputs = 0;
  Ptr<const Value> partial = nullptr;
  PARACORD_HD Value Start(int64_t i) const { return body.Start(i); }
  PARACORD_HD void Add(int64_t i, int64_t part, Value& value) const {
    const Value other = partial[part * outputs + i];
    body.Merge(value, other);
  }
  PARACORD_HD void Merge(Value& value, const Value& other) const { body.Merge(value, other); }
  PARACORD_HD void Finish(int64_t i, const Value& value) const { body.Finish(i, value); }
};

// The kernels of a body as a map and as a reduction, for Runtime::Launch.
template <class Body>
const void* MapKernel();
template <class Body>
const void* ReduceKernel();

}  // namespace paracord::cuda
