// Keeps the compiled forms of a program's modules in the job's directory, for restarted workers:
// loading a form takes milliseconds, compiling a module seconds. A form is loaded only if module,
// plug-in, kind of device, processor and compiler options equal those of the form's compilation. A
// damaged form is ignored. A form is machine code, replaceable by anyone with write access to the
// directory: only processes that may run the job author's code (--allow-programs) load forms.
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

// Where compiled forms are kept.
struct CompiledPlace {
  Files* files = nullptr;  // null: no form is kept
  KeepPlace keep;
  // The most bytes of all forms in the directory: saving a form removes other forms beyond this.
  uint64_t bytes_max = uint64_t{1} << 30;
};

// Returns DIR/compiled in the job's directory `dir`. Returns a place that keeps no form if `dir` is
// "" or in an object store, or if the process is not `allowed` to run code that others may have put
// into the directory.
CompiledPlace CompiledIn(Files& files, const std::string& dir, Random& random, bool allowed);

// Returns the cache entry of a module's compiled form. Returns nullopt if `place` keeps no form, if
// plug-in or processor cannot be identified, or if XLA_FLAGS or TF_XLA_FLAGS names a file.
std::optional<KeptBytes> KeptForm(const CompiledPlace& place, const PjrtClient& client,
                                  const ProgramModule& module);

}  // namespace paracord
