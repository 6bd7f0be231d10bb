// cuDNN's graph API: descriptors with attributes, operations joined to a graph, and the plan of an
// engine that computes the graph. The available engines depend only on the graph and a GPU's
// properties, and can be tested without a GPU (tests/cuda_host).
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/toolkit_library.h"

namespace paracord::cuda {

// Returns the error of a cuDNN call as a status. The code is UNIMPLEMENTED if cuDNN refuses the
// operation; errors of the machine (no usable GPU, no memory) get the codes of StatusOf
// (toolkit_status.h).
absl::Status RefusalOf(const Libraries& libraries, const char* call, cudnnStatus_t status);

constexpr cudnnBackendAttributeType_t TypeOf(const int64_t&) { return CUDNN_TYPE_INT64; }
constexpr cudnnBackendAttributeType_t TypeOf(const float&) { return CUDNN_TYPE_FLOAT; }
constexpr cudnnBackendAttributeType_t TypeOf(const bool&) { return CUDNN_TYPE_BOOLEAN; }
constexpr cudnnBackendAttributeType_t TypeOf(const char&) { return CUDNN_TYPE_CHAR; }
constexpr cudnnBackendAttributeType_t TypeOf(void* const&) { return CUDNN_TYPE_VOID_PTR; }
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnHandle_t&) { return CUDNN_TYPE_HANDLE; }
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnDataType_t&) {
  return CUDNN_TYPE_DATA_TYPE;
}
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnConvolutionMode_t&) {
  return CUDNN_TYPE_CONVOLUTION_MODE;
}
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnPointwiseMode_t&) {
  return CUDNN_TYPE_POINTWISE_MODE;
}
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnNanPropagation_t&) {
  return CUDNN_TYPE_NAN_PROPOGATION;
}
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnBackendHeurMode_t&) {
  return CUDNN_TYPE_HEUR_MODE;
}
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnBackendNumericalNote_t&) {
  return CUDNN_TYPE_NUMERICAL_NOTE;
}
constexpr cudnnBackendAttributeType_t TypeOf(const cudnnBackendBehaviorNote_t&) {
  return CUDNN_TYPE_BEHAVIOR_NOTE;
}

// A cuDNN descriptor. It gets attributes by Set, is finalized by Finish, and may then become an
// attribute of other descriptors, which copy it. After an error every Set does nothing, and Finish
// returns the error.
class Descriptor {
 public:
  Descriptor(const Libraries& libraries, cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept
      : libraries_(other.libraries_),
        descriptor_(std::exchange(other.descriptor_, nullptr)),
        error_(std::move(other.error_)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(libraries_, other.libraries_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(error_, other.error_);
    return *this;
  }

  template <class T>
  Descriptor& Set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    return Set(name, TypeOf(*values.data()), static_cast<int64_t>(values.size()), values.data());
  }
  template <class T>
  Descriptor& Set(cudnnBackendAttributeName_t name, const T& value) {
    return Set(name, TypeOf(value), 1, &value);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part.descriptor_);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, std::span<const Descriptor> parts);
  absl::Status Finish();

  // Reads the values of an attribute, as many as exist and fit, and returns how many were read. If
  // `values` is empty, returns how many exist.
  template <class T>
  absl::StatusOr<int64_t> Get(cudnnBackendAttributeName_t name, std::span<T> values) const {
    return Get(name, TypeOf(T()), static_cast<int64_t>(values.size()), values.data());
  }
  // Like the Get above; `parts` are descriptors made for the attribute's type.
  absl::StatusOr<int64_t> Get(cudnnBackendAttributeName_t name, std::span<Descriptor> parts) const;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values);
  absl::StatusOr<int64_t> Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              int64_t count, void* values) const;

  const Libraries* libraries_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status error_;
};

// The device of a plan: the device of `handle`, or a device known by its `properties` alone, for
// which plans can be chosen but not run.
struct PlanDevice {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;  // CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
};

struct PlanLimits {
  bool deterministic = true;
  bool tensor_cores = false;  // tensor cores may multiply
  bool no_others = false;     // nothing but tensor cores may multiply
  size_t workspace_max = 0;
};

struct Bound {
  int64_t tensor = 0;  // the tensor's CUDNN_ATTR_TENSOR_UNIQUE_ID
  const void* at = nullptr;
};

class Plan {
 public:
  // Chooses the first engine proposed by cuDNN that keeps to the limits and is not compiled at run
  // time. Returns UNIMPLEMENTED if there is none, or if cuDNN refuses the graph of the operations.
  static absl::StatusOr<Plan> Choose(const Libraries& libraries, const PlanDevice& device,
                                     std::span<const Descriptor> operations,
                                     const PlanLimits& limits);

  size_t workspace_bytes() const { return workspace_; }
  // The engine's number among cuDNN's engines for such a graph. Engine 0 supports the most graphs
  // and is the slowest.
  int64_t engine() const { return engine_; }
  // Runs asynchronously on the handle's stream. UNIMPLEMENTED: the engine refused; nothing was
  // computed.
  absl::Status Run(cudnnHandle_t handle, std::span<const Bound> tensors, void* workspace) const;

 private:
  Plan(const Libraries& libraries, Descriptor plan, size_t workspace, int64_t engine)
      : libraries_(&libraries), plan_(std::move(plan)), workspace_(workspace), engine_(engine) {}

  const Libraries* libraries_;
  Descriptor plan_;
  size_t workspace_;
  int64_t engine_;
};

}  // namespace paracord::cuda
