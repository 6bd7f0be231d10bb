// Jobs with tables that programs of an early version began (tests/golden/early_tables) go on, to
// the values that these programs reach themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "e2e/process.h"
#include "objects/all_files.h"
#include "storage/safetensors.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

const std::string kEarly = PARACORD_SOURCE_DIR "/tests/golden/early_tables";

// The bytes of the tensors in a file, by name.
std::map<std::string, std::string> TensorsOf(const std::string& path) {
  AllFiles files;
  const auto file = SafetensorsFile::Open(files, path);
  INFO(file.status());
  REQUIRE(file.ok());
  const std::string text = ReadText(path);
  std::map<std::string, std::string> tensors;
  for (const TensorInfo& tensor : (*file)->header().tensors) {
    tensors[tensor.name] =
        text.substr((*file)->header().data_begin + tensor.begin, tensor.end - tensor.begin);
  }
  return tensors;
}

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// Kernels of today may round otherwise.
void CheckAlmostSame(const std::string& bytes, const std::string& expected) {
  REQUIRE(bytes.size() == expected.size());
  const std::vector<float> values = FloatsOf(bytes), right = FloatsOf(expected);
  float most = 0;
  for (size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - right[i]));
  CHECK(most < 1e-5f);
}

void RunEarly(const std::string& root, const std::string& command) {
  const std::string log = root + "/command.log";
  Process process({"/bin/sh", "-c", "cd " + root + " && paracord " + command},
                  {{"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"}, {"TMPDIR", root}}, log);
  const auto code = process.Wait(60000);
  INFO(command << ": " << ReadText(log));
  CHECK(code == 0);
}

TEST_CASE("a job with a table that an early version began goes on to the same end") {
  const std::string name = GENERATE("fixed", "lazy", "growing", "chain");
  CAPTURE(name);
  const TestDirectory folder;
  const std::string& root = folder.path();
  const auto all = std::filesystem::copy_options::recursive;
  std::filesystem::copy(kEarly + "/" + name, root, all);
  for (const char* data : {"ids.npy", "want.npy"}) {
    std::filesystem::copy(absl::StrCat(kEarly, "/", data), root);
  }
  RunEarly(root, "checkpoint verify --dir dir");
  RunEarly(root, "export --dir dir --out now.safetensors");
  CHECK(TensorsOf(root + "/now.safetensors") == TensorsOf(root + "/values.safetensors"));
  RunEarly(root, "train job.json --dir dir --workers 1 --ps 2");
  CHECK(ReadText(root + "/command.log").find("going on from") != std::string::npos);
  RunEarly(root, "export --dir dir --out last.safetensors");
  const auto last = TensorsOf(root + "/last.safetensors");
  const auto end = TensorsOf(root + "/end.safetensors");
  REQUIRE(last.size() == end.size());
  for (const auto& [tensor, bytes] : end) {
    CAPTURE(tensor);
    REQUIRE(last.contains(tensor));
    if (tensor.ends_with("/ids")) {
      CHECK(last.at(tensor) == bytes);
    } else {
      CheckAlmostSame(last.at(tensor), bytes);
    }
  }
  CHECK(end != TensorsOf(root + "/values.safetensors"));
}

}  // namespace
}  // namespace paracord::e2e
