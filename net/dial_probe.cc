#include "net/dial_probe.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/try_thread.h"
#include "net/socket_address.h"
#include "net/tls_channel.h"
#include "security/tls_context.h"

namespace paracord {
namespace {

constexpr int64_t kPatienceMs = 2000;
constexpr int64_t kSilenceMs = 1000;  // of a peer that should greet
constexpr int64_t kAlertMs = 500;     // for a server to refuse the own certificate

// The reason of a failed connection as a sentence that names the address once.
std::string WhyNoSocket(const std::string& address, const absl::Status& failed) {
  const std::string why(failed.message());
  const bool refused = absl::EndsWith(why, ": Connection refused");
  const bool gone = absl::EndsWith(why, ": No such file or directory");
  if (refused || gone) return absl::StrCat("connection refused: no process listens at ", address);
  if (!absl::EndsWith(why, ": Connection timed out")) return why;
  return absl::StrCat("nothing answers from ", address,
                      ": the host is away, or a firewall drops what is sent to that port");
}

// A server of TLS 1.3 looks at the client's certificate when the client's handshake is over.
std::string AlertAfter(TlsChannel& tls) {
  pollfd ready{tls.fd(), POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(kAlertMs)) <= 0) return "";
  char byte = 0;
  iovec room{&byte, 1};
  ERR_clear_error();
  if (tls.Receive({&room, 1}) >= 0 || errno != EPROTO) return "";
  return AlertOfOwnCertificate();
}

std::string WhyNoTls(int fd, Credentials& credentials, int64_t patience_ms) {
  const std::shared_ptr<const Credentials::Keys> keys = credentials.Current();
  absl::StatusOr<std::unique_ptr<TlsChannel>> tls =
      TlsChannel::Make(fd, keys->client.get(), TlsChannel::End::kClient);
  absl::Status status = tls.status();
  if (tls.ok()) status = (*tls)->HandshakeWithin(patience_ms);
  if (absl::IsUnimplemented(status)) return "";  // a peer of gRPC alone
  if (!status.ok()) return absl::StrCat("TLS: ", std::string(status.message()));
  if (const absl::StatusOr<PeerIdentity> peer = credentials.PeerOf((*tls)->ssl()); !peer.ok()) {
    return std::string(peer.status().message());
  }
  return AlertAfter(**tls);
}

// Begins HTTP/2, which gRPC speaks, as a client does: a server answers with its own settings.
std::string WhyNoPlainText(int fd, const std::string& address, int64_t patience_ms) {
  constexpr std::string_view kHello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  (void)::send(fd, kHello.data(), kHello.size(), MSG_NOSIGNAL);
  pollfd ready{fd, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(patience_ms)) <= 0) {
    return absl::StrCat("what listens at ", address,
                        " takes connections and says nothing: the process hangs, or is stopped");
  }
  char begun[16] = {};
  const ssize_t bytes = ::recv(fd, begun, sizeof(begun), MSG_DONTWAIT);
  constexpr char kTlsAlert = 0x15;
  const bool other = bytes <= 0 || begun[0] == kTlsAlert ||
                     absl::StartsWith(absl::string_view(begun, 16), "HTTP/");
  if (!other) return "";
  return absl::StrCat("what listens at ", address,
                      " does not speak plain text (a port of TLS or of --http does not)");
}

}  // namespace

std::string WhyNotReached(NameLookup& name, Credentials* credentials, int64_t patience_ms) {
  const absl::StatusOr<int> fd = ConnectSocket(name, patience_ms);
  if (!fd.ok()) return WhyNoSocket(name.address(), fd.status());
  if (credentials != nullptr) return WhyNoTls(*fd, *credentials, patience_ms);
  std::string why = WhyNoPlainText(*fd, name.address(), std::min(patience_ms, kSilenceMs));
  ::close(*fd);
  return why;
}

struct DialProbe::State {
  Mutex mu;
  bool looking ABSL_GUARDED_BY(mu) = false;
  std::string problem ABSL_GUARDED_BY(mu);
};

DialProbe::DialProbe(std::string address, std::shared_ptr<Credentials> credentials)
    : address_(std::move(address)),
      credentials_(std::move(credentials)),
      state_(std::make_shared<State>()) {}

void DialProbe::Look() {
  MutexLock lock(state_->mu);
  if (state_->looking) return;
  std::optional<std::thread> thread =
      TryThread([state = state_, address = address_, credentials = credentials_] {
        NameLookup name(address);
        std::string problem = WhyNotReached(name, credentials.get(), kPatienceMs);
        MutexLock found(state->mu);
        state->looking = false;
        state->problem = std::move(problem);
      });
  if (!thread.has_value()) return;
  state_->looking = true;
  thread->detach();
}

std::string DialProbe::Problem() const {
  MutexLock lock(state_->mu);
  return state_->problem;
}

}  // namespace paracord
