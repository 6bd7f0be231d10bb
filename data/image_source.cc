#include "data/image_source.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "data/data_options.h"
#include "data/file_glob.h"
#include "data/image.h"
#include "data/record_index.h"
#include "data/row_source.h"
#include "data/skipping_source.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kFileBytesMax = uint64_t{256} << 20;
constexpr uint64_t kChecked = 4;

struct ImageOptions {
  std::string folder, list;   // exactly one is set
  bool inputs_alone = false;  // see DataSpec; pictures then need no class
  std::vector<std::string> classes;
  uint32_t height = 0, width = 0, channels = 3;
  double scale = 1;
};

absl::StatusOr<ImageOptions> ReadImageOptions(const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (images)", problems);
  ImageOptions options;
  fields.String("folder", options.folder);
  fields.String("list", options.list);
  if (options.folder.empty() == options.list.empty()) {
    fields.Problem("folder", "give either `folder` or `list`");
  }
  options.classes = ReadClasses(fields, "classes");
  const json* size = fields.FindValue("size");
  const auto is_side = [](const json& side) {
    return side.is_number_unsigned() && side.get<uint64_t>() > 0 &&
           side.get<uint64_t>() <= kImageSideMax;
  };
  if (size == nullptr) {
    fields.Problem("size", "is missing");
  } else if (size->is_array() && size->size() == 2 && is_side((*size)[0]) && is_side((*size)[1])) {
    options.height = (*size)[0].get<uint32_t>();
    options.width = (*size)[1].get<uint32_t>();
  } else {
    fields.Problem("size", absl::StrCat("must be [height, width], each 1 to ", kImageSideMax,
                                        ", is ", JsonExcerpt(*size)));
  }
  fields.Integer("channels", 1, 3, options.channels);
  if (options.channels == 2) fields.Problem("channels", "must be 1 or 3");
  fields.Number("scale", -1e30, 1e30, options.scale);
  fields.Find(kBadRecordsKey);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  options.inputs_alone = spec.inputs_alone;
  return options;
}

bool IsImageName(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return lower[0] != '.' &&
         (lower.ends_with(".jpg") || lower.ends_with(".jpeg") || lower.ends_with(".png"));
}

// ".gif" of "a.GIF".
std::string EndingOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "no ending" : absl::AsciiStrToLower(name.substr(dot));
}

class ImageSource : public RowSource {
 public:
  ImageSource(Files& files, ImageOptions options) : files_(files), options_(std::move(options)) {}

  absl::Status Open(const DataSpec& spec) {
    Forgive(spec);
    if (options_.list.empty()) {
      RETURN_IF_ERROR(ListFolders());
    } else {
      RETURN_IF_ERROR(ReadList());
    }
    if (records() == 0) return absl::InvalidArgumentError(WhyNone());
    for (const Entry& entry : std::span(entries_).first(std::min(records(), spec.walked_max))) {
      ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files_.Open(entry.path));
      const std::string name = entry.path.substr(entry.path.rfind('/') + 1);
      fingerprint_ = Mix64(Mix64(Mix64(fingerprint_, name), file->size()), entry.label);
    }
    schema_.inputs = {{"", {options_.height, options_.width, options_.channels}, {}}};
    schema_.targets = {{"", {}, {}}};
    return CheckFirst(kChecked);
  }

  uint64_t records() const override { return entries_.size(); }
  std::string fingerprint() const override {
    return absl::StrFormat("images:%d:%016x", records(), fingerprint_);
  }
  std::string Where(uint64_t record) const override { return entries_[record].path; }
  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    for (const std::string& name : names) {
      if (name == "path") continue;
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\": a picture has its `path` alone"));
    }
    std::vector<std::string> texts;
    for (const uint64_t record : records)
      texts.resize(texts.size() + names.size(), entries_[record].path);
    return texts;
  }
  std::string Describe() const override { return absl::StrCat(classes_.size(), " classes"); }
  std::vector<std::string> Warnings() const override {
    if (left_out_.empty()) return {};
    return {LeftOut()};
  }

 protected:
  absl::Status ReadRow(uint64_t record, const Row& row) const override {
    const Entry& entry = entries_[record];
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files_.Open(entry.path));
    if (file->size() > kFileBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(entry.path, ": is ", file->size(),
                                                     " bytes long, more than ", kFileBytesMax));
    }
    std::string bytes(static_cast<size_t>(file->size()), '\0');
    RETURN_IF_ERROR(file->ReadAt(0, std::span(bytes)));
    const absl::StatusOr<Image> image = DecodeImage(bytes, options_.channels);
    if (!image.ok()) return At(entry.path, image.status());
    const size_t size = size_t{options_.height} * options_.width * options_.channels;
    ResizeImage(*image, options_.height, options_.width, static_cast<float>(options_.scale),
                {row.inputs[0], size});
    row.targets[0][0] = static_cast<float>(entry.label);
    return absl::OkStatus();
  }

 private:
  struct Entry {
    std::string path;
    uint32_t label;
  };

  // Says how many files that are no images by their names lie where images are looked for.
  std::string LeftOut() const {
    std::string kinds;
    uint64_t all = 0;
    for (const auto& [ending, count] : left_out_) {
      absl::StrAppend(&kinds, kinds.empty() ? "" : ", ", count, " of ", ending);
      all += count;
    }
    return absl::StrCat(all, all == 1 ? " file" : " files",
                        options_.inputs_alone ? "" : " in the class folders",
                        all == 1 ? " is" : " are", " left out (", kinds,
                        "): .jpg, .jpeg and .png are read; save other images as one of these");
  }

  // Says why there are no records, and what to do.
  std::string WhyNone() const {
    if (!options_.list.empty()) return absl::StrCat(options_.list, ": names no images");
    if (!left_out_.empty()) return absl::StrCat(options_.folder, ": ", LeftOut());
    return absl::StrCat(options_.folder, ": has no folders with images: put those of each class ",
                        "into a folder of its own, as ", options_.folder,
                        "/cat/1.jpg, or name images and classes in a file (key list)");
  }

  // Lists the folders: each is a class, even without images, unless `classes` names the classes.
  absl::Status ListFolders() {
    classes_ = options_.classes;
    if (classes_.empty() || options_.inputs_alone) {
      ASSIGN_OR_RETURN(classes_, files_.List(options_.folder));
    }
    std::vector<std::string> found;
    for (const std::string& name : classes_) {
      const std::string folder = absl::StrCat(options_.folder, "/", name);
      const absl::StatusOr<std::vector<std::string>> names = files_.List(folder);
      const bool listed = options_.classes.empty() || options_.inputs_alone;
      const bool beside = IsNoDirectory(names.status()) && listed;
      if (beside && options_.inputs_alone && name[0] != '.') {
        if (IsImageName(name)) entries_.push_back({folder, 0});
        if (!IsImageName(name)) ++left_out_[EndingOf(name)];
      }
      if (beside || name[0] == '.') continue;
      RETURN_IF_ERROR(names.status());
      for (const std::string& image : *names) {
        if (!IsImageName(image)) {
          if (image[0] != '.') ++left_out_[EndingOf(image)];
          continue;
        }
        entries_.push_back({absl::StrCat(folder, "/", image), static_cast<uint32_t>(found.size())});
      }
      found.push_back(name);
    }
    classes_ = std::move(found);
    return absl::OkStatus();
  }

  static std::string InList(const std::string& base, const std::string& path) {
    return path[0] == '/' ? path : base + path;
  }

  // Reads lines "path<TAB>class" or "path,class", with paths relative to the list's directory.
  absl::Status ReadList() {
    ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(files_, options_.list));
    const std::string base = options_.list.substr(0, options_.list.rfind('/') + 1);
    std::vector<std::pair<std::string, std::string>> pairs;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].empty()) continue;
      const size_t tab = lines[i].rfind('\t');
      size_t at = tab == std::string::npos ? lines[i].rfind(',') : tab;
      if (options_.inputs_alone && IsImageName(lines[i])) at = lines[i].size();
      if (options_.inputs_alone && at != std::string::npos && at > 0) {
        pairs.emplace_back(InList(base, lines[i].substr(0, at)), "");
        continue;
      }
      if (at == std::string::npos || at == 0 || at + 1 == lines[i].size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(options_.list, " row ", i, ": is not a path, a tab and a class"));
      }
      pairs.emplace_back(InList(base, lines[i].substr(0, at)), lines[i].substr(at + 1));
    }
    classes_ = options_.inputs_alone ? std::vector<std::string>{""} : options_.classes;
    if (classes_.empty()) {
      for (const auto& [path, name] : pairs) classes_.push_back(name);
      std::sort(classes_.begin(), classes_.end());
      classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
    }
    for (auto& [path, name] : pairs) {
      const auto at = std::find(classes_.begin(), classes_.end(), name);
      if (at == classes_.end()) {
        return absl::InvalidArgumentError(absl::StrCat(options_.list, ": the class ", Quoted(name),
                                                       " of ", path, " is not in `classes`"));
      }
      entries_.push_back({std::move(path), static_cast<uint32_t>(at - classes_.begin())});
    }
    return absl::OkStatus();
  }

  Files& files_;
  const ImageOptions options_;
  std::vector<std::string> classes_;
  std::vector<Entry> entries_;
  std::map<std::string, uint64_t> left_out_;  // files, by ending
  uint64_t fingerprint_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(Files& files, const DataSpec& spec) {
  ASSIGN_OR_RETURN(ImageOptions options, ReadImageOptions(spec));
  auto source = std::make_unique<ImageSource>(files, std::move(options));
  RETURN_IF_ERROR(source->Open(spec));
  return source;
}

}  // namespace paracord
