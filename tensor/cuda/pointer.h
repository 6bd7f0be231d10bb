// How the bodies of kernels see the device's memory. On a GPU a Ptr is a pointer; where
// tests/cuda_host runs them on the processor (PARACORD_CUDA_HOST) it looks at every access: inside
// of an allocation that lives, and nothing read that was never written.
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

// True: the access is allowed. False: it was noted, and must not be done.
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
    operator T() const { return MayRead(at_, sizeof(T)) ? *at_ : T(); }  // NOLINT: as a T&
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
    operator T() const { return MayRead(at_, sizeof(T)) ? *at_ : T(); }  // NOLINT: as a T&

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

  Ptr(T* at = nullptr) : at_(at) {}                            // NOLINT: as a T*
  operator Ptr<const T>() const { return Ptr<const T>(at_); }  // NOLINT: as a T*
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

// A number as it is loaded: what it is of is only asked when it is used, so that a thread has
// several loads under way whatever they are of.
using Bits = uint32_t;

// Numbers that are float32 or bfloat16: the same for a whole kernel, of which there is but one.
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
  Ptr<Short> bfloat16;  // or null
};
struct AnyIn : AnyOf<const float, const uint16_t> {
  AnyIn(const ConstTensor& x) : AnyOf{x.float32, x.bfloat16} {}  // NOLINT: as a ConstTensor
  PARACORD_HD float operator[](int64_t i) const { return Of(Load(i)); }
};
// That are written, too.
struct AnyOut : AnyOf<float, uint16_t> {
  AnyOut(float* numbers = nullptr) : AnyOf{numbers, nullptr} {}  // NOLINT: as a float*
  AnyOut(const Tensor& y) : AnyOf{y.float32, y.bfloat16} {}      // NOLINT: as a Tensor
  PARACORD_HD void Store(int64_t i, float v) const {
    if (bfloat16 == nullptr) {
      float32[i] = v;
    } else {
      bfloat16[i] = formulas::Bfloat16Bits(v);
    }
  }
};

}  // namespace paracord::cuda
