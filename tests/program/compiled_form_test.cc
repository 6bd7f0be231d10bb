// Compiled forms of programs, cached for the next start of a worker. Uses a fake PJRT plug-in
// (tests/fake_pjrt).
#include "program/compiled_form.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/random.h"
#include "config/program_spec.h"
#include "program/pjrt_program.h"
#include "program/program_file.h"
#include "tests/fakes.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

const std::string kKeepingPlugin = PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";
constexpr size_t kModules = 3;  // in the program file

struct KeptRig {
  KeptRig() : place(CompiledIn(files, directory.path(), random, true)) {
    job.model = StableHloModel(FakeProgramFile());
    Change(1, "2");
    schema.inputs = {{"x", {2}, {}}};
    schema.targets = {{"", {}, {}}};
  }
  ~KeptRig() { unsetenv("PARACORD_FAKE_PJRT"); }

  // Makes a module unique by its factor.
  void Change(size_t module, const std::string& factor) {
    job.model["file"]["modules"][module]["code"] =
        FakeCode("f32 - 1.5 1 6\nf32 2x3 0 " + factor + " 0\nf32 3 1 1 5\nf32 2 0 1 4\n");
  }

  // Makes the program, as the start of a worker does. `told`: orders to the plug-in. Returns the
  // number of modules loaded from the cache.
  size_t Start(const std::string& told = "") {
    setenv("PARACORD_FAKE_PJRT", told.c_str(), 1);
    const auto made = PjrtProgram::Make(job, schema, {"pjrt:" + kKeepingPlugin}, place);
    INFO(made.status());
    REQUIRE(made.ok());
    CHECK((*made)->BatchSizes() == std::vector<uint32_t>{2, 4});
    said = (*made)->Memory();
    return (*made)->modules_kept();
  }

  std::vector<std::string> Paths() {
    std::vector<std::string> paths;
    const std::vector<std::string> names = files.List(directory / "compiled").value();
    for (const std::string& name : names) {
      paths.push_back(directory / "compiled" + "/" + name);
    }
    return paths;
  }

  TestDirectory directory;
  PosixFiles files;
  SystemRandom random;
  CompiledPlace place;
  Job job;
  Batch schema;
  std::string said;  // what the program says about its memory
};

// Sets an environment variable, and restores the old value at the end.
class WithVariable {
 public:
  WithVariable(const std::string& name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name.c_str())) before_ = before;
    setenv(name.c_str(), value.c_str(), 1);
  }
  ~WithVariable() {
    if (before_.has_value()) {
      setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const std::string name_;
  std::optional<std::string> before_;
};

TEST_CASE("a worker that starts again compiles nothing that was compiled before") {
  KeptRig rig;
  CHECK(rig.Start() == 0);
  CHECK(rig.Paths().size() == kModules);
  CHECK(rig.Start("fail=PJRT_Client_Compile") == kModules);
  // The changed module is compiled; the rest comes from the cache.
  rig.Change(1, "3");
  CHECK(rig.Start() == kModules - 1);
  CHECK(rig.Start() == kModules);
}

TEST_CASE("a damaged compiled form is compiled anew, and kept again") {
  KeptRig rig;
  REQUIRE(rig.Start() == 0);
  const int damage = GENERATE(0, 1, 2, 3);
  for (const std::string& path : rig.Paths()) {
    std::string bytes = rig.files.ReadWhole(path).value();
    if (damage == 0) bytes[bytes.size() - 6] ^= 1;
    if (damage == 1) bytes.resize(bytes.size() / 2);
    if (damage == 2) bytes.clear();
    if (damage == 3) bytes = "a file of somebody else";
    REQUIRE(Overwrite(rig.files, path, bytes));
  }
  CHECK(rig.Start() == 0);
  CHECK(rig.Start() == kModules);
}

TEST_CASE("a compiled form that its plug-in refuses, or that is another module, is compiled anew") {
  KeptRig rig;
  const std::string form =
      GENERATE(as<std::string>(), "rubbish", "fake \n", "fake \n\nf32 - 0 0 0\n",
               "fake \n\nf32 - 0 1 9\nf32 2x3 0 0 0\nf32 3 0 0 0\nf32 2 0 0 0\n");
  const auto client = OpenPjrtDevice({"pjrt:" + kKeepingPlugin});
  REQUIRE(client.ok());
  const ProgramFile file = ReadProgramFile(rig.job.model["file"]).value();
  const std::optional<KeptBytes> kept = KeptForm(rig.place, **client, file.modules[0]);
  REQUIRE(kept.has_value());
  kept->Save(form);
  REQUIRE(kept->Load() == form);
  CHECK(rig.Start() == 0);
  CHECK(kept->Load() != form);
  CHECK(rig.Start() == kModules);
}

TEST_CASE("a compiled form is one version's alone") {
  KeptRig rig;
  CHECK(rig.Start("version=1") == 0);
  CHECK(rig.Start("version=2") == 0);
  CHECK(rig.Start("version=2") == kModules);
  CHECK(rig.Start("version=1") == kModules);
}

TEST_CASE("a compiled form is one of the compiler's flags alone") {
  const std::string name =
      GENERATE(as<std::string>(), "XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS");
  KeptRig rig;
  {
    const WithVariable flags(name, " --some=1");
    CHECK(rig.Start() == 0);
    CHECK(rig.Start() == kModules);
  }
  const WithVariable flags(name, " --some=2");
  CHECK(rig.Start() == 0);
  CHECK(rig.Start() == kModules);
}

TEST_CASE("nothing is kept where a file has the compiler's flags") {
  const std::string name = GENERATE(as<std::string>(), "XLA_FLAGS", "TF_XLA_FLAGS");
  const std::string value = GENERATE(as<std::string>(), "flags.txt", " /etc/flags");
  KeptRig rig;
  {
    const WithVariable flags(name, value);
    CHECK(rig.Start() == 0);
    CHECK_FALSE(rig.files.List(rig.directory / "compiled").ok());
  }
  const WithVariable flags(name, "");
  CHECK(rig.Start() == 0);
  CHECK(rig.Start() == kModules);
}

TEST_CASE("a process that may not run code of others neither loads nor keeps compiled forms") {
  KeptRig rig;
  CHECK(rig.Start() == 0);
  CHECK(rig.Start() == kModules);
  CHECK(rig.said == "3 modules, 3 of them compiled by an earlier start");
  const std::vector<std::string> paths = rig.Paths();
  rig.place = CompiledIn(rig.files, rig.directory.path(), rig.random, /*allowed=*/false);
  CHECK(rig.Start() == 0);
  CHECK(rig.said ==
        "3 modules, compiled at each start (a worker with --allow-programs keeps them in its "
        "--dir)");
  rig.Change(1, "7");
  CHECK(rig.Start() == 0);
  CHECK(rig.Paths() == paths);
  CHECK(CompiledIn(rig.files, "", rig.random, true).files == nullptr);
  CHECK(CompiledIn(rig.files, "s3://bucket/job", rig.random, true).files == nullptr);
}

TEST_CASE("a plug-in that knows no compiled forms compiles at every start") {
  const std::string told =
      GENERATE(as<std::string>(), "missing=PJRT_Executable_Serialize",
               "fail=PJRT_Executable_Serialize", "missing=PJRT_Executable_DeserializeAndLoad",
               "fail=PJRT_Executable_DeserializeAndLoad", "missing=PJRT_Client_PlatformVersion",
               "fail=PJRT_Device_GetDescription", "missing=PJRT_DeviceDescription_Kind");
  KeptRig rig;
  CHECK(rig.Start(told) == 0);
  CHECK(rig.Start(told) == 0);
}

TEST_CASE("compiled forms take a bounded place, and none where they cannot be written") {
  KeptRig rig;
  rig.place.bytes_max = 1;
  CHECK(rig.Start() == 0);
  CHECK(rig.Paths().size() == 1);
  CHECK(rig.Start() <= 1);
  REQUIRE(rig.files.RemoveTree(rig.directory / "compiled").ok());
  rig.directory.Write("compiled", "a file");
  CHECK(rig.Start() == 0);
  rig.place = {};
  CHECK(rig.Start() == 0);
}

}  // namespace
}  // namespace paracord
