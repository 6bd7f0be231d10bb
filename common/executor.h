// A thread for work that takes long, such as computing gradients, or reading and writing files. Run
// may be called from any thread. The `work` of every call of Run runs on the executor's thread, in
// the order of the calls; once a `work` has ended, its `done` runs on the event loop. In the
// simulation `work` and `done` run in the simulation's only thread, some virtual time later.
#pragma once

#include <functional>

namespace paracord {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Run(std::function<void()> work, std::function<void()> done) = 0;
};

}  // namespace paracord
