// Pointers to device memory inside kernel bodies. On a GPU a Ptr is a plain pointer. In
// tests/cuda_host (PARACORD_CUDA_HOST) a Ptr checks every access: it must be inside a live
// allocation, and a read needs an earlier write.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/host_device.h"
#include "tensor/ops.h"
#include "tensor/round_formulas.h"

namespace paracord::cuda {

#ifndef PARACORD_CUDA_HOST

template <class T>
using Ptr = T*;

#else

// Return true if the access is allowed. Otherwise they have recorded an error, and the caller must
// skip the access.
bool MayRead(const void* at, size_t bytes);
bool MayWrite(const void* at, size_t bytes);

template <class T>
class Ptr {
 public:
  class Element {
   public:
    explicit Element(T* at) : at_(at) {}
    Element(const Element&) = default;
    Element& operator=(const Element& other) { return *this = static_cast<T>(other); }
    // NOLINTNEXTLINE: implicit, like a T&
    operator T() const { return MayRead(at_, sizeof(T)) ? *at_ : T(); }
    Element& operator=(T value) {
      if (MayWrite(at_, sizeof(T))) *at_ = value;
      return *this;
    }
    Element& operator+=(T value) { return *this = static_cast<T>(*this) + value; }
    Element& operator*=(T value) { return *this = static_cast<T>(*this) * value; }

   private:
    T* at_;
  };
  class ConstElement {
   public:
    explicit ConstElement(T* at) : at_(at) {}
    // NOLINTNEXTLINE: implicit, like a T&
    operator T() const { return MayRead(at_, sizeof(T)) ? *at_ : T(); }

   private:
    T* at_;
  };
  template <class U>
  struct ElementOf {
    using Type = Element;
  };
  template <class U>
  struct ElementOf<const U> {
    using Type = ConstElement;
  };

  Ptr(T* at = nullptr) : at_(at) {}                            // NOLINT: implicit, like a T*
  operator Ptr<const T>() const { return Ptr<const T>(at_); }  // NOLINT: implicit, like a T*
  typename ElementOf<T>::Type operator[](int64_t i) const {
    return typename ElementOf<T>::Type(at_ + i);
  }
  Ptr operator+(int64_t i) const { return Ptr(at_ == nullptr ? nullptr : at_ + i); }
  bool operator==(std::nullptr_t) const { return at_ == nullptr; }

 private:
  T* at_;
};

#endif

using In = Ptr<const float>;
using Out = Ptr<float>;

// The raw bits of a loaded number. They are converted when used, not when loaded, to keep several
// loads in flight per thread for any type.
using Bits = uint32_t;

// An array of float32 or of bfloat16. The type is known at run time only and equal for all threads
// of a launch: one kernel serves both types.
template <class Float, class Short>
struct AnyOf {
  PARACORD_HD Bits Load(int64_t i) const {
    if (bfloat16 == nullptr) return std::bit_cast<Bits>(static_cast<float>(float32[i]));
    return static_cast<uint16_t>(bfloat16[i]);
  }
  PARACORD_HD float Of(Bits bits) const {
    return std::bit_cast<float>(bfloat16 == nullptr ? bits : bits << 16);
  }
  Ptr<Float> float32;
  Ptr<Short> bfloat16;  // null: the numbers are float32
};
struct AnyIn : AnyOf<const float, const uint16_t> {
  // NOLINTNEXTLINE: implicit, like a ConstTensor
  AnyIn(const ConstTensor& x) : AnyOf{x.float32, x.bfloat16} {}
  PARACORD_HD float operator[](int64_t i) const { return Of(Load(i)); }
};
// An array to read and write.
struct AnyOut : AnyOf<float, uint16_t> {
  AnyOut(float* numbers = nullptr) : AnyOf{numbers, nullptr} {}  // NOLINT: implicit, like a float*
  AnyOut(const Tensor& y) : AnyOf{y.float32, y.bfloat16} {}      // NOLINT: implicit, like a Tensor
  PARACORD_HD void Store(int64_t i, float v) const {
    if (bfloat16 == nullptr) {
      float32[i] = v;
    } else {
      bfloat16[i] = formulas::Bfloat16Bits(v);
    }
  }
};

}  // namespace paracord::cuda
