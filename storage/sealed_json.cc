#include "storage/sealed_json.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json_text.h"
#include "storage/crc32c.h"

namespace paracord {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Returns the text after the checksummed bytes.
std::string Trailer(std::string_view body, std::string_view key) {
  return absl::StrFormat(",\n \"%s\": \"%08x\"\n}\n", std::string(key), Crc32c(body));
}

}  // namespace

std::string SealJson(const ordered_json& object, std::string_view key) {
  std::string text = object.dump(1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  return text + Trailer(text, key);
}

absl::StatusOr<json> OpenSealedJson(std::string_view text, std::string_view key,
                                    const std::string& path) {
  const size_t trailer_bytes = Trailer("", key).size();
  if (text.size() < trailer_bytes || !text.ends_with("\"\n}\n")) {
    return absl::DataLossError(absl::StrCat(path, ": torn: its end is missing"));
  }
  const std::string_view body = text.substr(0, text.size() - trailer_bytes);
  if (text.substr(body.size()) != Trailer(body, key)) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: its checksum is wrong"));
  }
  json root = JsonOf(text);
  if (!root.is_object()) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: not an object, or nested deeply"));
  }
  return root;
}

}  // namespace paracord
