// libhdf5, which is opened when a command first reads an HDF5 file. A program linked with libhdf5
// would load libcurl and its dependencies at every start. Used in one thread.
#pragma once

#include <hdf5.h>

#include <span>

#include "absl/status/statusor.h"

namespace paracord {

// The functions of libhdf5 that Hdf5File calls.
struct Hdf5Library {
  decltype(&H5open) open = nullptr;
  decltype(&H5Eset_auto2) set_error_printer = nullptr;
  decltype(&H5free_memory) free_memory = nullptr;
  decltype(&H5Pcreate) property_create = nullptr;
  decltype(&H5Pclose) property_close = nullptr;
  decltype(&H5Pset_fapl_core) property_set_core = nullptr;
  decltype(&H5Pset_file_image) property_set_image = nullptr;
  decltype(&H5Fopen) file_open = nullptr;
  decltype(&H5Fclose) file_close = nullptr;
  decltype(&H5Gget_info) group_info = nullptr;
  decltype(&H5Lget_name_by_idx) link_name = nullptr;
  decltype(&H5Oopen) object_open = nullptr;
  decltype(&H5Oclose) object_close = nullptr;
  decltype(&H5Iget_type) id_type = nullptr;
  decltype(&H5Dget_space) dataset_space = nullptr;
  decltype(&H5Dget_type) dataset_type = nullptr;
  decltype(&H5Dread) dataset_read = nullptr;
  decltype(&H5Sget_simple_extent_ndims) space_rank = nullptr;
  decltype(&H5Sget_simple_extent_dims) space_shape = nullptr;
  decltype(&H5Sclose) space_close = nullptr;
  decltype(&H5Aexists) attribute_exists = nullptr;
  decltype(&H5Aopen) attribute_open = nullptr;
  decltype(&H5Aclose) attribute_close = nullptr;
  decltype(&H5Aget_type) attribute_type = nullptr;
  decltype(&H5Aget_space) attribute_space = nullptr;
  decltype(&H5Aread) attribute_read = nullptr;
  decltype(&H5Tget_class) type_class = nullptr;
  decltype(&H5Tget_size) type_size = nullptr;
  decltype(&H5Tis_variable_str) type_is_variable = nullptr;
  decltype(&H5Tclose) type_close = nullptr;
  // Global identifiers of libhdf5.
  hid_t file_access = 0;
  hid_t native_float = 0;
};

// Opens and starts the first of the libraries `names` that dlopen finds. FAILED_PRECONDITION: none
// is found (the error names the package to install), or it does not start or lacks a function.
absl::StatusOr<Hdf5Library> OpenHdf5Library(std::span<const char* const> names);

// Returns this process's libhdf5, which the first call opens, or why that call failed to.
absl::StatusOr<const Hdf5Library*> TheHdf5Library();

}  // namespace paracord
