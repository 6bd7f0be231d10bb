// Keeps the compiled forms of a program's modules in the job's directory, for workers that start
// again: to load one takes milliseconds, where a compiler takes seconds. One is taken only for the
// same module, plug-in, kind of device, processor and options; any other, or a damaged one, is
// compiled anew. It is code of the machine, which whoever may write to the directory can replace:
// only processes that run code of whoever writes the job load it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/files.h"
#include "common/random.h"
#include "config/job.h"
#include "data/kept_bytes.h"
#include "program/pjrt_client.h"

namespace paracord {

struct CompiledPlace {
  Files* files = nullptr;  // null: nothing is kept
  KeepPlace keep;
  uint64_t bytes_max = uint64_t{1} << 30;  // of all forms there
};

// Returns DIR/compiled of a job's directory; nowhere if `dir` is "" or in an object store, or this
// process is not `allowed` to run code that others may have put there.
CompiledPlace CompiledIn(Files& files, const std::string& dir, Random& random, bool allowed);

// Returns where the compiled form of a module is kept; nullopt if the place, the plug-in or the
// environment does not let it be kept.
std::optional<KeptBytes> KeptForm(const CompiledPlace& place, const PjrtClient& client,
                                  std::string_view code);

}  // namespace paracord
