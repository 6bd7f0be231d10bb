// Keeps callbacks from using an object that no longer exists. An event loop, an executor or a
// network may run a callback after the object that gave the callback away is destroyed; the
// callback must then do nothing. The object is used on the thread of an event loop, and has a Gate
// as its last member: the gate closes before the other members are destroyed. Any thread may copy
// the results of Enter and Hold; only the loop's thread, which destroys the gate, may use them.
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

  // Tells whether the gate is still open. A Pass may outlive the gate.
  class Pass {
   public:
    bool open() const { return *open_; }

   private:
    friend class Gate;
    explicit Pass(std::shared_ptr<const bool> open) : open_(std::move(open)) {}
    std::shared_ptr<const bool> open_;
  };
  Pass Hold() const { return Pass(open_); }

  // Returns a function that passes its arguments to `fn` if the gate is open.
  template <class Fn>
  auto Enter(Fn fn) const {
    return [pass = Hold(), fn = std::move(fn)](auto&&... args) mutable {
      if (pass.open()) fn(std::forward<decltype(args)>(args)...);
    };
  }

  // Returns a function for any thread, which posts Enter(fn) to `loop`. The loop must outlive the
  // returned function.
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

// A base class for an object that several threads share by std::shared_ptr. The function that Enter
// returns calls `fn` on the calling thread, and keeps the object alive meanwhile. Once no
// std::shared_ptr to the object is left, the function does nothing.
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
