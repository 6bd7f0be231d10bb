#include "net/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string>
#include <string_view>

#include "common/log.h"
#include "common/one_line.h"
#include "common/status_text.h"

namespace paracord {
namespace {

void LogOfGrpc(gpr_log_func_args* entry) {
  const Logger log("grpc");
  const std::string text = OneLine(Sendable(entry->message), kSendableBytesMax);
  const bool handshake =
      std::string_view(entry->file).find("ssl_transport_security") != std::string_view::npos;
  if (entry->severity == GPR_LOG_SEVERITY_DEBUG || handshake) {
    log.Debug("{}", text);
  } else if (entry->severity == GPR_LOG_SEVERITY_INFO) {
    log.Info("{}", text);
  } else {
    log.Warn("{}", text);
  }
}

}  // namespace

void LogGrpcAsOurs() { gpr_set_log_function(LogOfGrpc); }

}  // namespace paracord
