// How the bodies of kernels see the device's memory. On a GPU a Ptr is a pointer; where
// tests/cuda_host runs them on the processor (PARACORD_CUDA_HOST) it looks at every access: inside
// of an allocation that lives, and nothing read that was never written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/ops/host_device.h"

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

}  // namespace paracord::cuda
