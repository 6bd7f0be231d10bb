#include "net/grpc/peer_check.h"

#include <grpcpp/security/tls_credentials_options.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "security/call_rights.h"

namespace paracord {

namespace tls = grpc::experimental;

struct PeerCheck::Findings {
  Mutex mu;
  std::string problem ABSL_GUARDED_BY(mu);
};

// Checks the peer's role and cluster after gRPC has verified the certificate chain: before the link
// shows its token or makes a call.
class PeerCheck::Verifier : public tls::ExternalCertificateVerifier {
 public:
  Verifier(std::shared_ptr<Credentials> credentials, std::string address,
           std::optional<PeerRole> expected, bool shows_token, std::shared_ptr<Findings> findings)
      : credentials_(std::move(credentials)),
        address_(std::move(address)),
        expected_(expected),
        shows_token_(shows_token),
        findings_(std::move(findings)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* status) override {
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : request->uri_names()) {
      uris.emplace_back(uri.data(), uri.size());
    }
    std::string problem = ProblemOf(uris);
    // gRPC does not look at lists of revoked certificates.
    if (problem.empty()) {
      const PeerCertificate certificate(std::string(request->peer_cert_full_chain().data(),
                                                    request->peer_cert_full_chain().size()));
      problem = credentials_->ProblemOf(certificate);
      if (!problem.empty()) problem = "its certificate: " + problem;
    }
    if (!problem.empty()) *status = {grpc::StatusCode::UNAUTHENTICATED, problem};
    MutexLock lock(findings_->mu);
    findings_->problem = std::move(problem);
    return true;  // gRPC's protocol: checked synchronously
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  std::string ProblemOf(const std::vector<std::string>& uris) const {
    const absl::StatusOr<PeerIdentity> peer = credentials_->PeerNamed(uris);
    if (!peer.ok()) return std::string(peer.status().message());
    const NodeRights& nodes = credentials_->nodes();
    const auto serves = [&](PeerRole role) { return Serves(*peer, role, address_, nodes); };
    const bool daemon = serves(PeerRole::kPs) || serves(PeerRole::kCoordinator);
    if (!expected_.has_value() && shows_token_ && !daemon) {
      return absl::StrCat("the peer there is ", peer->Uri(),
                          ", and the token is shown to a ps or coordinator alone");
    }
    if (!expected_.has_value() || serves(*expected_)) return "";
    return absl::StrCat("the peer there is ", peer->Uri(), ", and not ",
                        ServerText(*expected_, address_, nodes));
  }

  const std::shared_ptr<Credentials> credentials_;
  const std::string address_;
  const std::optional<PeerRole> expected_;
  const bool shows_token_;
  const std::shared_ptr<Findings> findings_;
};

PeerCheck::PeerCheck(std::shared_ptr<Credentials> credentials, std::string address,
                     std::optional<PeerRole> expected)
    : credentials_(std::move(credentials)),
      keys_(credentials_ == nullptr ? nullptr : credentials_->Current()),
      address_(std::move(address)),
      expected_(expected),
      findings_(std::make_shared<Findings>()) {}

std::shared_ptr<grpc::ChannelCredentials> PeerCheck::ForGrpc() const {
  if (keys_ == nullptr) return grpc::InsecureChannelCredentials();
  std::vector<tls::IdentityKeyCertPair> own;
  if (keys_->own.has_value()) own.push_back({keys_->key_pem, keys_->chain_pem});
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<tls::StaticDataCertificateProvider>(keys_->ca_pem, own));
  options.watch_root_certs();
  if (!own.empty()) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<Verifier>(
      credentials_, address_, expected_, !token().empty(), findings_));
  return tls::TlsCredentials(options);
}

std::string PeerCheck::token() const {
  return keys_ == nullptr || keys_->own.has_value() ? "" : keys_->token;
}

bool PeerCheck::SameAs(const PeerCheck& other) const {
  if (keys_ == nullptr || other.keys_ == nullptr) return keys_ == other.keys_;
  return keys_->version == other.keys_->version && expected_ == other.expected_;
}

std::string PeerCheck::problem() const {
  if (keys_ == nullptr) return "";
  MutexLock lock(findings_->mu);
  if (!findings_->problem.empty()) return findings_->problem;
  return "what listens there does not speak TLS with a certificate that --tls-ca signs, or refuses "
         "the own certificate (its log says why)";
}

}  // namespace paracord
