// The behaviour of --device where no GPU can be used.
#include "tensor/device.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tensor/cuda_plugin.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

const std::string kFakes = std::string(PARACORD_BIN_DIR) + "/fake_plugins/";

class Plugin {
 public:
  explicit Plugin(const std::string& path) { setenv("PARACORD_CUDA_PLUGIN", path.c_str(), 1); }
  ~Plugin() { unsetenv("PARACORD_CUDA_PLUGIN"); }
};

bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos && text.find('\n') == std::string::npos;
}

TEST_CASE("the plug-in is beside a program, or where one that is installed has its libraries") {
  const TestDirectory directory;
  const std::string bin = directory.path() + "/bin", lib = directory.path() + "/lib/paracord";
  for (const std::string& folder : {bin, lib}) std::filesystem::create_directories(folder);
  CHECK(CudaPluginPathFrom(bin) == bin + "/libparacord_cuda.so");
  std::ofstream(lib + "/libparacord_cuda.so") << "library";
  CHECK(CudaPluginPathFrom(bin) == lib + "/libparacord_cuda.so");
  std::ofstream(bin + "/libparacord_cuda.so") << "library";
  CHECK(CudaPluginPathFrom(bin) == bin + "/libparacord_cuda.so");
}

TEST_CASE("auto falls back to the CPU and says why in a line, cuda:N is refused with the same") {
  std::string broken = (std::filesystem::temp_directory_path() / "paracord_broken.so").string();
  std::ofstream(broken) << "no library";
  const std::string cut = broken + ".cut";
  std::filesystem::copy_file(kFakes + "libtwo.so", cut,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  const std::pair<std::string, std::string> cases[] = {
      {kFakes + "nothing.so", "no CUDA plug-in at " + kFakes + "nothing.so"},
      {kFakes, "is no file"},
      {cut, "is cut off: "},
      {broken, "the CUDA plug-in does not load"},
      {kFakes + "libempty.so", "is not a CUDA plug-in"},
      {kFakes + "libnull.so", "is not a CUDA plug-in"},
      {kFakes + "libversion.so", "has version 99999, this program needs"},
      {kFakes + "libdriver.so", "no NVIDIA driver"},
      {kFakes + "libnone.so", "no GPU"}};
  for (const auto& [path, why] : cases) {
    INFO(path);
    const Plugin plugin(path);
    std::string note;
    CHECK(ChooseDevice("auto", DeviceFor::kTraining, &note).value() == "cpu");
    CHECK(Has(note, "computing on the CPU: "));
    CHECK(Has(note, why));
    const auto named = ChooseDevice("cuda:0", DeviceFor::kTraining, &note);
    CHECK(named.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(Has(std::string(named.status().message()), "--device cuda:0: "));
    CHECK(Has(std::string(named.status().message()), why));
  }
  std::filesystem::remove(broken);
  std::filesystem::remove(cut);
}

TEST_CASE("a GPU that is there is chosen, one that is not is refused") {
  const Plugin plugin(kFakes + "libtwo.so");
  std::string note;
  CHECK(ChooseDevice("auto", DeviceFor::kTraining, &note).value() == "cuda:0");
  CHECK(note.empty());
  CHECK(ChooseDevice("auto", DeviceFor::kTraining, &note, /*turn=*/1).value() == "cuda:1");
  CHECK(ChooseDevice("auto", DeviceFor::kTraining, &note, /*turn=*/4).value() == "cuda:0");
  CHECK(ChooseDevice("cuda:0", DeviceFor::kTraining, &note, /*turn=*/1).value() == "cuda:0");
  CHECK(ChooseDevice("cuda:1", DeviceFor::kTraining, &note).value() == "cuda:1");
  CHECK(Has(std::string(ChooseDevice("cuda:2", DeviceFor::kTraining, nullptr).status().message()),
            "there are 2 GPUs"));
  CHECK(Has(std::string(MakeOps("cuda:1", 1).status().message()), "cuBLAS is missing"));
  const auto all = ChooseDevice("cuda:all", DeviceFor::kTraining, nullptr).status();
  CHECK(all.code() == absl::StatusCode::kInvalidArgument);
  CHECK(Has(std::string(all.message()), "--device cuda:all: NCCL is missing"));
  CHECK(Has(std::string(MakeOps("cuda:all", 1).status().message()), "no device \"cuda:all\""));
  const auto group = [](const std::vector<std::string>& devices) {
    return std::string(MakeGpuGroup(devices).status().message());
  };
  CHECK(Has(group({"cuda:0", "cuda:1"}), "NCCL is missing"));
  CHECK(group({"cuda:0", "cpu"}) == "NCCL adds up arrays of GPUs, and \"cpu\" is none");
}

TEST_CASE("all of one GPU is that one, without NCCL, and all of none is refused") {
  {
    const Plugin plugin(kFakes + "libone.so");
    CHECK(ChooseDevice("cuda:all", DeviceFor::kTraining, nullptr).value() == "cuda:0");
  }
  const Plugin plugin(kFakes + "libnone.so");
  CHECK(Has(std::string(ChooseDevice("cuda:all", DeviceFor::kTraining, nullptr).status().message()),
            "no GPU"));
}

TEST_CASE("what runs one model is not told of cuda:all, and refused it wherever it runs") {
  const Plugin plugin(GENERATE(kFakes + "libone.so", kFakes + "libtwo.so", kFakes + "libnone.so"));
  const auto said = [](const char* text) {
    return std::string(ChooseDevice(text, DeviceFor::kOneModel, nullptr).status().message());
  };
  CHECK(said("gpu") == "--device: \"gpu\" is none of auto, cpu, cuda:N, pjrt:PATH");
  CHECK(said("cuda:all") == "--device cuda:all is for workers that train; give cuda:N");
  CHECK(said("cuda:0,1") == "--device cuda:0,1 is for workers that train; give cuda:N");
  CHECK(said("cpu:2") == "--device cpu:2: several devices are for workers that train; give cpu");
  CHECK(ChooseDevice("cpu", DeviceFor::kOneModel, nullptr).value() == "cpu");
}

TEST_CASE("several devices are those that are named, each once, and the processor N times") {
  const auto chosen = [](const std::string& text) {
    return ChooseDevice(text, DeviceFor::kTraining, nullptr);
  };
  const auto said = [&](const std::string& text) {
    return std::string(chosen(text).status().message());
  };
  using Names = std::vector<std::string>;
  CHECK(chosen("cpu:1").value() == "cpu");
  CHECK(chosen("cpu:3").value() == "cpu:3");
  CHECK(DevicesOf("cpu:3").value() == Names{"cpu", "cpu", "cpu"});
  CHECK(DevicesOf("cpu").value() == Names{"cpu"});
  CHECK(DevicesOf("pjrt:/x.so").value() == Names{"pjrt:/x.so"});
  for (const char* none : {"cpu:0", "cpu:257", "cpu:", "cpu:x", "cpu:01", "cpu:-1", "cpu:1,2"}) {
    CHECK(said(none) ==
          absl::StrCat("--device ", none, ": cpu:N has N devices of the processor, 1 to 256"));
  }
  const Plugin plugin(kFakes + "libtwo.so");
  CHECK(chosen("cuda:1,0").value() == "cuda:1,0");
  CHECK(DevicesOf("cuda:1,0").value() == Names{"cuda:1", "cuda:0"});
  CHECK(DevicesOf("cuda:all").value() == Names{"cuda:0", "cuda:1"});
  CHECK(said("cuda:0,2") == "--device cuda:0,2: there are 2 GPUs, the first is cuda:0");
  CHECK(said("cuda:1,1") == "--device cuda:1,1: a GPU is named twice");
  CHECK(Has(said("cuda:0,"), "is none of auto, cpu, cpu:N, cuda:N, cuda:all, cuda:N,M, pjrt:PATH"));
}

TEST_CASE("where several GPUs are used CUDA is told to load all code at once, unless told else") {
  constexpr char kSetting[] = "CUDA_MODULE_LOADING";
  const auto setting = [&] {
    const char* const value = getenv(kSetting);
    return std::string(value == nullptr ? "" : value);
  };
  const Plugin plugin(kFakes + "libtwo.so");
  unsetenv(kSetting);
  CHECK(ChooseDevice("cuda:1", DeviceFor::kTraining, nullptr).ok());
  CHECK(setting().empty());
  for (const char* several : {"cuda:all", "cuda:0,1"}) {
    (void)ChooseDevice(several, DeviceFor::kTraining, nullptr);
    CHECK(setting() == "EAGER");
    unsetenv(kSetting);
  }
  CHECK_FALSE(MakeGpuGroup({"cuda:0", "cuda:1"}).ok());
  CHECK(setting() == "EAGER");
  setenv(kSetting, "LAZY", 1);
  (void)ChooseDevice("cuda:all", DeviceFor::kTraining, nullptr);
  CHECK(setting() == "LAZY");
  unsetenv(kSetting);
}

TEST_CASE("the CPU needs no plug-in, and what is no device is refused") {
  const Plugin plugin("/nowhere");
  CHECK(ChooseDevice("cpu", DeviceFor::kTraining, nullptr).value() == "cpu");
  CHECK(MakeOps("cpu", 1).ok());
  for (const char* text : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda: 1", "cuda:+1",
                           "cuda:01", "cuda:1 ", "CPU"}) {
    CHECK(Has(std::string(ChooseDevice(text, DeviceFor::kTraining, nullptr).status().message()),
              "is none of"));
  }
}

// Runs only where the build has made the plug-in. On a machine with a driver and a GPU nothing is
// missing.
TEST_CASE("the plug-in that was built loads and says what is missing") {
  const std::string path = std::string(PARACORD_BIN_DIR) + "/libparacord_cuda.so";
  if (!std::filesystem::exists(path)) {
    WARN("not built: libparacord_cuda.so");
    return;
  }
  const auto plugin = LoadCudaPlugin(path);
  INFO(plugin.status());
  REQUIRE(plugin.ok());
  const auto count = CudaDeviceCount(**plugin);
  if (!count.ok()) CHECK(!count.status().message().empty());
  char why[512] = "";
  CHECK((*plugin)->check_libraries("libnone.so.1", nullptr, why, sizeof(why)) == -1);
  CHECK(Has(why, "cuBLAS is missing: libnone.so.1"));
  if ((*plugin)->check_libraries(nullptr, nullptr, why, sizeof(why)) != 0) {
    WARN(std::string(why));
    return;
  }
  CHECK((*plugin)->check_libraries(nullptr, "libnone.so.2", why, sizeof(why)) == -1);
  CHECK(Has(why, "cuDNN is missing: libnone.so.2"));
  // A wrong library: the error names the missing function.
  CHECK((*plugin)->check_libraries("libm.so.6", nullptr, why, sizeof(why)) == -1);
  CHECK(Has(why, "libm.so.6 has no cublasCreate_v2"));
  CHECK((*plugin)->check_nccl("libnone.so.2", why, sizeof(why)) == -1);
  CHECK(Has(why, "NCCL is missing: libnone.so.2"));
  CHECK((*plugin)->check_nccl("libm.so.6", why, sizeof(why)) == -1);
  CHECK(Has(why, "libm.so.6 has no ncclCommInitAll"));
  if ((*plugin)->check_nccl(nullptr, why, sizeof(why)) != 0) WARN(std::string(why));
  if (!count.ok()) {
    CHECK(MakeCudaOps(**plugin, 0).status().code() == absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace paracord
