#include "square/grant.h"

#include <doctest/doctest.h>
#include <openssl/pem.h>

#include <array>
#include <fstream>

#include "issued.h"
#include "trust/grants.h"
#include "trust/openssl.h"

using namespace square;
using namespace square::testing;

namespace {

Grant grant_of(const std::string& tenant) {
  Grant grant;
  grant.tenant = tenant;
  grant.nodes = {"a", "b"};
  grant.operations = {"broadcast", "all_reduce"};
  grant.weight = 2.5;
  grant.groups = 3;
  grant.collectives = 10;
  grant.expires = 4'000'000'000;
  return grant;
}

std::string authority_pem(const Issuer& issuer) {
  std::ifstream file(issuer.folder("authority") + "/authority.pem");
  return {std::istreambuf_iterator<char>(file), {}};
}

// What an authority of another release, or a broken one, would sign.
std::string signed_by(const Issuer& issuer, const std::string& encoded) {
  std::ifstream file(issuer.folder("authority") + "/authority.key");
  const std::string pem(std::istreambuf_iterator<char>(file), {});
  const trust::KeyPtr key = trust::read_key_pem(pem);
  REQUIRE(key != nullptr);
  const std::string text = std::string("SQUARE GRANT") + '\0' + encoded;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::array<unsigned char, 256> signature{};
  std::size_t size = signature.size();
  const std::unique_ptr<EVP_MD_CTX, trust::Freed<EVP_MD_CTX_free>> digest(EVP_MD_CTX_new());
  REQUIRE(EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1);
  REQUIRE(EVP_DigestSign(digest.get(), signature.data(), &size, bytes, text.size()) == 1);
  const trust::BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), "SQUARE GRANT", "", reinterpret_cast<const unsigned char*>(encoded.data()),
                static_cast<long>(encoded.size()));
  PEM_write_bio(bio.get(), "SQUARE SIGNATURE", "", signature.data(), static_cast<long>(size));
  return trust::text_of(*bio);
}

}  // namespace

TEST_CASE("a grant is read as it was signed, by those who believe its authority") {
  const Issuer issuer;
  const Issuer stranger;
  const std::string text = issuer.authority().grant(grant_of("alice")).value();
  const auto read = read_grant(text, authority_pem(issuer));
  REQUIRE_MESSAGE(read.is_ok(), read.status().to_string());
  Grant expected = grant_of("alice");
  expected.domain = "square.test";
  CHECK(*read == expected);
  CHECK(read_grant(text, authority_pem(stranger)).status().code() == StatusCode::kUnauthenticated);
  CHECK(read_grant(text, authority_pem(stranger) + authority_pem(issuer)).is_ok());
}

TEST_CASE("no byte of a grant can be another") {
  const Issuer issuer;
  const std::string pem = authority_pem(issuer);
  const std::string text = issuer.authority().grant(grant_of("alice")).value();
  const Grant original = read_grant(text, pem).value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string altered = text;
    altered[i] = altered[i] == 'A' ? 'B' : 'A';
    const auto read = read_grant(altered, pem);
    if (read.is_ok()) CHECK(*read == original);  // between the blocks, or a bit that base64 does not use
  }
  CHECK_FALSE(read_grant(text.substr(0, text.size() / 2), pem).is_ok());
  CHECK_FALSE(read_grant("", pem).is_ok());
  CHECK_FALSE(read_grant(std::string(kMaxGrantBytes + 1, 'A'), pem).is_ok());
  CHECK_FALSE(read_grant(text, "").is_ok());
}

TEST_CASE("the signature of one grant is none of another") {
  const Issuer issuer;
  const std::string alice = issuer.authority().grant(grant_of("alice")).value();
  const std::string bob = issuer.authority().grant(grant_of("bob")).value();
  const auto cut = [](const std::string& text) { return text.find("-----BEGIN SQUARE SIGNATURE"); };
  const std::string spliced = alice.substr(0, cut(alice)) + bob.substr(cut(bob));
  CHECK(read_grant(spliced, authority_pem(issuer)).status().code() == StatusCode::kUnauthenticated);
}

TEST_CASE("what is signed and no grant is an error") {
  const Issuer issuer;
  for (const char* const encoded :
       {"", "{", "[]", "{}", R"({"format": "1"})", R"({"format": 2})", R"({"format": 1})",
        R"({"format": 1, "domain": "square.test", "tenant": 5})"}) {
    const Status read = read_grant(signed_by(issuer, encoded), authority_pem(issuer)).status();
    CHECK_MESSAGE(read.code() == StatusCode::kInvalidArgument, encoded, ": ", read.to_string());
  }
}

TEST_CASE("grants that cannot be are not signed") {
  const Authority authority = Issuer().authority();
  const auto refused = [&](auto change) {
    Grant grant = grant_of("alice");
    change(grant);
    return authority.grant(grant).status().code() == StatusCode::kInvalidArgument;
  };
  CHECK(refused([](Grant& grant) { grant.tenant = "a\nb"; }));
  CHECK(refused([](Grant& grant) { grant.weight = 0; }));
  CHECK(refused([](Grant& grant) { grant.weight = std::numeric_limits<double>::quiet_NaN(); }));
  CHECK(refused([](Grant& grant) { grant.operations = {"dance"}; }));
  CHECK(refused([](Grant& grant) { grant.groups = 0; }));
  CHECK(refused([](Grant& grant) { grant.nodes.assign(kMaxGrantNodes + 1, "x"); }));
}

TEST_CASE("what is not granted is named") {
  const Grant grant = grant_of("alice");
  const std::vector<std::string> nodes{"a", "b"};
  CHECK(trust::check_wish(grant, {"alice", nodes, {"broadcast"}, 2.5}).is_ok());
  const std::vector<std::string> more{"a", "c"};
  for (const auto& [status, word] :
       {std::pair(trust::check_wish(grant, {"bob", nodes, {}, 0}), "bob"),
        std::pair(trust::check_wish(grant, {"alice", more, {}, 0}), "\"c\""),
        std::pair(trust::check_wish(grant, {"alice", nodes, {"reduce"}, 0}), "reduce"),
        std::pair(trust::check_wish(grant, {"alice", nodes, {}, 3}), "weight")}) {
    CHECK(status.code() == StatusCode::kPermissionDenied);
    CHECK_MESSAGE(status.message().find(word) != std::string::npos, status.message());
  }
  Grant open = grant;
  open.nodes.clear();
  open.operations.clear();
  CHECK(trust::check_wish(open, {"alice", more, {"reduce"}, 0}).is_ok());
}
