#include "security/credentials.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "security/tls_context.h"
#include "tests/certificates.h"
#include "tests/no_hashes.h"
#include "tests/security/handshake.h"

namespace paracord {
namespace {

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// The credentials of a process, with a clock that the test moves.
struct Process {
  Process(const std::string& ca, const PemPair& pair, bool token = false) : keys(ca, pair) {
    SecurityOptions options = keys.options();
    keys.Write("token", "a-secret-of-the-cluster\n");
    if (token) options.token_file = keys.Path("token");
    auto loaded = Credentials::Load(options, files, [this] { return now_ms; });
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    credentials = *std::move(loaded);
  }
  std::shared_ptr<const Credentials::Keys> Keys() { return credentials->Current(); }

  int64_t now_ms = 1'000'000;
  PosixFiles files;
  TestKeys keys;
  std::shared_ptr<Credentials> credentials;
};

TEST_CASE("both sides of a handshake learn who the other is") {
  const TestCa ca("lab");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  Process worker(ca.pem(), ca.Issue("DNS:host,URI:spiffe://lab/worker/7"));
  const Handshake hands(ps.Keys()->server.get(), worker.Keys()->client.get(), "paracord/1");
  REQUIRE(hands.done());
  CHECK(ps.credentials->PeerOf(hands.server.get())->Uri() == "spiffe://lab/worker/7");
  CHECK(worker.credentials->PeerOf(hands.client.get())->Task() == "ps:2");
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(hands.server.get(), &name, &size);
  CHECK(std::string(reinterpret_cast<const char*>(name), size) == kStreamProtocol);
  CHECK(SSL_version(hands.server.get()) == TLS1_3_VERSION);
}

TEST_CASE("a page is shown to who shows no certificate, by HTTP/1.1 alone") {
  const TestCa ca("lab");
  Process ps(ca.pem(), ca.Issue("DNS:lab,URI:spiffe://lab/ps/2"));
  ContextSource source;
  source.ca_pem = ca.pem();
  const auto reader = MakeContext(Side::kClient, source, false);
  REQUIRE(reader.ok());
  CHECK_FALSE(Handshake(ps.Keys()->server.get(), reader->get()).server_done);
  for (const std::string protocol : {"", "http/1.1"}) {
    const Handshake hands(ps.Keys()->https.get(), reader->get(), protocol);
    REQUIRE(hands.done());
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(hands.client.get(), &name, &size);
    CHECK(std::string(reinterpret_cast<const char*>(name), size) == protocol);
    CHECK(SSL_version(hands.server.get()) == TLS1_3_VERSION);
  }
  CHECK_FALSE(Handshake(ps.Keys()->https.get(), reader->get(), "paracord/1").client_done);
}

TEST_CASE("a peer whose certificate another CA signed, or that has expired, is refused") {
  const TestCa ca("lab"), other("lab");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  Process stranger(ca.pem(), other.Issue("URI:spiffe://lab/worker/0"));
  CHECK_FALSE(Handshake(ps.Keys()->server.get(), stranger.Keys()->client.get()).server_done);
  Process misled(other.pem(), ca.Issue("URI:spiffe://lab/worker/0"));
  CHECK_FALSE(Handshake(ps.Keys()->server.get(), misled.Keys()->client.get()).client_done);

  const PemPair expired = ca.Issue("URI:spiffe://lab/worker/0", /*seconds=*/-60);
  const TestKeys keys(ca.pem(), expired);
  PosixFiles files;
  const auto own = Credentials::Load(keys.options(), files);
  REQUIRE_FALSE(own.ok());
  CHECK(Text(own.status()).find("task.crt expired 1 minute ago: replace it") != std::string::npos);
  CHECK(absl::IsUnavailable(own.status()));  // retried, since a valid one may come
}

TEST_CASE("the time between two moments is told in its largest unit") {
  CHECK(Distance(1000, 1000 + 3 * 60 + 59) == "3 minutes");
  CHECK(Distance(1000 + 24 * 3600, 1000) == "1 day");
  CHECK(Distance(1000, 1000 + 7200) == "2 hours");
  CHECK(Distance(1000, 1000) == "0 seconds");
}

TEST_CASE("a certificate that a list revokes is refused, from when the list says so") {
  const TestCa ca("lab"), other("other");
  const PemPair lost = ca.Issue("URI:spiffe://lab/worker/0");
  Process worker(ca.pem(), lost);
  TestKeys keys(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  SecurityOptions options = keys.options();
  options.crl = keys.Path("revoked.pem");
  keys.Write("revoked.pem", other.Revoking(lost));  // from an authority that is not trusted
  int64_t now_ms = 1'000'000;
  PosixFiles files;
  const auto loaded = Credentials::Load(options, files, [&] { return now_ms; });
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  const std::shared_ptr<Credentials> ps = *loaded;
  const Handshake before(ps->Current()->server.get(), worker.Keys()->client.get());
  REQUIRE(before.done());
  const PeerCertificate certificate(before.server.get());
  CHECK(certificate.Name().starts_with("spiffe://lab/worker/0, serial "));
  CHECK(ps->ProblemOf(certificate).empty());

  keys.Write("revoked.pem", ca.Revoking(lost));
  now_ms += 1000;
  CHECK(ps->ProblemOf(certificate) == "it is revoked by --tls-crl (" + certificate.Name() + ")");
  CHECK(ps->ProblemOf(PeerCertificate(lost.cert)) == ps->ProblemOf(certificate));
  const Handshake after(ps->Current()->server.get(), worker.Keys()->client.get());
  CHECK_FALSE(after.server_done);
  CHECK(RefusedCertificate(after.server.get()) == ps->ProblemOf(certificate));
  Process another(ca.pem(), ca.Issue("URI:spiffe://lab/worker/0"));
  CHECK(Handshake(ps->Current()->server.get(), another.Keys()->client.get()).done());
  keys.Write("revoked.pem", "no list");
  now_ms += 1000;
  CHECK_FALSE(ps->ProblemOf(certificate).empty());  // the old keys stay in use
}

TEST_CASE("a certificate that expires while its connection lasts is believed no more") {
  const TestCa ca("lab");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  const PeerCertificate gone(ca.Issue("URI:spiffe://lab/worker/0", /*seconds=*/-180).cert);
  CHECK(ps.credentials->ProblemOf(gone) == "it expired 3 minutes ago (" + gone.Name() + ")");
  CHECK(ps.credentials->ProblemOf(PeerCertificate()).empty());  // a peer that showed the token
}

TEST_CASE("an authority that is believed no more ends no connection that exists") {
  const TestCa before("lab"), after("lab");
  Process ps(before.pem(), before.Issue("URI:spiffe://lab/ps/2"));
  Process worker(before.pem(), before.Issue("URI:spiffe://lab/worker/0"));
  const Handshake handshake(ps.Keys()->server.get(), worker.Keys()->client.get());
  REQUIRE(handshake.done());
  const PeerCertificate certificate(handshake.server.get());
  Process later(after.pem(), after.Issue("URI:spiffe://lab/ps/2"));
  CHECK(later.credentials->ProblemOf(certificate).empty());
  CHECK_FALSE(Handshake(later.Keys()->server.get(), worker.Keys()->client.get()).server_done);
}

TEST_CASE("an own certificate that the own CAs have not signed is told with the files' names") {
  const TestCa ca("lab"), other("lab");
  Process sound(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  CHECK(sound.Keys()->own_problem.empty());
  Process foreign(ca.pem(), other.Issue("URI:spiffe://lab/ps/2"));
  const std::string problem = foreign.Keys()->own_problem;
  INFO(problem);
  CHECK(problem.find("--tls-cert " + foreign.keys.Path("task.crt") + ": it is signed by another " +
                     "CA than those of --tls-ca") == 0);
  CHECK(problem.find("that has this --tls-ca " + foreign.keys.Path("ca.crt")) != std::string::npos);
}

TEST_CASE("a certificate of another cluster, or without one identity, belongs to nobody") {
  const TestCa ca("lab");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  for (const auto& [uris, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"spiffe://plant/worker/0"}, "of the cluster plant, and this is lab"},
           {{}, "has 0 URIs"},
           {{"https://lab/worker/0"}, "has 0 URIs"},
           {{"spiffe://lab/ps/0", "spiffe://lab/worker/0"}, "has 2 URIs"},
           {{"spiffe://lab/admin/0"}, "role that is none of"}}) {
    const auto peer = ps.credentials->PeerNamed(uris);
    CHECK(absl::IsUnauthenticated(peer.status()));
    CHECK(Text(peer.status()).find(what) != std::string::npos);
  }
  Process plant(ca.pem(), ca.Issue("URI:spiffe://plant/worker/0"));
  const Handshake hands(ps.Keys()->server.get(), plant.Keys()->client.get());
  REQUIRE(hands.done());  // a CA may sign for several clusters
  CHECK(absl::IsUnauthenticated(ps.credentials->PeerOf(hands.server.get()).status()));
}

TEST_CASE("files that change are read again, and those that do not fit are left alone") {
  const TestCa ca("lab"), next("lab 2");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  const auto first = ps.Keys();
  const PemPair renewed = next.Issue("URI:spiffe://lab/ps/2");
  ps.keys.Write("task.crt", renewed.cert);  // the key file is still the old one
  ps.now_ms += 1000;
  CHECK(ps.Keys() == first);
  ps.keys.Put(renewed);
  ps.now_ms += 999;
  CHECK(ps.Keys() == first);  // not yet checked again
  ps.now_ms += 1;
  const auto second = ps.Keys();
  CHECK(second->version == first->version + 1);
  CHECK(second->key_pem == renewed.key);
  // Old connections go on with their keys. New peers trust only the new authority.
  Process worker(next.pem() + ca.pem(), ca.Issue("URI:spiffe://lab/worker/0"));
  CHECK(Handshake(second->server.get(), worker.Keys()->client.get()).done());
  Process late(ca.pem(), ca.Issue("URI:spiffe://lab/worker/0"));
  CHECK_FALSE(Handshake(second->server.get(), late.Keys()->client.get()).client_done);
}

// Files on storage that hangs while the test wants so.
class HangingFiles : public PosixFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    waiting += hangs ? 1 : 0;
    while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return PosixFiles::Open(path);
  }
  std::atomic<bool> hangs = false;
  std::atomic<int> waiting = 0;
};

bool Becomes(const std::atomic<int>& number, int wanted) {
  for (int i = 0; i < 5000 && number != wanted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return number == wanted;
}

TEST_CASE("a storage that hangs keeps one thread that asks for the keys, and no other") {
  const TestCa ca("lab");
  const TestKeys keys(ca.pem(), ca.Issue("URI:spiffe://lab/ps/2"));
  HangingFiles files;
  std::atomic<int64_t> now_ms = 1'000'000;
  const auto credentials =
      Credentials::Load(keys.options(), files, [&] { return now_ms.load(); }).value();
  const auto first = credentials->Current();
  files.hangs = true;
  now_ms += 1000;
  std::thread reader([&] { credentials->Current(); });
  CHECK(Becomes(files.waiting, 1));
  now_ms += 5000;
  std::atomic<int> answers = 0;
  std::thread other([&] {
    answers += credentials->Current() == first ? 1 : 0;
    answers += credentials->PeerNamed({"spiffe://lab/worker/0"}).ok() ? 1 : 0;
  });
  CHECK(Becomes(answers, 2));
  CHECK(files.waiting == 1);
  files.hangs = false;
  reader.join();
  other.join();
}

TEST_CASE(
    "a client without a certificate is let into the handshake only where a token may follow") {
  const TestCa ca("lab");
  Process strict(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"));
  Process lenient(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true);
  SecurityOptions options = lenient.keys.options();
  options.cert = options.key = "";
  options.token_file = lenient.keys.Path("token");
  PosixFiles files;
  const auto client = Credentials::Load(options, files);
  REQUIRE(client.ok());
  SSL_CTX* const context = (*client)->Current()->client.get();
  CHECK_FALSE(Handshake(strict.Keys()->server.get(), context).server_done);
  const Handshake hands(lenient.Keys()->server.get(), context);
  CHECK(hands.done());
  CHECK(absl::IsUnauthenticated(lenient.credentials->PeerOf(hands.server.get()).status()));
  CHECK((*client)->PeerOf(hands.client.get())->Task() == "ps:0");
}

TEST_CASE("a token is the file's one word; a replaced one counts for five minutes more") {
  const TestCa ca("lab");
  Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true);
  Credentials& credentials = *ps.credentials;
  CHECK(credentials.IsToken("a-secret-of-the-cluster"));
  for (const std::string wrong :
       {"", "a", "a-secret-of-the-clustes", "a-secret-of-the-cluster\n"}) {
    CHECK_FALSE(credentials.IsToken(wrong));
  }
  ps.keys.Write("token", "another-secret-of-it");
  ps.now_ms += 100;
  CHECK(credentials.IsToken("another-secret-of-it"));
  CHECK(credentials.IsToken("a-secret-of-the-cluster"));
  ps.now_ms += 5 * 60 * 1000;
  CHECK_FALSE(credentials.IsToken("a-secret-of-the-cluster"));
  CHECK(credentials.IsToken("another-secret-of-it"));
  Process none(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"));
  CHECK_FALSE(none.credentials->IsToken(""));
}

TEST_CASE("where OpenSSL computes no SHA-256, no token is right") {
  const TestCa ca("lab");
  const Process ps(ca.pem(), ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true);
  const NoHashes none;
  CHECK_FALSE(ps.credentials->IsToken("a-word-that-a-stranger-guesses"));
}

TEST_CASE("a file of keys that cannot be used is named, and never quoted") {
  const TestCa ca("lab");
  const PemPair good = ca.Issue("URI:spiffe://lab/ps/0");
  const std::string secret = "a secret that is in the wrong file";
  PosixFiles files;
  for (const auto& [name, text, what] : std::vector<std::array<std::string, 3>>{
           {"task.crt", secret, "task.crt has no certificate"},
           {"task.key", secret, "task.key has no private key"},
           {"ca.crt", secret, "ca.crt has no certificate"},
           {"ca.crt", "", "ca.crt has no certificate"},
           {"token", secret, "token must hold one word"},
           {"token", "short", "token must hold one word"},
           {"task.key", ca.Issue("").key, "task.key is not the key of --tls-cert"},
           {"task.crt", ca.Issue("").cert, "has 0 URIs"}}) {
    const TestKeys keys(ca.pem(), good);
    keys.Write("token", "a-secret-of-the-cluster");
    keys.Write(name, text);
    SecurityOptions options = keys.options();
    options.token_file = keys.Path("token");
    const absl::Status status = Credentials::Load(options, files).status();
    CHECK(Text(status).find(what) != std::string::npos);
    CHECK(Text(status).find("secret that") == std::string::npos);
  }
  const TestKeys keys(ca.pem(), good);
  SecurityOptions options = keys.options();
  options.key = keys.Path("nothing");
  const absl::Status status = Credentials::Load(options, files).status();
  CHECK(absl::IsNotFound(status));
  CHECK(Text(status).find(options.key) != std::string::npos);
}

}  // namespace
}  // namespace paracord
