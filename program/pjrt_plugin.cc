#include "program/pjrt_plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/one_line.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr char kThreads[] = "PJRT_NPROC";
constexpr std::string_view kDevice = "pjrt:";
constexpr size_t kMessageBytesMax = 2000;

}  // namespace

absl::StatusOr<PjrtPlugin> PjrtPlugin::Load(const std::string& path, int threads) {
  const auto refuse = [&](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat("the PJRT plug-in ", path, " ", why));
  };
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) {
    const std::string before = path.substr(0, path.rfind(':'));
    const bool number = before != path && std::filesystem::is_regular_file(before, none);
    return absl::NotFoundError(
        absl::StrCat("there is no PJRT plug-in at ", path,
                     number ? ": a device's number has to follow the last colon" : ""));
  }
  // Read by a CPU plug-in when loaded, or at its first client.
  setenv(kThreads, absl::StrCat(threads).c_str(), /*overwrite=*/0);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return refuse(absl::StrCat("does not load: ", why == nullptr ? "no reason is given" : why));
  }
  const auto entry = reinterpret_cast<const PjrtApi* (*)()>(dlsym(library, "GetPjrtApi"));
  if (entry == nullptr) return refuse("has no function GetPjrtApi");
  const PjrtApi* const api = entry();
  if (api == nullptr || api->struct_size < offsetof(PjrtApi, functions)) {
    return refuse("says nothing of its API");
  }
  PjrtPlugin plugin(path, api);
  if (api->pjrt_api_version.major_version != kPjrtMajor) {
    return refuse(absl::StrCat("has version ", plugin.version(), " of the API, and this program ",
                               kPjrtMajor, ".x"));
  }
  PjrtPluginInitializeArgs args;
  RETURN_IF_ERROR(plugin.Call(args));
  return plugin;
}

std::string PjrtPlugin::version() const {
  const PjrtApi::Version& version = api_->pjrt_api_version;
  return absl::StrCat(version.major_version, ".", version.minor_version);
}

bool PjrtPlugin::for_gpus() const {
  const PjrtExtension* extension = api_->extension_start;
  while (extension != nullptr && extension->type != PjrtExtension::kGpuCustomCall) {
    extension = extension->next;
  }
  return extension != nullptr;
}

absl::Status PjrtPlugin::Lacks(const PjrtFunction& function) const {
  return absl::FailedPreconditionError(absl::StrCat("the PJRT plug-in ", path_, " (API ", version(),
                                                    ") has no function ", function.name,
                                                    ": it is too old"));
}

absl::Status PjrtPlugin::TakeError(const PjrtFunction& function, PjrtError* error) const {
  if (error == nullptr) return absl::OkStatus();
  std::string why = "an error that it does not describe";
  auto code = absl::StatusCode::kUnknown;
  PjrtErrorMessageArgs message;
  message.error = error;
  if (const auto say = Find<void(PjrtErrorMessageArgs*)>(message.kFunction); say != nullptr) {
    say(&message);
    if (message.message != nullptr) {
      why = OneLine({message.message, message.message_size}, kMessageBytesMax);
    }
  }
  PjrtErrorGetCodeArgs which;
  which.error = error;
  const auto tell = Find<PjrtError*(PjrtErrorGetCodeArgs*)>(which.kFunction);
  if (tell != nullptr && tell(&which) == nullptr && which.code > 0 && which.code <= 16) {
    code = static_cast<absl::StatusCode>(which.code);
  }
  PjrtErrorDestroyArgs args;
  args.error = error;
  if (const auto free = Find<void(PjrtErrorDestroyArgs*)>(args.kFunction); free != nullptr) {
    free(&args);
  }
  return absl::Status(code,
                      absl::StrCat("the PJRT plug-in ", path_, ": ", function.name, ": ", why));
}

bool IsPjrtDevice(const std::string& device) {
  return device.starts_with(kDevice) && device.size() > kDevice.size();
}

PjrtPlace ParsePjrtPlace(const std::string& device) {
  PjrtPlace place{device.substr(kDevice.size())};
  const size_t colon = place.path.rfind(':');
  const std::string which = colon == std::string::npos ? "" : place.path.substr(colon + 1);
  place.all = which == "all";
  for (const absl::string_view each : absl::StrSplit(which, ',')) {
    size_t number = 0;
    if (!absl::SimpleAtoi(each, &number)) {
      place.devices.clear();
      break;
    }
    place.devices.push_back(number);
  }
  if (place.all || !place.devices.empty()) place.path.resize(colon);
  place.path = AbsolutePath(place.path);
  return place;
}

std::vector<std::string> PjrtPluginPaths() {
  const char* const set = std::getenv("PARACORD_PJRT_PLUGINS");
  std::vector<std::string> paths;
  if (set == nullptr) return paths;
  for (const absl::string_view path : absl::StrSplit(set, ':', absl::SkipEmpty())) {
    paths.push_back(AbsolutePath(std::string(path)));
  }
  return paths;
}

}  // namespace paracord
