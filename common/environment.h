// The interfaces through which a role touches the world, passed to each role's constructor: main
// provides the real ones, the simulator its own.
#pragma once

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/files.h"
#include "common/random.h"
#include "common/rpc.h"

namespace paracord {

struct Environment {
  EventLoop& loop;
  Network& network;
  Files& files;
  Executor& executor;  // one thread for long work (snapshots, gradients)
  Random& random;
};

}  // namespace paracord
