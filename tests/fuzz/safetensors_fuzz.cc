// Opens the bytes as a safetensors file and reads every tensor, whole and by elements. Also parses
// the bytes as a header alone.
#include <map>
#include <string>
#include <vector>

#include "storage/safetensors.h"
#include "tests/data/memory_files.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool framed = input.Number(255) % 2 == 0;
  const uint64_t data_bytes = input.Number(4095);
  MemoryFiles files;
  std::string& file = files.contents["/f"];
  const std::string_view text = input.Rest();
  if (framed) {  // a header of the right length, then data
    const uint64_t length = text.size();
    file.assign(reinterpret_cast<const char*>(&length), sizeof length);
    file.append(text).append(data_bytes, 'x');
    const auto header = ParseSafetensorsHeader(text, data_bytes);
    Demand(header.ok() == SafetensorsFile::Open(files, "/f").ok(), "a file is as its header");
  } else {
    file = text;
  }
  const auto opened = SafetensorsFile::Open(files, "/f");
  if (!opened.ok()) return 0;
  std::map<std::string, std::vector<char>> places;
  (*opened)
      ->ReadAll([&](const TensorInfo& tensor) -> BytesPlace {
        std::vector<char>& place = places[tensor.name];
        place.resize(tensor.end - tensor.begin);
        return {place};
      })
      .status()
      .IgnoreError();
  for (const TensorInfo& tensor : (*opened)->header().tensors) {
    Demand(tensor.begin <= tensor.end && tensor.end <= file.size(), "a tensor is in its file");
    uint64_t elements = 1;
    for (const uint64_t axis : tensor.shape) elements *= axis;
    if (elements > file.size()) continue;
    std::vector<float> values(elements);
    (*opened)->ReadElements(tensor, 0, values).IgnoreError();
  }
  return 0;
}

}  // namespace paracord::fuzz
