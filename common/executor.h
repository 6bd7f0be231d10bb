// Where work that takes long runs: computing gradients, reading and writing files. `work` runs off
// the event loop, in the order it was given (one executor is one thread); `done` then runs on the
// loop. In a simulation both run in the one thread there is, some virtual time later.
// Owned by main. Run may be called from any thread.
#pragma once

#include <functional>

namespace paracord {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Run(std::function<void()> work, std::function<void()> done) = 0;
};

}  // namespace paracord
