// Reads the bytes as a file of TFRecords, or as a single tf.train.Example in a sound container.
#include "common/json_text.h"
#include "data/tf_example.h"
#include "storage/tf_record_writer.h"
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {
namespace {

constexpr const char* kOptions[] = {
    R"({"features": [{"name": "x", "shape": [2]}], "label": "y"})",
    R"({"features": [{"name": "x", "shape": [2], "pad": 0}],
        "label": {"name": "y", "default": 1}})",
    R"({"features": [{"name": "x", "dtype": "string"}], "label": {"name": "y", "dtype": "int64"}})",
    R"({"features": [{"name": "x", "dtype": "uint8", "shape": [4]}], "label": "y"})",
    R"({"features": [{"name": "x", "dtype": "image", "shape": [2, 2, 3]}], "label": "y"})",
};

class StringFile : public WriteFile {
 public:
  std::string bytes;
  absl::Status Append(std::string_view more) override {
    bytes.append(more);
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint64_t how = input.Number(2 * std::size(kOptions) - 1);
  nlohmann::json options = JsonOf(kOptions[how / 2]);
  options["files"] = "/r";
  const std::string bytes(input.Rest());
  StringFile sound;
  TfRecordWriter writer(sound);
  Demand(writer.Append(bytes).ok(), "a record is written");
  MemoryFiles files;
  files.contents["/r"] = how % 2 == 0 ? bytes : sound.bytes;
  ReadSource(files, "tfrecord", options);
  std::vector<ExampleFeature> features;
  if (!ParseExample(bytes, features).ok()) return 0;
  std::vector<float> numbers(16);
  std::vector<ExactInteger> exact;
  std::vector<std::string> texts;
  for (const ExampleFeature& feature : features) {
    ReadNumbers(feature, numbers, 0, exact).status().IgnoreError();
    ReadTexts(feature, texts).IgnoreError();
    ReadBytes(feature).status().IgnoreError();
  }
  return 0;
}

}  // namespace paracord::fuzz
