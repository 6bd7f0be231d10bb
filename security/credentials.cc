#include "security/credentials.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "security/tls_context.h"

namespace paracord {
namespace {

constexpr int64_t kLookMs = 1000;
constexpr int64_t kLookForTokenMs = 100;           // between looks for an unknown token
constexpr int64_t kFormerTokenMs = 5 * 60 * 1000;  // a replaced token is valid for this long
constexpr size_t kTokenMin = 16;
constexpr size_t kTokenMax = 1024;

absl::StatusOr<std::string> ReadToken(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(path));
  const std::string token(absl::StripAsciiWhitespace(text));
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (token.size() >= kTokenMin && token.size() <= kTokenMax && printable) return token;
  return absl::InvalidArgumentError(
      absl::StrCat("--token-file ", path, " must hold one word of ", kTokenMin, " to ", kTokenMax,
                   " printable characters, such as `openssl rand -hex 32` makes"));
}

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

// Returns false if OpenSSL cannot compute SHA-256.
bool GetDigest(std::string_view text, Digest& digest) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  return SHA256(bytes, text.size(), digest.data()) != nullptr;
}

// Compares in constant time, for secrets of any length. Returns false if a digest fails.
bool SameSecret(std::string_view a, std::string_view b) {
  Digest of_a{}, of_b{};
  const bool both = GetDigest(a, of_a) && GetDigest(b, of_b);
  return both && CRYPTO_memcmp(of_a.data(), of_b.data(), of_a.size()) == 0;
}

// Returns the identity among a certificate's URIs. Empty `cluster`: any cluster.
absl::StatusOr<PeerIdentity> IdentityIn(const std::vector<std::string>& uris,
                                        const std::string& cluster) {
  std::vector<std::string> ours;
  std::copy_if(uris.begin(), uris.end(), std::back_inserter(ours),
               [](const std::string& uri) { return uri.starts_with("spiffe:"); });
  if (ours.size() != 1) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate has ", ours.size(),
                     " URIs spiffe://<cluster>/<role>/<index> among its names, and needs one"));
  }
  absl::StatusOr<PeerIdentity> identity = ParsePeerIdentity(ours[0]);
  if (!identity.ok()) return absl::UnauthenticatedError(identity.status().message());
  if (!cluster.empty() && identity->cluster != cluster) {
    return absl::UnauthenticatedError(absl::StrCat("the certificate is of the cluster ",
                                                   identity->cluster, ", and this is ", cluster));
  }
  return identity;
}

bool Same(const Credentials::Keys& a, const Credentials::Keys& b) {
  return a.chain_pem == b.chain_pem && a.key_pem == b.key_pem && a.ca_pem == b.ca_pem &&
         a.crl_pem == b.crl_pem && a.token == b.token;
}

using SharedChain = std::shared_ptr<STACK_OF(X509)>;

SharedChain ChainOf(STACK_OF(X509) * chain) {
  return {chain, [](STACK_OF(X509) * all) { sk_X509_pop_free(all, X509_free); }};
}

}  // namespace

PeerCertificate::PeerCertificate(SSL* ssl)
    : certificate_(SSL_get1_peer_certificate(ssl), X509_free) {
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl);
  if (chain != nullptr) chain_ = ChainOf(X509_chain_up_ref(chain));
}

PeerCertificate::PeerCertificate(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all);
  certificate_ = {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free};
  chain_ = ChainOf(sk_X509_new_null());
  while (X509* const each = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    if (sk_X509_push(chain_.get(), each) == 0) X509_free(each);
  }
  ERR_clear_error();
}

std::string PeerCertificate::Name() const {
  return certificate_ == nullptr ? "" : CertificateName(certificate_.get());
}

Credentials::Credentials(const SecurityOptions& options, Files& files,
                         std::function<int64_t()> now_ms)
    : options_(options), files_(files), now_ms_(std::move(now_ms)) {}

absl::StatusOr<std::shared_ptr<Credentials>> Credentials::Load(const SecurityOptions& options,
                                                               Files& files,
                                                               std::function<int64_t()> now_ms) {
  std::shared_ptr<Credentials> credentials(new Credentials(options, files, std::move(now_ms)));
  ASSIGN_OR_RETURN(std::shared_ptr<Keys> keys, credentials->Read(options.cluster));
  keys->version = 1;
  MutexLock lock(credentials->mu_);
  credentials->cluster_ = keys->own.has_value() ? keys->own->cluster : options.cluster;
  credentials->keys_ = std::move(keys);
  credentials->looked_ms_ = credentials->now_ms_();
  return credentials;
}

absl::StatusOr<std::shared_ptr<Credentials::Keys>> Credentials::Read(
    const std::string& cluster) const {
  auto keys = std::make_shared<Keys>();
  ContextSource source{.chain_pem = {},
                       .key_pem = {},
                       .ca_pem = {},
                       .chain_name = "--tls-cert " + options_.cert,
                       .key_name = "--tls-key " + options_.key,
                       .ca_name = "--tls-ca " + options_.ca,
                       .crl_name = "--tls-crl " + options_.crl};
  ASSIGN_OR_RETURN(source.ca_pem, files_.ReadWhole(options_.ca));
  if (!options_.crl.empty()) {
    ASSIGN_OR_RETURN(source.crl_pem, files_.ReadWhole(options_.crl));
  }
  if (!options_.token_file.empty()) {
    ASSIGN_OR_RETURN(keys->token, ReadToken(files_, options_.token_file));
  }
  if (!options_.cert.empty()) {
    ASSIGN_OR_RETURN(source.chain_pem, files_.ReadWhole(options_.cert));
    ASSIGN_OR_RETURN(source.key_pem, files_.ReadWhole(options_.key));
    ASSIGN_OR_RETURN(const CertificateFacts facts,
                     ReadCertificate(source.chain_pem, source.chain_name));
    const absl::StatusOr<PeerIdentity> own = IdentityIn(facts.uris, cluster);
    if (!own.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.chain_name, ": ", own.status().message()));
    }
    keys->own = *own;
    keys->expires_unix_s = facts.expires_unix_s;
    if (facts.expires_unix_s * 1000 <= UnixMs()) {
      return absl::UnavailableError(absl::StrCat(source.chain_name, " expired ",
                                                 Distance(facts.expires_unix_s, UnixMs() / 1000),
                                                 " ago: replace it"));
    }
    ASSIGN_OR_RETURN(keys->server, MakeContext(Side::kServer, source, takes_token()));
    ASSIGN_OR_RETURN(keys->https, MakeContext(Side::kHttps, source, options_.http_clients.empty()));
    if (const std::string why = OwnChainProblem(keys->server.get()); !why.empty()) {
      keys->own_problem = absl::StrCat(source.chain_name, ": ", why, "; no peer that has this ",
                                       source.ca_name, " believes it");
    }
  }
  ASSIGN_OR_RETURN(keys->client, MakeContext(Side::kClient, source, false));
  keys->chain_pem = std::move(source.chain_pem);
  keys->key_pem = std::move(source.key_pem);
  keys->ca_pem = std::move(source.ca_pem);
  keys->crl_pem = std::move(source.crl_pem);
  return keys;
}

void Credentials::Look(int64_t every_ms) {
  const int64_t now_ms = now_ms_();
  std::string cluster;
  {
    MutexLock lock(mu_);
    if (looks_ || now_ms - looked_ms_ < every_ms) return;
    looks_ = true;
    looked_ms_ = now_ms;
    cluster = cluster_;
  }
  absl::StatusOr<std::shared_ptr<Keys>> read = Read(cluster);
  MutexLock lock(mu_);
  looks_ = false;
  TakeKeys(std::move(read), now_ms);
}

void Credentials::TakeKeys(absl::StatusOr<std::shared_ptr<Keys>> read, int64_t now_ms) {
  const Logger log("credentials");
  if (!read.ok()) {
    std::string problem(read.status().message());
    if (problem != last_problem_) log.Warn("the keys stay as they were: {}", problem);
    last_problem_ = std::move(problem);
    return;
  }
  last_problem_.clear();
  if (Same(**read, *keys_)) return;
  if ((*read)->token != keys_->token) {
    former_token_ = keys_->token;
    former_until_ms_ = now_ms + kFormerTokenMs;
  }
  (*read)->version = keys_->version + 1;
  keys_ = *std::move(read);
  log.Info("the files of keys have changed, and new connections use the new ones");
  if (!keys_->own_problem.empty()) log.Warn("{}", keys_->own_problem);
}

std::shared_ptr<const Credentials::Keys> Credentials::Current() {
  Look(kLookMs);
  MutexLock lock(mu_);
  return keys_;
}

absl::StatusOr<PeerIdentity> Credentials::PeerNamed(const std::vector<std::string>& uris) {
  std::string cluster;
  {
    MutexLock lock(mu_);
    cluster = cluster_;
  }
  return IdentityIn(uris, cluster);
}

absl::Status Credentials::CheckReader(SSL* ssl) {
  if (options_.http_clients.empty()) return absl::OkStatus();
  const absl::StatusOr<PeerIdentity> peer = PeerOf(ssl);
  if (!peer.ok()) return peer.status();
  const std::vector<std::string> roles = absl::StrSplit(options_.http_clients, ',');
  const std::string role(NameOf(peer->role));
  if (std::find(roles.begin(), roles.end(), role) != roles.end()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(peer->Uri(), " may not read these pages (--http-clients)"));
}

std::string Credentials::ProblemOf(const PeerCertificate& peer) {
  if (!peer.shown()) return "";
  const std::shared_ptr<const Keys> keys = Current();
  X509* const certificate = peer.certificate_.get();
  // X509_cmp_current_time returns 0 on errors. The chain is then verified again.
  const bool expired = X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0;
  if (peer.believed_by_ == keys->version && !expired) return "";
  std::string problem =
      ChainProblem(keys->client.get(), certificate, peer.chain_.get(), Authority::kAny);
  if (problem.empty()) peer.believed_by_ = keys->version;
  return problem;
}

absl::StatusOr<PeerIdentity> Credentials::PeerOf(SSL* ssl) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl),
                                                                X509_free);
  if (certificate == nullptr) return absl::UnauthenticatedError("the peer shows no certificate");
  const long verified = SSL_get_verify_result(ssl);
  if (verified != X509_V_OK) {
    return absl::UnauthenticatedError(
        absl::StrCat("the peer's certificate is refused: ", VerifyErrorText(verified)));
  }
  return PeerNamed(FactsOf(certificate.get()).uris);
}

bool Credentials::IsKnownToken(std::string_view text) {
  MutexLock lock(mu_);
  const bool current = SameSecret(text, keys_->token);
  const bool former = SameSecret(text, former_token_);
  return current || (former && !former_token_.empty() && now_ms_() < former_until_ms_);
}

bool Credentials::IsToken(std::string_view text) {
  if (!takes_token() || text.empty()) return false;
  Look(kLookMs);
  if (IsKnownToken(text)) return true;
  Look(kLookForTokenMs);
  return IsKnownToken(text);
}

}  // namespace paracord
