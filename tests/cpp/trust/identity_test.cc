#include <doctest/doctest.h>

#include <fstream>

#include "issued.h"

using namespace square;
using namespace square::testing;

namespace {

PeerCertificate certificate_in(const std::string& folder) {
  std::ifstream file(folder + "/identity.pem");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return read_certificate(text).value();
}

}  // namespace

TEST_CASE("a peer is believed by its domain, its role and its name") {
  const Issuer issuer;
  const Issuer stranger("other.test");
  const auto self = issuer.node("a");
  issuer.issue(Role::kNode, "b");
  stranger.issue(Role::kNode, "b");
  const PeerCertificate b = certificate_in(issuer.folder("b"));
  CHECK(self->check(b, {Role::kNode}, "b").is_ok());
  CHECK(self->check(b, {}, "").is_ok());
  const Status other = self->check(b, {Role::kNode}, "c");
  CHECK(other.code() == StatusCode::kPermissionDenied);
  CHECK(other.message().find("spiffe://square.test/node/b") != std::string::npos);
  CHECK(self->check(b, {Role::kController}, "").code() == StatusCode::kPermissionDenied);
  CHECK(self->check(certificate_in(stranger.folder("b")), {Role::kNode}, "b").code() ==
        StatusCode::kUnauthenticated);
  CHECK(self->check({std::nullopt, b.fingerprint, 0}, {}, "").code() == StatusCode::kUnauthenticated);
}

TEST_CASE("identities of their own believe the fingerprints that they were told, and nobody else") {
  const auto a = Identity::make_own().value();
  const auto b = Identity::make_own().value();
  const PeerCertificate of_b = read_certificate(b->certificate_pem()).value();
  CHECK_FALSE(of_b.name.has_value());
  CHECK(of_b.fingerprint == b->fingerprint());
  CHECK(a->check(of_b, {Role::kNode}, "b").code() == StatusCode::kUnauthenticated);
  REQUIRE(a->believe({b->fingerprint()}).is_ok());
  CHECK(a->check(of_b, {Role::kNode}, "b").is_ok());
  const auto again = Identity::own_of(b->key_pem() + b->certificate_pem());
  REQUIRE(again.is_ok());
  CHECK((*again)->fingerprint() == b->fingerprint());
  CHECK(Identity::own_of(a->key_pem() + b->certificate_pem()).status().code() ==
        StatusCode::kInvalidArgument);
  CHECK(Identity::own_of("nonsense").status().code() == StatusCode::kInvalidArgument);
  CHECK(a->believe({"0123"}).code() == StatusCode::kInvalidArgument);
  const Issuer issuer;
  issuer.issue(Role::kNode, "b");
  CHECK(a->check(certificate_in(issuer.folder("b")), {Role::kNode}, "b").code() ==
        StatusCode::kUnauthenticated);
}

TEST_CASE("what was issued before a revocation is believed no more, what is issued later is") {
  const Issuer issuer;
  const auto self = issuer.node("a");
  issuer.issue(Role::kNode, "b");
  const PeerCertificate b = certificate_in(issuer.folder("b"));
  self->set_revoked({{Role::kNode, "b", b.issued + 1}, {Role::kTenant, "a", b.issued + 1}});
  const Status revoked = self->check(b, {Role::kNode}, "b");
  CHECK(revoked.code() == StatusCode::kUnauthenticated);
  CHECK(revoked.message().find("revoked") != std::string::npos);
  PeerCertificate later = b;
  later.issued += 1;
  CHECK(self->check(later, {Role::kNode}, "b").is_ok());
  CHECK(self->check(certificate_in(issuer.folder("a")), {Role::kNode}, "a").is_ok());
  self->set_revoked({});
  CHECK(self->check(b, {Role::kNode}, "b").is_ok());
}

TEST_CASE("who may be reached from other machines has an identity, or says that it is insecure") {
  const Issuer issuer;
  const auto identity = issuer.node("a");
  CHECK(check_exposure("127.0.0.1", nullptr, false, "it").is_ok());
  CHECK(check_exposure("0.0.0.0", identity, false, "it").is_ok());
  CHECK(check_exposure("10.0.0.1", nullptr, true, "it").is_ok());
  const Status exposed = check_exposure("10.0.0.1", nullptr, false, "it");
  CHECK(exposed.code() == StatusCode::kInvalidArgument);
  CHECK(exposed.message().find("square ca init") != std::string::npos);
  CHECK(check_exposure("10.0.0.1", identity, true, "it").code() == StatusCode::kInvalidArgument);
}

TEST_CASE("what is no certificate is refused, whatever it is") {
  for (const char* pem : {"", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "nonsense"}) {
    CHECK(read_certificate(pem).status().code() == StatusCode::kInvalidArgument);
  }
}
