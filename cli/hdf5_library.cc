#include "cli/hdf5_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

// Debian 12 has .103, Debian 13 has .310; other systems leave "_serial" out.
constexpr const char* kNames[] = {"libhdf5_serial.so.310", "libhdf5_serial.so.103",
                                  "libhdf5.so.310",        "libhdf5.so.200",
                                  "libhdf5.so.103",        "libhdf5.so"};

class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}
  template <class Fn>
  void Find(const char* name, Fn& to) {
    to = reinterpret_cast<Fn>(Symbol(name));
  }
  // Reads a global that the library initialises when opened.
  void FindId(const char* name, hid_t& to) {
    if (const void* const id = Symbol(name)) to = *static_cast<const hid_t*>(id);
  }
  const std::string& missing() const { return missing_; }

 private:
  void* Symbol(const char* name) {
    void* const symbol = dlsym(library_, name);
    if (symbol == nullptr && missing_.empty()) missing_ = name;
    return symbol;
  }

  void* const library_;
  std::string missing_;
};

void FindAll(Finder& finder, Hdf5Library& hdf5) {
  finder.Find("H5open", hdf5.open);
  finder.Find("H5Eset_auto2", hdf5.set_error_printer);
  finder.Find("H5free_memory", hdf5.free_memory);
  finder.Find("H5Pcreate", hdf5.property_create);
  finder.Find("H5Pclose", hdf5.property_close);
  finder.Find("H5Pset_fapl_core", hdf5.property_set_core);
  finder.Find("H5Pset_file_image", hdf5.property_set_image);
  finder.Find("H5Fopen", hdf5.file_open);
  finder.Find("H5Fclose", hdf5.file_close);
  finder.Find("H5Gget_info", hdf5.group_info);
  finder.Find("H5Lget_name_by_idx", hdf5.link_name);
  finder.Find("H5Oopen", hdf5.object_open);
  finder.Find("H5Oclose", hdf5.object_close);
  finder.Find("H5Iget_type", hdf5.id_type);
  finder.Find("H5Dget_space", hdf5.dataset_space);
  finder.Find("H5Dget_type", hdf5.dataset_type);
  finder.Find("H5Dread", hdf5.dataset_read);
  finder.Find("H5Sget_simple_extent_ndims", hdf5.space_rank);
  finder.Find("H5Sget_simple_extent_dims", hdf5.space_shape);
  finder.Find("H5Sclose", hdf5.space_close);
  finder.Find("H5Aexists", hdf5.attribute_exists);
  finder.Find("H5Aopen", hdf5.attribute_open);
  finder.Find("H5Aclose", hdf5.attribute_close);
  finder.Find("H5Aget_type", hdf5.attribute_type);
  finder.Find("H5Aget_space", hdf5.attribute_space);
  finder.Find("H5Aread", hdf5.attribute_read);
  finder.Find("H5Tget_class", hdf5.type_class);
  finder.Find("H5Tget_size", hdf5.type_size);
  finder.Find("H5Tis_variable_str", hdf5.type_is_variable);
  finder.Find("H5Tclose", hdf5.type_close);
}

}  // namespace

absl::StatusOr<Hdf5Library> OpenHdf5Library(std::span<const char* const> names) {
  void* library = nullptr;
  for (const char* const name : names) {
    if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        "its weights are HDF5, and there is no libhdf5 here: install Debian's package "
        "libhdf5-103-1 (of Debian 13: libhdf5-310)");
  }
  Hdf5Library hdf5;
  Finder finder(library);
  FindAll(finder, hdf5);
  if (finder.missing().empty() && hdf5.open() < 0) {
    return absl::FailedPreconditionError("libhdf5 does not start");
  }
  finder.FindId("H5P_CLS_FILE_ACCESS_ID_g", hdf5.file_access);
  finder.FindId("H5T_NATIVE_FLOAT_g", hdf5.native_float);
  if (!finder.missing().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("libhdf5 has no function ", finder.missing()));
  }
  hdf5.set_error_printer(H5E_DEFAULT, nullptr, nullptr);  // errors are returned
  return hdf5;
}

absl::StatusOr<const Hdf5Library*> TheHdf5Library() {
  static const absl::StatusOr<Hdf5Library> hdf5 = OpenHdf5Library(kNames);
  if (!hdf5.ok()) return hdf5.status();
  return &*hdf5;
}

}  // namespace paracord
