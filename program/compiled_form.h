// Keeps the compiled forms of a program's modules in the job's directory, for restarted workers:
// loading takes milliseconds, compiling seconds. A form is loaded only for an equal module,
// plug-in, kind of device, processor and options; otherwise, and if damaged, the module is compiled
// anew. A form is machine code, replaceable by anyone with write access to the directory: only
// processes trusted to run the job author's code load forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/files.h"
#include "common/random.h"
#include "config/job.h"
#include "data/kept_bytes.h"
#include "program/pjrt_client.h"
#include "program/program_file.h"

namespace paracord {

struct CompiledPlace {
  Files* files = nullptr;  // null: nothing is kept
  KeepPlace keep;
  uint64_t bytes_max = uint64_t{1} << 30;  // limit of all forms in the directory
};

// Returns DIR/compiled in the job's directory `dir`; nowhere if `dir` is "" or in an object store,
// or the process is not `allowed` to run code that others may have put there.
CompiledPlace CompiledIn(Files& files, const std::string& dir, Random& random, bool allowed);

// Returns where a module's compiled form is kept; nullopt if the place, the plug-in or the
// environment rules out keeping forms.
std::optional<KeptBytes> KeptForm(const CompiledPlace& place, const PjrtClient& client,
                                  const ProgramModule& module);

}  // namespace paracord
