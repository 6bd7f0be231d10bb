// Ties callbacks to the lifetime of an object on an event loop: a callback given to a loop, an
// executor or a call may outlive the object, and must then do nothing. The gate is the object's
// last member, and closes before the other members are destroyed. Any thread may copy the results
// of Enter and Hold, but only the loop's thread, where the gate closes, may use them.
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

  // Outlives the gate, and tells whether the gate is still open.
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

  // Returns a function for any thread, which posts Enter(fn) to the loop. The loop outlives the
  // function.
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

// The gate of an object shared between threads by std::shared_ptr: Enter's function holds the
// object while `fn` runs, on any thread, and does nothing once the last holder has let go.
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
