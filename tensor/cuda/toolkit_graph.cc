#include "tensor/cuda/toolkit_graph.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tensor/cuda/toolkit_status.h"

namespace paracord::cuda {
namespace {

constexpr size_t kTensorsMax = 8;  // inputs and outputs of a graph

// True if an engine with these numerical notes keeps to the limits.
bool Keeps(std::span<const cudnnBackendNumericalNote_t> notes, const PlanLimits& limits) {
  const auto last = notes.end();
  if (limits.no_others && std::find(notes.begin(), last, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) == last)
    return false;
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return limits.deterministic;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // they do not multiply float32
        return !limits.tensor_cores;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:  // from here on more than the last bits are lost
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return true;
      default:
        return false;
    }
  });
}

class Chooser {
 public:
  Chooser(const Libraries& libraries, const PlanDevice& device, const PlanLimits& limits)
      : libraries_(libraries), device_(device), limits_(limits) {}

  // Returns nullopt if no engine keeps to the limits; why() then lists the engines found.
  absl::StatusOr<std::optional<Descriptor>> Among(const Descriptor& graph,
                                                  cudnnBackendHeurMode_t mode) {
    Descriptor heuristics(libraries_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (device_.properties != nullptr) {
      heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device_.properties);
    }
    if (!Goes(heuristics.Finish())) return Nothing();
    const absl::StatusOr<int64_t> count =
        heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::span<Descriptor>());
    if (!Goes(count.status())) return Nothing();
    std::vector<Descriptor> configs;
    for (int64_t i = 0; i < *count; ++i) {
      configs.emplace_back(libraries_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    const absl::StatusOr<int64_t> found =
        heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::span<Descriptor>(configs));
    if (!Goes(found.status())) return Nothing();
    for (int64_t i = 0; i < std::min(*count, *found); ++i) {
      absl::StatusOr<std::optional<Descriptor>> plan = PlanOf(configs[static_cast<size_t>(i)]);
      if (!plan.ok() || plan->has_value()) return plan;
    }
    return Nothing();
  }
  size_t workspace() const { return workspace_; }
  int64_t engine() const { return engine_; }
  const absl::Status& why() const { return why_; }

 private:
  // Returns nullopt, or the error if the machine is at fault.
  absl::StatusOr<std::optional<Descriptor>> Nothing() const {
    if (!why_.ok() && !absl::IsUnimplemented(why_)) return why_;
    return std::nullopt;
  }
  bool Goes(const absl::Status& status) {
    if (!status.ok()) why_ = status;
    return status.ok();
  }
  absl::StatusOr<std::optional<Descriptor>> PlanOf(const Descriptor& config) {
    Descriptor engine(libraries_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!Goes(
            config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, std::span<Descriptor>(&engine, 1)).status())) {
      return Nothing();
    }
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
    if (!Goes(
            engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, std::span<int64_t>(&engine_, 1)).status())) {
      return Nothing();
    }
    const absl::StatusOr<int64_t> noted =
        engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, std::span<cudnnBackendNumericalNote_t>(notes));
    std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> behaviors;
    const absl::StatusOr<int64_t> behaves = engine.Get(
        CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, std::span<cudnnBackendBehaviorNote_t>(behaviors));
    if (!Goes(noted.status()) || !Goes(behaves.status())) return Nothing();
    // Compiling an engine at run time takes a second.
    const auto ends = behaviors.begin() + *behaves;
    const bool compiled =
        std::find(behaviors.begin(), ends, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != ends;
    if (compiled || !Keeps(std::span(notes.data(), static_cast<size_t>(*noted)), limits_)) {
      return std::nullopt;
    }
    Descriptor plan(libraries_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (device_.properties != nullptr) {
      plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device_.properties);
    } else {
      plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, device_.handle);
    }
    int64_t bytes = 0;
    if (!Goes(plan.Finish()) ||
        !Goes(plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, std::span<int64_t>(&bytes, 1))
                  .status())) {
      return Nothing();
    }
    if (bytes > static_cast<int64_t>(limits_.workspace_max)) return std::nullopt;
    workspace_ = static_cast<size_t>(std::max<int64_t>(bytes, 0));
    return plan;
  }

  const Libraries& libraries_;
  const PlanDevice device_;
  const PlanLimits limits_;
  size_t workspace_ = 0;
  int64_t engine_ = 0;
  absl::Status why_;
};

}  // namespace

absl::Status RefusalOf(const Libraries& libraries, const char* call, cudnnStatus_t status) {
  const absl::Status refused = StatusOf(libraries, call, status);
  return IsOfMachine(status) || refused.ok() ? refused
                                             : absl::UnimplementedError(refused.message());
}

Descriptor::Descriptor(const Libraries& libraries, cudnnBackendDescriptorType_t type)
    : libraries_(&libraries),
      error_(RefusalOf(libraries, "cudnnBackendCreateDescriptor",
                       libraries.cudnnBackendCreateDescriptor(type, &descriptor_))) {}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) libraries_->cudnnBackendDestroyDescriptor(descriptor_);
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, std::span<const Descriptor> parts) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& part : parts) all.push_back(part.descriptor_);
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(all.size()), all.data());
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void* values) {
  if (error_.ok()) {
    error_ =
        RefusalOf(*libraries_, "cudnnBackendSetAttribute",
                  libraries_->cudnnBackendSetAttribute(descriptor_, name, type, count, values));
  }
  return *this;
}

absl::Status Descriptor::Finish() {
  RETURN_IF_ERROR(error_);
  return RefusalOf(*libraries_, "cudnnBackendFinalize",
                   libraries_->cudnnBackendFinalize(descriptor_));
}

absl::StatusOr<int64_t> Descriptor::Get(cudnnBackendAttributeName_t name,
                                        std::span<Descriptor> parts) const {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& part : parts) {
    RETURN_IF_ERROR(part.error_);
    all.push_back(part.descriptor_);
  }
  return Get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(all.size()),
             all.empty() ? nullptr : all.data());
}

absl::StatusOr<int64_t> Descriptor::Get(cudnnBackendAttributeName_t name,
                                        cudnnBackendAttributeType_t type, int64_t count,
                                        void* values) const {
  int64_t found = 0;
  RETURN_IF_ERROR(RefusalOf(
      *libraries_, "cudnnBackendGetAttribute",
      libraries_->cudnnBackendGetAttribute(descriptor_, name, type, count, &found, values)));
  return count == 0 ? found : std::min(found, count);
}

absl::StatusOr<Plan> Plan::Choose(const Libraries& libraries, const PlanDevice& device,
                                  std::span<const Descriptor> operations,
                                  const PlanLimits& limits) {
  Descriptor graph(libraries, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (device.properties == nullptr) graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, device.handle);
  RETURN_IF_ERROR(graph.Finish());
  Chooser chooser(libraries, device, limits);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    ASSIGN_OR_RETURN(std::optional<Descriptor> plan, chooser.Among(graph, mode));
    if (plan.has_value())
      return Plan(libraries, *std::move(plan), chooser.workspace(), chooser.engine());
  }
  return absl::UnimplementedError(
      absl::StrCat("cuDNN has no engine",
                   chooser.why().ok() ? "" : absl::StrCat(" (", chooser.why().message(), ")")));
}

absl::Status Plan::Run(cudnnHandle_t handle, std::span<const Bound> tensors,
                       void* workspace) const {
  std::array<int64_t, kTensorsMax> ids;
  std::array<void*, kTensorsMax> at;
  const size_t count = tensors.size();
  for (size_t i = 0; i < count; ++i) {
    ids[i] = tensors[i].tensor;
    at[i] = const_cast<void*>(tensors[i].at);
  }
  Descriptor pack(*libraries_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids.data(), count))
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(at.data(), count))
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  RETURN_IF_ERROR(pack.Finish());
  const cudnnStatus_t status = libraries_->cudnnBackendExecute(handle, plan_.get(), pack.get());
  const absl::Status ran = StatusOf(*libraries_, "cudnnBackendExecute", status);
  return IsNotSupported(status) ? absl::UnimplementedError(ran.message()) : ran;
}

}  // namespace paracord::cuda
