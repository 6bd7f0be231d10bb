// Keeps the compiled forms of a program's StableHLO modules in the job's directory, so that
// processes started later load them: loading a form takes milliseconds, compiling a module seconds.
// A form is loaded only if the module, the PJRT plug-in, the kind of device, the processor and the
// compiler's options equal those of the form's compilation. A damaged form is ignored. A form is
// machine code, and whoever can write to the directory can replace the form: therefore only
// processes that may run code of the job's author (--allow-programs) load forms.
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
  // The most bytes of all forms together: saving a form removes others until the limit is kept.
  uint64_t bytes_max = uint64_t{1} << 30;
};

// Returns the folder `compiled` in the job's directory `dir`; a place that keeps no form if `dir`
// is "" or in an object store, or if the process is not `allowed` to run code of the job's author.
CompiledPlace CompiledIn(Files& files, const std::string& dir, Random& random, bool allowed);

// Returns the entry of `place` for a module's compiled form, which need not be saved yet. Returns
// nullopt if `place` keeps no form, if the plug-in or the processor cannot be identified, or if
// XLA_FLAGS or TF_XLA_FLAGS names a file of flags.
std::optional<KeptBytes> KeptForm(const CompiledPlace& place, const PjrtClient& client,
                                  const ProgramModule& module);

}  // namespace paracord
