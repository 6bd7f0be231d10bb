// The two forms of our kernels. A map's body is a functor: index in, element out; or that in three
// steps, so that a thread has the loads of several elements under way at once: one load a thread is
// too little to keep the memory of large GPUs at work. A reduction's body says how an output is
// summed over `count` elements, and may load several ahead, too; blocks share the outputs and,
// where there are few of them, the elements. The order of every sum is a function of the shape, so
// that results are the same in each run. Kernels are these bodies compiled by nvcc (kernels.cu), or
// by the C++ compiler for tests/cuda_host.
#pragma once

#include <cstdint>

#include "tensor/cuda/pointer.h"

namespace paracord::cuda {

constexpr int kThreadBits = 8;
constexpr int kThreads = 1 << kThreadBits;  // of a block

constexpr int kAtOnce = 4;

// Loaded = Load(i), Value(i, loaded), Store(i, value). Nobody else's elements are loaded from where
// one is stored.
template <class Body>
concept InSteps = requires(const Body& body) {
  body.Load(0);
};
// The same where Value(column, loaded) takes what Of(i) gives, which is the same so many elements
// further on if Repeats(so many).
template <class Body>
concept OfColumns = InSteps<Body> && requires(const Body& body) {
  body.Of(0);
};

// The same of a reduction, in place of Add: Loaded = Load(i, k), Take(loaded, value). It writes
// next to nothing, so that more loads are needed: of 2 bytes, eight of a thread's are.
constexpr int kAhead = 8;
template <class Body>
concept LoadsAhead = requires(const Body& body) {
  body.Load(0, 0);
};
// Where it is Take(of, loaded, value), of what Of(i, k) gives: once an output if Repeats().
template <class Body>
concept OfOutputs = LoadsAhead<Body> && requires(const Body& body) {
  body.Of(0, 0);
};
// Where it is Load(From(i), k): what is worked out once an output.
template <class Body>
concept FromOutputs = LoadsAhead<Body> && requires(const Body& body) {
  body.From(0);
};

template <class Body>
struct MapArgs {
  Body body;
  int64_t n = 0;
  bool repeats = false;  // of columns: all of a thread's elements are of the same one
  // What a thread does.
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

// A body has a type Value, Start(i), Add(i, k, value), Merge(value, other), Finish(i, value) and,
// where kMaps, Map(i, k, value), called for every element after the reduction of its output.
template <class Body>
struct ReduceArgs {
  using Value = typename Body::Value;
  Body body;
  int64_t outputs = 0, count = 0;
  int bits = 0;         // a block has 2^bits outputs, and so nothing has to be divided
  bool across = false;  // neighbouring threads take neighbouring outputs, not elements
  int parts = 1;        // of the elements; above 1 each writes partial[part * outputs + i]
  Ptr<Value> partial = nullptr;

  PARACORD_HD int width() const { return 1 << bits; }
  PARACORD_HD int lanes() const { return 1 << (kThreadBits - bits); }
  PARACORD_HD int OutputOf(int thread) const {
    return across ? thread & (width() - 1) : thread >> (kThreadBits - bits);
  }
  PARACORD_HD int LaneOf(int thread) const {
    return across ? thread >> bits : thread & (lanes() - 1);
  }
  // Neighbouring threads have neighbouring slots.
  PARACORD_HD int SlotOf(int output, int lane) const {
    return across ? (lane << bits) + output : (output << (kThreadBits - bits)) + lane;
  }
  PARACORD_HD int64_t Begin(int part) const {
    return parts == 1 ? count * part : count * part / parts;
  }
  // What a thread adds up.
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

// The reduction of what the parts of another came to, which ends that.
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

// The kernel of a body: what Runtime::Launch takes.
template <class Body>
const void* MapKernel();
template <class Body>
const void* ReduceKernel();

}  // namespace paracord::cuda
