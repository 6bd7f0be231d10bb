#include "cli/hdf5_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr uint64_t kNamesMax = 1 << 20;        // names in a group
constexpr uint64_t kRankMax = 32;              // HDF5's own
constexpr uint64_t kStringBytesMax = 1 << 28;  // all strings of an attribute together
constexpr unsigned kReadOnly = 0;      // H5F_ACC_RDONLY, which would call functions of the library
constexpr uint64_t kSharedMax = 1024;  // compressed numbers may expand so many times

// Closes an identifier of the library at the end of a block.
class Closed {
 public:
  Closed(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Closed() {
    if (id_ >= 0) close_(id_);
  }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  hid_t operator*() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  const hid_t id_;
  herr_t (*const close_)(hid_t);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Hdf5File>> Hdf5File::Open(std::string bytes, std::string name) {
  const absl::StatusOr<const Hdf5Library*> library = TheHdf5Library();
  if (!library.ok()) {
    return absl::Status(library.status().code(),
                        absl::StrCat(name, ": ", std::string(library.status().message())));
  }
  const Hdf5Library& hdf5 = **library;
  const Closed access(hdf5.property_create(hdf5.file_access), hdf5.property_close);
  constexpr size_t kIncrement = 1 << 20;
  // The library copies the bytes, and opens the copy under a name that is no file.
  if (!access.ok() || hdf5.property_set_core(*access, kIncrement, /*backing_store=*/0) < 0 ||
      hdf5.property_set_image(*access, bytes.data(), bytes.size()) < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": libhdf5 does not take its bytes"));
  }
  const hid_t file = hdf5.file_open("paracord", kReadOnly, *access);
  if (file < 0) return absl::DataLossError(absl::StrCat(name, ": is no sound HDF5 file"));
  return std::unique_ptr<Hdf5File>(new Hdf5File(hdf5, std::move(name), file, bytes.size()));
}

Hdf5File::~Hdf5File() { hdf5_.file_close(file_); }

absl::Status Hdf5File::Damaged(const std::string& object) const {
  return absl::DataLossError(absl::StrCat(name_, ": ", object, " cannot be read from the HDF5"));
}

absl::StatusOr<std::vector<std::string>> Hdf5File::Names(const std::string& group) const {
  const Closed opened(hdf5_.object_open(file_, group.c_str(), H5P_DEFAULT), hdf5_.object_close);
  if (!opened.ok() || hdf5_.id_type(*opened) != H5I_GROUP) {
    return absl::NotFoundError(absl::StrCat(name_, ": has no group ", group));
  }
  H5G_info_t info = {};
  if (hdf5_.group_info(*opened, &info) < 0 || info.nlinks > kNamesMax) return Damaged(group);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto name = [&](char* to, size_t bytes) {
      return hdf5_.link_name(*opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, to, bytes, H5P_DEFAULT);
    };
    const ssize_t bytes = name(nullptr, 0);
    if (bytes <= 0 || bytes > ssize_t{1 << 16}) return Damaged(group);
    std::string text(static_cast<size_t>(bytes) + 1, '\0');
    if (name(text.data(), text.size()) != bytes) return Damaged(group);
    text.resize(static_cast<size_t>(bytes));
    names.push_back(std::move(text));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<uint64_t>> Hdf5File::ShapeOf(hid_t space, const std::string& object,
                                                        uint64_t element_bytes) const {
  const int rank = space < 0 ? -1 : hdf5_.space_rank(space);
  if (rank < 0 || static_cast<uint64_t>(rank) > kRankMax) return Damaged(object);
  std::vector<hsize_t> sizes(static_cast<size_t>(rank));
  if (rank > 0 && hdf5_.space_shape(space, sizes.data(), nullptr) < 0) return Damaged(object);
  // A file of a few bytes may say that an array has any size.
  uint64_t most = bytes_ * kSharedMax / std::max<uint64_t>(element_bytes, 1);
  for (const hsize_t size : sizes) {
    if (size > most) return Damaged(object);
    if (size > 0) most /= size;
  }
  return std::vector<uint64_t>(sizes.begin(), sizes.end());
}

absl::StatusOr<std::vector<std::string>> Hdf5File::Strings(const std::string& object,
                                                           const std::string& attribute) const {
  const std::string what = absl::StrCat(object, "'s attribute ", attribute);
  const Closed opened(hdf5_.object_open(file_, object.c_str(), H5P_DEFAULT), hdf5_.object_close);
  if (!opened.ok()) return absl::NotFoundError(absl::StrCat(name_, ": has no ", object));
  const htri_t exists = hdf5_.attribute_exists(*opened, attribute.c_str());
  if (exists < 0) return Damaged(what);
  std::vector<std::string> strings;
  if (exists == 0) return strings;
  const Closed held(hdf5_.attribute_open(*opened, attribute.c_str(), H5P_DEFAULT),
                    hdf5_.attribute_close);
  if (!held.ok()) return Damaged(what);
  const Closed type(hdf5_.attribute_type(*held), hdf5_.type_close);
  const Closed space(hdf5_.attribute_space(*held), hdf5_.space_close);
  if (!type.ok() || !space.ok()) return Damaged(what);
  const size_t each = hdf5_.type_size(*type);
  ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, ShapeOf(*space, what, each));
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  if (count == 0) return strings;
  if (hdf5_.type_class(*type) != H5T_STRING) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what, " is no string"));
  }
  if (each == 0 || each > kStringBytesMax / count) return Damaged(what);
  if (hdf5_.type_is_variable(*type) > 0) {
    std::vector<char*> texts(count, nullptr);
    if (hdf5_.attribute_read(*held, *type, texts.data()) < 0) return Damaged(what);
    for (char* const text : texts) {
      strings.emplace_back(text == nullptr ? "" : text);
      if (text != nullptr) hdf5_.free_memory(text);
    }
    return strings;
  }
  std::string bytes(count * each, '\0');
  if (hdf5_.attribute_read(*held, *type, bytes.data()) < 0) return Damaged(what);
  for (uint64_t i = 0; i < count; ++i) {
    std::string text = bytes.substr(i * each, each);
    strings.push_back(text.substr(0, text.find('\0')));
  }
  return strings;
}

absl::StatusOr<std::optional<Hdf5File::Numbers>> Hdf5File::Read(const std::string& dataset) const {
  const Closed opened(hdf5_.object_open(file_, dataset.c_str(), H5P_DEFAULT), hdf5_.object_close);
  if (!opened.ok()) return absl::NotFoundError(absl::StrCat(name_, ": has no ", dataset));
  if (hdf5_.id_type(*opened) != H5I_DATASET) return std::nullopt;
  const Closed type(hdf5_.dataset_type(*opened), hdf5_.type_close);
  const Closed space(hdf5_.dataset_space(*opened), hdf5_.space_close);
  if (!type.ok() || !space.ok()) return Damaged(dataset);
  const H5T_class_t kind = hdf5_.type_class(*type);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", dataset, " holds no numbers"));
  }
  Numbers numbers;
  ASSIGN_OR_RETURN(numbers.shape, ShapeOf(*space, dataset, hdf5_.type_size(*type)));
  uint64_t count = 1;
  for (const uint64_t size : numbers.shape) count *= size;
  numbers.values.resize(count);
  if (count > 0 && hdf5_.dataset_read(*opened, hdf5_.native_float, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                      numbers.values.data()) < 0) {
    return Damaged(dataset);
  }
  return numbers;
}

}  // namespace paracord
