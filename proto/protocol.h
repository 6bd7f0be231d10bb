// The names of the methods, and the version of the protocol between processes.
#pragma once

#include <cstdint>
#include <string_view>

namespace paracord {

inline constexpr uint32_t kProtocol = 13;

// Every generation is below kGenerationMax, which counting up never reaches.
inline constexpr uint64_t kGenerationMax = uint64_t{1} << 62;

// A caller that wants no history of the epochs sets StatusRequest.history_from to kNoHistory.
inline constexpr uint64_t kNoHistory = ~uint64_t{0};

// A message with values or gradients is encoded in parts of about this many bytes.
inline constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

namespace method {
inline constexpr std::string_view kExchange = "/paracord.ParameterServer/Exchange";
inline constexpr std::string_view kStage = "/paracord.ParameterServer/Stage";
inline constexpr std::string_view kDescribe = "/paracord.ParameterServer/Describe";
inline constexpr std::string_view kAdopt = "/paracord.ParameterServer/Adopt";
inline constexpr std::string_view kLoad = "/paracord.ParameterServer/Load";
inline constexpr std::string_view kSnapshot = "/paracord.ParameterServer/Snapshot";
inline constexpr std::string_view kPsHold = "/paracord.ParameterServer/Hold";
inline constexpr std::string_view kFinish = "/paracord.ParameterServer/Finish";
inline constexpr std::string_view kJoin = "/paracord.Coordinator/Join";
inline constexpr std::string_view kWorkerHold = "/paracord.Coordinator/Hold";
inline constexpr std::string_view kWork = "/paracord.Coordinator/Work";
inline constexpr std::string_view kStatus = "/paracord.Coordinator/Status";
inline constexpr std::string_view kScale = "/paracord.Coordinator/Scale";
}  // namespace method

}  // namespace paracord
