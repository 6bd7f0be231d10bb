// Ties functions to the lifetime of an object that runs on an event loop: what the object gives to
// a loop, an executor or a call outlives it, and must do nothing once it is gone. The object has a
// gate as its last member, which closes before the other members end. The functions of Enter and
// the passes of Hold are copied by any thread, but used on the loop's thread, where the gate
// closes.
#pragma once

#include <memory>
#include <utility>

#include "common/event_loop.h"

namespace paracord {

class Gate {
 public:
  Gate() = default;
  ~Gate() { *open_ = false; }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Outlives the gate, and says whether it is open still.
  class Pass {
   public:
    bool open() const { return *open_; }

   private:
    friend class Gate;
    explicit Pass(std::shared_ptr<const bool> open) : open_(std::move(open)) {}
    std::shared_ptr<const bool> open_;
  };
  Pass Hold() const { return Pass(open_); }

  // Returns a function that calls `fn` with its arguments if the gate is open.
  template <class Fn>
  auto Enter(Fn fn) const {
    return [pass = Hold(), fn = std::move(fn)](auto&&... args) mutable {
      if (pass.open()) fn(std::forward<decltype(args)>(args)...);
    };
  }

  // Returns a function for any thread that posts the like to the loop, which outlives it.
  template <class Fn>
  auto EnterOn(EventLoop& loop, Fn fn) const {
    return [&loop, enter = Enter(std::move(fn))](auto... args) {
      loop.Post(
          [enter = enter, ... args = std::move(args)]() mutable { enter(std::move(args)...); });
    };
  }

 private:
  const std::shared_ptr<bool> open_ = std::make_shared<bool>(true);
};

// The gate of an object that threads share by std::shared_ptr: whoever enters holds the object
// meanwhile, on any thread, and nobody enters once the last holder has let go.
template <class T>
class SharedGate : public std::enable_shared_from_this<T> {
 protected:
  template <class Fn>
  auto Enter(Fn fn) {
    return [weak = this->weak_from_this(), fn = std::move(fn)](auto&&... args) mutable {
      if (const auto held = weak.lock()) fn(std::forward<decltype(args)>(args)...);
    };
  }
};

}  // namespace paracord
