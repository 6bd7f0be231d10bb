// A thread for work that takes long: computing gradients, reading and writing files. `work` runs
// off the event loop, in the order of the calls; then `done` runs on the loop. In a simulation
// `work` and `done` run in the simulation's only thread, some virtual time later. Owned by main.
// Run may be called from any thread.
#pragma once

#include <functional>

namespace paracord {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Run(std::function<void()> work, std::function<void()> done) = 0;
};

}  // namespace paracord
